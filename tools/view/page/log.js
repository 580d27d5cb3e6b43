// The output: a list of rows. A window of it is in memory, and the visible rows are in the document. The scroller is about as tall as the whole log
// would be: the window's rows have their real height; the height before and after it is estimated from the bytes.
//
//	0 ────────── start ═══════════ end ────── size        positions (bytes)
//	  estimated   top   rows·height      estimated        pixels

/** maxWindow bounds the text in memory, in characters; maxPixels is what browsers can scroll; maxLine and maxChunk bound a line and an answer. */
const maxWindow = 1 << 20, maxPixels = 8e6, maxLine = 8 << 10, maxChunk = 64 << 10;

/** rowHeight is the height of .row in style.css, in pixels. */
const rowHeight = 18;

const encoder = new TextEncoder();
const bytesOf = text => ASCII.test(text) ? text.length : encoder.encode(text).length;

class Log {
  /** fetch(arguments) resolves to the answer of view_output; changed() is called when the place in the log has changed. */
  constructor(scroller, canvas, fetch, changed) {
    Object.assign(this, {scroller, canvas, fetch, changed, wrap: true, follow: false, find: "", elements: new Map(), ids: 0, columns: 80, viewport: 0, wanted: null});
    this.reset();
    scroller.addEventListener("scroll", () => this.scrolled());
    new ResizeObserver(() => this.resize()).observe(scroller);
  }

  reset() {
    this.generation = (this.generation ?? 0) + 1; // answers to requests of an older one are dropped
    this.lines = [];
    this.starts = null;
    this.start = this.end = this.size = this.held = this.top = 0;
    this.busy = false;
    this.wanted = null;
    this.marked = -1; // the position of the current match
    this.elements.clear();
    this.canvas.replaceChildren();
    this.settle();
  }

  // ---- Lines

  /** add appends an answer that begins where the window ends. */
  add(answer) {
    if (answer.start > this.end && this.end === this.start) this.start = this.end = answer.start;
    if (answer.start > this.end) this.note(`[${answer.start - this.end} bytes of the output are no longer kept]`, answer.start);
    const last = this.lines.at(-1), open = last && !last.closed && !last.note;
    if (open) this.lines.pop();
    const from = open ? last : {position: answer.start, text: "", style: last?.after ?? PLAIN};
    this.lines.push(...this.split(from, answer.text, answer.start, answer.next));
    this.end = answer.next;
    this.measured(answer.text.length);
  }

  /** prepend inserts an answer that ends where the window begins. */
  prepend(answer) {
    const before = this.height();
    const lines = this.split({position: answer.start, text: "", style: PLAIN}, answer.text, answer.start, answer.next);
    const first = this.lines[0], last = lines.at(-1);
    if (first && last && !last.closed && !first.note && last.text.length + first.text.length <= maxLine) {
      lines.pop();
      this.lines[0] = this.line(last.position, last.text + first.text, last.style, first.closed);
    }
    let style = lines.at(-1)?.after ?? PLAIN; // the style was unknown until now
    for (const line of this.lines) {
      if (line.note || line.style === style) break;
      line.style = style;
      line.id = ++this.ids;
      style = line.after = parse(line.text, style).style;
    }
    this.lines.unshift(...lines);
    this.start = answer.start;
    this.measured(answer.text.length);
    this.top -= this.height() - before;
  }

  /** split splits a text, which continues an open line, into lines. */
  split(open, text, start, next) {
    const lines = [];
    const exact = bytesOf(text) === next - start; // otherwise positions within the text are approximate
    let {style, position} = open, rest = open.text, k = 0, from = start;
    const put = (content, closed) => {
      const line = this.line(position, content, style, closed);
      lines.push(line);
      style = line.after;
    };
    while (k < text.length) {
      const newline = text.indexOf("\n", k), to = newline < 0 ? text.length : newline;
      let piece = text.slice(k, to);
      k = newline < 0 ? to : to + 1;
      const here = from + (exact ? bytesOf(piece) : piece.length) + (newline < 0 ? 0 : 1);
      rest += piece;
      while (rest.length > maxLine) { // a long line is cut
        put(rest.slice(0, maxLine), false);
        rest = rest.slice(maxLine);
        position = Math.max(position, Math.min(next, here - (exact ? bytesOf(rest) : rest.length)));
      }
      from = here;
      if (newline >= 0) {
        put(rest, true);
        rest = "";
        position = Math.min(from, next);
      }
    }
    if (rest) put(rest, false);
    return lines;
  }

