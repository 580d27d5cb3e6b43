// A line becomes rows, which are as wide as the window, as in a terminal. All rows have the same height, so that a row's place is its number times
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
    line.rows = ASCII.test(line.text) ? Math.max(1, Math.ceil(line.text.length / columns)) : layout(line, columns).length;
  }
  return line.rows;
}

/** layout breaks a line into rows, each a list of runs. */
function layout(line, columns) {
  const rows = [[]];
  let column = 0, marks = 0;
  for (const run of parse(line.text, line.style).runs) {
    if (ASCII.test(run.text)) {
      for (let k = 0; k < run.text.length;) {
        if (column === columns) { rows.push([]); column = 0; }
        const piece = run.text.slice(k, k + columns - column);
        rows.at(-1).push({text: piece, style: run.style});
        k += piece.length;
        column += piece.length;
      }
      continue;
    }
    let piece = "";
    const flush = () => { if (piece) rows.at(-1).push({text: piece, style: run.style}); piece = ""; };
    for (let char of run.text) {
      let width = 1;
      if (char === "\t") char = " ".repeat(width = 8 - column % 8);
      else if (MARK.test(char)) {
        if (++marks > maxMarks) continue;
        width = 0;
      } else if (char > "\u10ff" && WIDE.test(char)) width = 2;
      if (width) marks = 0;
      if (column + width > columns && column > 0) { flush(); rows.push([]); column = 0; }
      piece += char;
      column += width;
    }
    flush();
  }
  return rows;
}
