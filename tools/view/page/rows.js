// A line becomes rows, which are as wide as the window and end at blanks where they can. All rows have the same height, so that a row's place is its number times
// that.

const ASCII = /^[\x20-\x7e]*$/;
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const MARK = /[\p{Mn}\p{Me}\u200b-\u200d\ufe00-\ufe0f]/u;

/** maxMarks is how many marks a character may have: more of them would cover other rows. */
const maxMarks = 4;

/** rowsOf counts the rows of a line. It lays them out only if the line is not plain ASCII. */
function rowsOf(line, columns) {
  if (line.columns !== columns) {
    line.columns = columns;
    line.rows = ASCII.test(line.text) ? cutsOf(line.text, columns).length + 1 : layout(line, columns).length;
  }
  return line.rows;
}

/** cutsOf returns where the rows of a text after the first begin: after a blank if the row has one, which may hang over the edge. */
function cutsOf(text, columns) {
  const cuts = [];
  if (ASCII.test(text)) {
    for (let from = 0; text.length - from > columns; cuts.push(from)) {
      const row = text.slice(from, from + columns + 1), blank = row.lastIndexOf(" ");
      from += row.slice(0, Math.max(0, blank)).trim() ? blank + 1 : columns;
      if (from >= text.length) break;
    }
    return cuts;
  }
  let column = 0, from = 0, word = 0, before = 0; // where the last word begins, and the columns before it
  for (let k = 0; k < text.length;) {
    const char = String.fromCodePoint(text.codePointAt(k));
    const width = MARK.test(char) ? 0 : char > "\u10ff" && WIDE.test(char) ? 2 : 1;
    if (column + width > columns && column > 0 && char !== " ") {
      const whole = text.slice(from, word).trim();
      cuts.push(from = whole ? word : k);
      column = whole ? column - before : 0;
    }
    column += width;
    k += char.length;
    if (char === " ") { word = k; before = column; }
  }
  return cuts;
}

/** layout breaks a line into rows, each a list of runs. */
function layout(line, columns) {
  const {runs} = parse(line.text, line.style);
  let column = 0, marks = 0;
  for (const run of runs) {
    if (ASCII.test(run.text)) {
      column += run.text.length;
      continue;
    }
    let shown = "";
    for (let char of run.text) {
      if (char === "\t") char = " ".repeat(8 - column % 8);
      else if (!MARK.test(char)) marks = 0;
      else if (++marks > maxMarks) continue;
      shown += char;
      column += char.length;
    }
    run.text = shown;
  }
  const rows = [[]], cuts = cutsOf(runs.map(run => run.text).join(""), columns);
  let at = 0; // in the text of all runs
  for (const {text, style} of runs) {
    for (let k = 0; k < text.length;) {
      if (at === cuts[rows.length - 1]) rows.push([]);
      const piece = text.slice(k, k + (cuts[rows.length - 1] ?? Infinity) - at);
      rows.at(-1).push({text: piece, style});
      k += piece.length;
      at += piece.length;
    }
  }
  return rows;
}
