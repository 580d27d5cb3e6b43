// Escape sequences, of a terminal (ESC [) or as the log keeps colours (U+009B). Only Select Graphic Rendition has an effect (ECMA-48, 8.3.117). Everything else is dropped: links, titles, moves of the cursor,
// and strings (OSC, DCS and the like) with their text. No part of the expression can match what the next one begins with, so it is linear.

const ESCAPE = /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])|\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-OQ-WYZ\\`-~])|([\x00-\x08\x0a-\x1f\x7f-\x9f])|([\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])/g;

/** PLAIN is the style at the beginning. A style never changes: parse makes a new one. */
const PLAIN = Object.freeze({fg: null, bg: null, w: false, d: false, i: false, u: false, s: false, r: false});

/** parse splits a text into runs of one style, and returns the style after it. */
function parse(text, style) {
  const runs = [];
  let from = 0, shown = "";
  const flush = () => { if (shown) runs.push({text: shown, style}); shown = ""; };
  ESCAPE.lastIndex = 0;
  for (let m; (m = ESCAPE.exec(text));) {
    shown += text.slice(from, m.index);
    from = ESCAPE.lastIndex;
    if (m[4] !== undefined) shown += "\ufffd";
    else if (m[2] === "m" && !/[<=>?]/.test(m[1])) {
      flush();
      style = restyle(style, m[1]);
    }
  }
  shown += text.slice(from);
  flush();
  return {runs, style};
}

/** restyle applies the parameters of one sequence, the first 32 of them. */
function restyle(style, parameters) {
  let s = {...style};
  const codes = parameters.split(/[;:]/, 32).map(Number);
  for (let k = 0; k < codes.length; k++) {
    const c = codes[k];
    if (c === 0) s = {...PLAIN};
    else if (c === 1) s.w = true;
    else if (c === 2) s.d = true;
    else if (c === 3) s.i = true;
    else if (c === 4) s.u = true;
    else if (c === 7) s.r = true;
    else if (c === 9) s.s = true;
    else if (c === 22) s.w = s.d = false;
    else if (c === 23) s.i = false;
    else if (c === 24) s.u = false;
    else if (c === 27) s.r = false;
    else if (c === 29) s.s = false;
    else if (c >= 30 && c <= 37) s.fg = c - 30;
    else if (c >= 90 && c <= 97) s.fg = c - 82;
    else if (c === 39) s.fg = null;
    else if (c >= 40 && c <= 47) s.bg = c - 40;
    else if (c >= 100 && c <= 107) s.bg = c - 92;
    else if (c === 49) s.bg = null;
    else if (c === 38 || c === 48) {
      let colour = null;
      if (codes[k + 1] === 5) { colour = indexed(codes[k + 2]); k += 2; }
      else if (codes[k + 1] === 2) { colour = codes.slice(k + 2, k + 5).map(byte); k += 4; }
      if (colour === null || Array.isArray(colour) && colour.length < 3) continue;
      s[c === 38 ? "fg" : "bg"] = colour;
    }
  }
  return s;
}

const byte = n => Math.min(255, Math.max(0, n | 0));

/** indexed returns one of 256 colours: 16 names, a cube of 6×6×6, 24 greys. */
function indexed(n) {
  n = byte(n);
  if (n < 16) return n;
  if (n >= 232) return Array(3).fill(8 + (n - 232) * 10);
  const step = v => v ? 55 + v * 40 : 0;
  return [step(Math.floor((n - 16) / 36)), step(Math.floor((n - 16) / 6) % 6), step((n - 16) % 6)];
}

/** BASIC has the sixteen named colours as backgrounds; the text on them is dark or light. */
const BASIC = [[32, 36, 41], [179, 38, 30], [27, 110, 46], [242, 184, 75], [26, 86, 176], [142, 36, 170], [0, 105, 122], [213, 218, 224],
  [95, 102, 109], [255, 138, 128], [111, 207, 132], [255, 209, 102], [130, 177, 255], [220, 155, 234], [95, 208, 221], [255, 255, 255]];

const rgb = colour => Array.isArray(colour) ? colour : BASIC[colour];

/** styled makes the element of a run, or its bare text. */
function styled(run) {
  const s = run.style;
  if (s === PLAIN) return document.createTextNode(run.text);
  const e = document.createElement("span");
  e.textContent = run.text;
  for (const flag of "wdius") if (s[flag]) e.classList.add(flag);
  let {fg, bg} = s;
  if (s.r) [fg, bg] = [bg ?? "bg", fg ?? "text"];
  if (bg !== null) {
    e.classList.add("b");
    e.style.setProperty("--paper", bg === "text" ? "var(--text)" : `rgb(${rgb(bg)})`);
    const light = bg !== "text" && rgb(bg)[0] * .3 + rgb(bg)[1] * .59 + rgb(bg)[2] * .11 > 125;
    e.style.color = Array.isArray(fg) || fg > 0 && !s.r ? `rgb(${rgb(fg)})` : bg === "text" ? "var(--bg)" : light ? "#000" : "#fff";
  } else if (typeof fg === "number") e.classList.add(`f${fg}`);
  else if (fg !== null) {
    e.classList.add("fx");
    e.style.setProperty("--fg", `rgb(${fg})`);
  }
  return e;
}