  line(position, text, style, closed) {
    if (text.endsWith("\r")) text = text.slice(0, closed ? -1 : undefined);
    const back = text.lastIndexOf("\r", text.length - 2); // it was overwritten, like a progress bar
    if (back >= 0) {
      style = parse(text.slice(0, back), style).style;
      text = text.slice(back + 1);
    }
    const after = /[\x1b\x9b]/.test(text) ? parse(text, style).style : style;
    return {id: ++this.ids, position, text, style, after, closed, columns: 0, rows: 0};
  }

  note(text, position) {
    this.lines.push({id: ++this.ids, position, text, style: PLAIN, after: PLAIN, closed: true, note: true, columns: 0, rows: 0});
    this.end = position;
  }

  measured(characters) {
    this.held += characters;
    this.starts = null;
  }

  /** trim drops lines at one side until the window is small enough. */
  trim(atHead) {
    if (this.held <= maxWindow && this.lines.length <= maxWindow / 32) return;
    let gone = 0, n = 0;
    const enough = () => this.held - gone <= maxWindow * .75 && this.lines.length - n <= maxWindow / 40;
    if (atHead) {
      while (!enough() && n < this.lines.length - 1) gone += this.lines[n++].text.length + 1;
      this.top += this.rowAt(n) * rowHeight;
      this.lines.splice(0, n);
      this.start = this.lines[0].position;
    } else {
      while (!enough() && n < this.lines.length - 1) gone += this.lines[this.lines.length - ++n].text.length + 1;
      this.end = this.lines[this.lines.length - n].position;
      this.lines.length -= n;
    }
    this.measured(-gone);
  }

  // ---- Rows and pixels

  /** index returns the number of the first row of each line, and that after the last line. */
  index() {
    if (this.starts) return this.starts;
    const starts = new Int32Array(this.lines.length + 1);
    for (let k = 0; k < this.lines.length; k++) starts[k + 1] = starts[k] + rowsOf(this.lines[k], this.columns);
    return this.starts = starts;
  }

  rowAt(line) { return this.index()[line]; }

  height() { return this.index()[this.lines.length] * rowHeight; }

