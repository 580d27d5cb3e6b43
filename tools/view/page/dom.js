// How the page writes: text becomes text nodes and nothing else.

const at = id => document.getElementById(id);

/** make makes an element. Its properties are set, never parsed. */
function make(tag, properties, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}

/** draw makes an element of SVG. */
function draw(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) e.setAttribute(name, attributes[name]);
  e.append(...children);
  return e;
}

/** say shows a text, unless it is shown already: a screen reader would read it again. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** announce lets a screen reader say something. */
function announce(text) {
  say(at("spoken"), text);
}

/** plain makes a stranger's text fit one line: without escape sequences and controls, and not long. */
function plain(text, most = 300) {
  const cut = String(text ?? "").slice(0, most * 8).replace(/\s+/g, " "); // parse leaves out the end of a line
  return parse(cut, PLAIN).runs.map(run => run.text).join("").trim().slice(0, most);
}

function duration(ms) {
  const s = ms / 1000;
  if (s < .1) return `${Math.max(1, Math.round(ms))} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return s < 172800 ? `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min` : `${Math.floor(s / 86400)} days`;
}

function size(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  return `${unit && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${["bytes", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

/** began says when a task was created: the time of day, or the date if that was another day. */
function began(createdAt) {
  const day = new Date(createdAt);
  return day.toDateString() === new Date().toDateString() ? day.toLocaleTimeString([], {timeStyle: "short"}) : day.toLocaleDateString();
}

/** pause waits, and rejects if the signal aborts meanwhile. It leaves no listener: a task that is followed for hours pauses very often. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => { clearTimeout(timer); reject(signal.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", abort); resolve(); }, ms);
    signal?.addEventListener("abort", abort, {once: true});
  });
}

/** STATUS has a mark for each status, shown beside the word, since not everybody sees colours. */
const STATUS = {
  working: "●", submitted: "○", queued: "○", input_required: "?", completed: "✓", failed: "✕", cancelled: "■",
};
const ended = status => status === "completed" || status === "failed" || status === "cancelled";
const statusWord = status => status === "working" ? "running" : plain(status, 30).replaceAll("_", " ");
const statusClass = status => Object.hasOwn(STATUS, status) ? `is-${status}` : "";

/** outcome splits a status message: a code, such as "exit code 1", and what was said, such as the last line. */
function outcome(task) {
  const [first, ...rest] = (task.statusMessage ?? "").trim().split(/\n+/);
  const end = rest.at(-1) ?? "", line = task.lastLine ?? "";
  if (task.status === "failed" && rest.length && first.length < 60) return {code: plain(first), said: plain(end.startsWith(line) ? end : line, 4000)};
  if (task.status === "failed" && /^(exit code|signal) \S+$/.test(first)) return {code: plain(first), said: ""};
  return {code: "", said: plain(task.statusMessage, 4000)};
}

/** given shows arguments in one line. */
const given = args => Object.entries(args ?? {})
  .map(([name, value]) => plain(`${name}=${typeof value === "string" && /^\S+$/.test(value) ? value : withEscapes(JSON.stringify(value))}`, 200)).join("  ");