  /** lineOf returns the last line for which of(line), which rises, is at most value. */
  lineOf(value, of) {
    let low = 0, high = this.lines.length;
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (of(middle) <= value) low = middle; else high = middle;
    }
    return low;
  }

  /** perByte estimates the height of a byte in pixels. */
  perByte() {
    const bytes = this.end - this.start;
    const estimate = bytes > 0 ? this.height() / bytes : rowHeight / 60;
    return Math.min(estimate, maxPixels / Math.max(1, this.size));
  }

  /** settle corrects the estimates and draws. Visible rows stay where they are. */
  settle() {
    const {scroller} = this, per = this.perByte();
    const ideal = Math.round(this.start * per);
    let top = this.top;
    if (this.start === 0) top = 0;
    else if (top < 40 * rowHeight || top > 2 * maxPixels || Math.abs(top - ideal) > maxPixels / 4) top = Math.max(40 * rowHeight, ideal);
    const shift = top - this.top;
    this.top = top;
    const total = Math.max(1, top + this.height() + (this.end < this.size ? Math.max(40 * rowHeight, Math.round((this.size - this.end) * per)) : 0));
    if (total !== this.total) this.canvas.style.height = `${this.total = total}px`;
    if (this.follow) scroller.scrollTop = total;
    else if (shift) scroller.scrollTop += shift;
    this.expected = scroller.scrollTop;
    this.render();
  }

  resize() {
    const probe = make("span", {className: "row", textContent: "0".repeat(100)});
    probe.style.right = "auto";
    probe.style.contain = "none";
    this.canvas.append(probe);
    const width = (probe.getBoundingClientRect().width - 16) / 100;
    probe.remove();
    this.viewport = this.scroller.clientHeight;
    const columns = this.wrap ? Math.max(20, Math.floor((this.scroller.clientWidth - 18) / width)) : 2000;
    this.canvas.style.width = this.wrap ? "" : `${Math.ceil(columns * width)}px`;
    if (columns !== this.columns) {
      const anchor = this.position();
      this.columns = columns;
      this.starts = null;
      if (!this.follow && this.lines.length) this.hold(anchor, 0);
    }
    this.settle();
  }

  /** position returns the position of the first visible line. */
  position() {
    if (!this.lines.length) return 0;
    const row = (this.scroller.scrollTop - this.top) / rowHeight;
    return this.lines[this.lineOf(row, k => this.rowAt(k))].position;
  }

  /** hold scrolls so that the line at a position is so many pixels below the upper edge. */
  hold(position, below) {
    const line = this.lineOf(position, k => this.lines[k].position);
    this.scroller.scrollTop = this.expected = this.top + this.rowAt(line) * rowHeight - below;
  }

  /** render puts the visible rows into the document. It keeps elements that are there, so that a selection stays. */
  render() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.draw();
    });
  }

  draw() {
    const {scroller} = this, edge = 4;
    this.viewport ||= scroller.clientHeight;
    const first = Math.max(0, Math.floor((scroller.scrollTop - this.top) / rowHeight) - edge);
    const last = Math.min(this.index()[this.lines.length], Math.ceil((scroller.scrollTop + this.viewport - this.top) / rowHeight) + edge);
    const kept = new Map(), fresh = [];
    for (let row = first, k = first < last ? this.lineOf(first, n => this.rowAt(n)) : 0; row < last; k++) {
      const line = this.lines[k], begin = this.rowAt(k), end = this.rowAt(k + 1);
      let rows = null;
      for (; row < Math.min(end, last); row++) {
        const key = `${line.id}.${row - begin}.${this.columns}.${this.find}.${line.position === this.marked}`;
        let element = this.elements.get(key);
        if (!element) {
          rows ??= layout(line, this.columns);
          element = this.element(line, rows[row - begin] ?? [], row - begin);
          fresh.push(element);
        }
        const y = `translateY(${this.top + row * rowHeight}px)`;
        if (element.style.transform !== y) element.style.transform = y;
        kept.set(key, element);
      }
    }
    for (const [key, element] of this.elements) if (kept.get(key) !== element) element.remove();
    this.elements = kept;
    this.canvas.append(...fresh);
    if (fresh.length && !this.measuredFirst) this.measuredFirst = performance.mark("first output");
    this.changed();
    this.need();
  }

  element(line, runs, number) {
    const e = make("div", {className: "row"});
    if (line.note) e.classList.add("note");
    if (number) e.classList.add("more");
    if (line.position === this.marked) e.classList.add("match");
    for (const run of runs) e.append(styled(run));
    if (this.find) highlight(e, this.find);
    return e;
  }

  // ---- Fetching

  scrolled() {
    const {scroller} = this;
    if (Math.abs(scroller.scrollTop - this.expected) > 2) { // the user has scrolled
      const atEnd = this.atEnd();
      if (this.follow !== atEnd && (!atEnd || this.live)) this.setFollow(atEnd);
      this.expected = scroller.scrollTop;
    }
    this.render();
  }

  /** atEnd reports whether the last row is in sight. */
  atEnd() { return this.end >= this.size && this.scroller.scrollTop + this.viewport >= this.total - rowHeight; }

  setFollow(on) {
    this.follow = on;
    this.onFollow?.(on);
    if (on && this.end < this.size) this.jump(this.size);
    else this.settle();
  }

  /** need fetches what is visible or nearly visible, one answer at a time. */
  need() {
    if (this.busy || !this.size) return;
    const y = this.scroller.scrollTop, near = 2 * this.viewport;
    const bottom = this.top + this.height();
    if (this.start > 0 && y + this.viewport < this.top || this.end < this.size && y > bottom) {
      this.far();
    } else if (this.start > 0 && y < this.top + near) {
      this.load({before: this.start}, answer => {
        if (answer.start >= this.start) { this.start = 0; return; } // there is nothing before
        this.prepend(answer);
        this.trim(false);
      });
    } else if (this.end < this.size && y + this.viewport > bottom - near) {
      this.load({after: this.end}, answer => {
        if (answer.next <= this.end) { this.size = this.end; return; }
        this.add(answer);
        this.trim(true);
      });
    }
  }

  /** far jumps to where the scroll bar was moved, once it has rested for a moment. */
  far() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      const y = this.scroller.scrollTop, all = Math.max(1, this.total - this.viewport);
      if (this.start > 0 && y + this.viewport < this.top || this.end < this.size && y > this.top + this.height()) this.jump(Math.round(this.size * Math.min(1, y / all)), y);
    }, 60);
  }

  /** jump moves the window to a position and shows the line there; marked: the position of a match to mark. */
  jump(position, y = null, marked = null) {
    if (marked !== null) {
      this.marked = marked;
      if (position >= this.start && position < this.end && this.lines.length) {
        this.hold(position, this.viewport / 3);
        this.settle();
        return;
      }
    }
    const back = position >= this.size ? {before: this.size} : {after: Math.max(0, position - maxChunk / 2)};
    this.load(back, answer => {
      const {size, live} = this;
      this.lines = [];
      this.held = 0;
      this.starts = null;
      this.start = this.end = answer.start;
      let text = answer.text, start = answer.start;
      const newline = start > 0 ? text.indexOf("\n") : -1;
      if (newline >= 0 && newline < maxLine) { // it begins in the middle of a line
        start += bytesOf(text.slice(0, newline + 1));
        text = text.slice(newline + 1);
      }
      this.start = this.end = start;
      this.add({text, start, next: answer.next});
      Object.assign(this, {size, live});
      const line = this.lines.length ? this.lineOf(position, k => this.lines[k].position) : 0;
      const place = y ?? Math.round(position * this.perByte());
      this.top = place - this.rowAt(line) * rowHeight;
      if (this.start === 0) this.top = 0;
      const below = marked === null ? 0 : this.viewport / 3;
      this.canvas.style.height = `${this.total = Math.max(this.total, this.top + this.height() + this.viewport)}px`;
      if (!this.follow) this.hold(position, below);
    });
  }

  /** load fetches output, and takes it unless something else is wanted meanwhile. */
  async load(where, take) {
    this.wanted = {where, take};
    if (this.busy) return; // the last request counts
    this.busy = true;
    const {generation} = this;
    try {
      while (this.wanted && generation === this.generation) {
        const {where, take} = this.wanted;
        this.wanted = null;
        const answer = await this.fetch({maxBytes: maxChunk, ...where});
        if (generation !== this.generation) return;
        if (this.wanted) continue;
        this.size = Math.max(this.size, answer.bytes);
        take(answer);
      }
    } catch (e) {
      if (e.name !== "AbortError") this.failed?.(e);
      await pause(1000);
    } finally {
      if (generation === this.generation) {
        this.busy = false;
        this.settle();
      }
    }
  }

  /** came takes new output of the task. It is added if the window ends there. */
  came(answer) {
    this.size = Math.max(this.size, answer.bytes);
    if (this.busy || answer.start < this.end) return this.settle();
    if (this.end === answer.start || this.start === this.end) {
      this.add(answer);
      if (this.follow || this.held <= maxWindow) this.trim(true);
    }
    this.settle();
  }
}

/** highlight marks a word in the texts of a row. */
function highlight(element, word) {
  const wanted = word.toLowerCase();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (let node of texts) {
    for (let k; (k = node.data.toLowerCase().indexOf(wanted)) >= 0 && k + word.length <= node.data.length;) {
      const hit = node.splitText(k);
      node = hit.splitText(word.length);
      const mark = make("mark", {});
      hit.replaceWith(mark);
      mark.append(hit);
    }
  }
}
