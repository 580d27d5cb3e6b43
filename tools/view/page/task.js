// One task: what it is, its output as it comes, and what can be done with it.

class TaskView {
  /** open(id) shows another task; trouble(error, ms) shows an error, at least for so many milliseconds; trouble(null) hides it. */
  constructor(open, trouble) {
    Object.assign(this, {open, trouble, id: null, task: null, matches: [], current: -1});
    this.log = new Log(at("log"), at("canvas"), args => door.call("view_output", {taskId: this.id, ...args}, this.stop?.signal), () => this.place());
    this.log.failed = trouble;
    this.log.onFollow = on => { at("follow").checked = on; };
    this.terminal = new Terminal(trouble);
    this.timeline = new Timeline(at("timeline"), at("silence"));
    at("follow").onchange = () => this.log.setFollow(at("follow").checked);
    at("wrap").onchange = () => { this.log.wrap = at("wrap").checked; this.log.columns = 0; this.log.resize(); };
    at("cancel").onclick = () => this.cancel();
    at("again").onclick = () => this.again();
    at("yes").onclick = () => this.answer(true);
    at("no").onclick = () => this.answer(false);
    at("go").onclick = () => this.search(); // not a form: the sandboxes of some hosts allow none
    at("pattern").onkeydown = event => { if (event.key === "Enter" && !event.isComposing) this.search(); };
    at("previous").onclick = () => this.step(-1);
    at("next").onclick = () => this.step(1);
    at("copy").onclick = () => this.carry(at("copy"), text => navigator.clipboard.writeText(text.join("")));
    at("download").onclick = () => this.carry(at("download"), text => {
      save(new Blob(text, {type: "text/plain"}), `${this.task.tool.replace(/[^\w.-]+/g, "-")}-${this.id.slice(0, 8)}.log`);
    });
    at("download").hidden = door.app; // whose sandbox allows none
    at("pattern").oninput = () => { if (!at("pattern").value) this.forget(); };
  }

  /** show opens a task, or none. */
  show(id) {
    if (id === this.id) return;
    this.stop?.abort();
    this.id = id;
    this.task = null;
    at("nothing").hidden = id !== null;
    at("detail").hidden = id === null;
    if (id === null) return;
    this.stop = new AbortController();
    at("pattern").value = "";
    this.forget();
    this.log.reset();
    this.log.live = true;
    this.log.setFollow(true);
    this.timeline.clear();
    this.terminal.clear();
    at("files").hidden = true;
    at("files").replaceChildren();
    for (const part of ["name", "badge", "facts", "message", "where"]) say(at(part), "");
    this.told = 0; // percent of its progress
    this.watch(id, this.stop.signal);
  }

  /** watch follows a task until another one is shown. The server waits for news, so a silent task costs a request in 20 s. */
  async watch(id, signal) {
    let failures = 0, first = true, begun = false;
    while (!signal.aborted) {
      try {
        while (document.hidden && !first) await pause(500, signal);
        const {log} = this, tip = log.follow || log.end >= log.size && log.held < maxWindow * .7;
        const lags = log.follow && log.size - log.end > 4 * maxChunk;
        const args = first || lags ? {before: Number.MAX_SAFE_INTEGER} : tip ? {after: log.end} : {after: log.size, maxBytes: 1024};
        const answer = await door.call("view_output", {taskId: id, maxBytes: maxChunk, ...args, waitMs: first || lags ? 0 : door.patience}, signal);
        failures = 0;
        this.trouble(null);
        if (answer.bytes && !begun) { begun = true; this.terminal.follow(id, signal); } // a terminal's log begins with its size
        this.timeline.sight(answer.task, answer.bytes);
        this.take(answer.task);
        if (first && !answer.start) log.came(answer);
        else if (first || lags) { log.reset(); log.live = !ended(answer.task.status); log.end = log.start = answer.start; log.came(answer); }
        else if (tip) log.came(answer);
        else { log.size = Math.max(log.size, answer.bytes); log.settle(); }
        if (!first && !lags && answer.text) await pause(80, signal); // no faster than people can read
        first = false;
        if (ended(answer.task.status) && answer.bytes <= Math.max(answer.next, log.size)) {
          if (log.follow && log.end < answer.bytes) continue;
          this.over();
          return;
        }
      } catch (e) {
        if (signal.aborted) return;
        if (e instanceof Refused) say(at("message"), e.message); // the task is gone, or too much was asked
        else this.trouble(e);
        await pause(Math.min(10000, 500 * 2 ** failures++));
      }
    }
  }

  /** over shows the end of a task. */
  over() {
    this.log.live = false;
    this.log.settle();
    at("follow").checked = false; // the log stays at its end until somebody scrolls
    at("follow").disabled = true;
    this.terminal.end();
    showFiles(this.id, this.stop.signal, this.trouble).catch(e => { if (e.name !== "AbortError") this.trouble(e, 10000); });
    this.history();
  }

  /** take shows the task as it is now. */
  take(task) {
    const before = this.task;
    this.task = task;
    this.at = Date.now();
    const isOver = ended(task.status);
    say(at("name"), plain(task.title || task.tool));
    at("badge").className = `badge ${statusClass(task.status)}`;
    const {said} = outcome(task), repeated = task.status !== "failed" && [task.lastLine, task.progress?.message].some(line => plain(line) === said);
    say(at("message"), repeated ? "" : said);
    at("arguments").hidden = !task.arguments || Object.keys(task.arguments).length === 0;
    if (!before) say(at("arguments"), plainLines(withEscapes(JSON.stringify(task.arguments ?? {}, null, 2))));
    at("cancel").hidden = !task.canCancel || isOver;
    at("again").hidden = !task.canRunAgain;
    at("asked").hidden = task.status !== "input_required" || task.answered === true;
    at("follow").disabled = isOver;
    this.progress(task);
    this.tick();
    if (!before) this.history();
    if (before && before.status !== task.status) announce(`${plain(task.tool)}: ${statusWord(task.status)}`);
    document.title = `${STATUS[task.status] ?? ""} ${plain(task.tool, 60)} – runnel`;
  }

  progress(task) {
    const p = task.progress, bar = at("bar");
    at("progress").hidden = !p || ended(task.status);
    if (!p) return;
    if (p.total > 0) {
      bar.max = p.total;
      bar.value = Math.min(p.progress, p.total);
    } else bar.removeAttribute("value");
    const percent = p.total > 0 ? Math.floor(p.progress / p.total * 100) : null;
    say(at("far"), [percent === null ? String(p.progress) : `${percent} %`, plain(p.message)].filter(Boolean).join("  "));
    if (percent !== null && percent >= this.told + 25) announce(`${this.told = percent - percent % 25} %`);
  }

  /** tick updates what changes with time alone. */
  tick() {
    const {task} = this;
    if (!task) return;
    const took = ended(task.status) ? task.durationMs : task.durationMs + Date.now() - this.at;
    say(at("badge"), [`${STATUS[task.status] ?? ""} ${statusWord(task.status)}`, outcome(task).code, duration(took)].filter(Boolean).join(" · "));
    const full = ms => new Date(ms).toLocaleString([], {dateStyle: "full", timeStyle: "medium"});
    const whole = [task.taskId, `began ${full(task.createdAt)}`, task.endedAt && `ended ${full(task.endedAt)}`, plain(task.tool)].filter(Boolean).join(" · ");
    say(at("whole"), whole);
    at("facts").title = at("badge").title = at("name").title = whole;
    say(at("facts"), [began(task.createdAt), size(task.bytes ?? 0), task.where && `on ${plain(task.where)}`, task.host && `of ${plain(task.host)}`,
      door.app && !task.mine && "of another session", given(task.arguments)].filter(Boolean).join(" · "));
    if (!ended(task.status) && Date.now() - this.plotted > 5000) this.history();
    this.timeline.draw(ended(task.status) ? task : {...task, durationMs: took});
  }

  /** place shows where in the log the reader is. */
  place() {
    const {log} = this;
    const result = log.size ? "" : this.task?.result ?? "";
    at("result").hidden = !result;
    say(at("result"), plainLines(result));
    if (!log.size) return say(at("where"), result ? "No output; this is the result." : this.task && ended(this.task.status) ? "No output." : "No output yet.");
    const all = log.start === 0 && log.end >= log.size;
    say(at("where"), all ? "" : `${log.atEnd() ? 100 : Math.floor(log.position() / log.size * 100)} % of ${size(log.size)}`);
  }

  async history() {
    this.plotted = Date.now();
    try {
      const {id} = this;
      const {runs} = await door.call("view_history", {tool: this.task.tool}, this.stop.signal);
      if (id === this.id) showHistory(runs ?? [], id, this.open);
      const {times} = await door.call("view_times", {taskId: id}, this.stop.signal);
      if (id !== this.id) return;
      this.timeline.stored = times ?? [];
      this.tick();
    } catch (e) {
      if (e.name !== "AbortError") say(at("runs-text"), e.message);
    }
  }

  cancel() {
    if (at("cancel").hidden || !this.task) return;
    const sure = at("sure"), {id} = this;
    say(at("sure-text"), `${plain(this.task.title || this.task.tool)} stops with everything it has started.`);
    sure.returnValue = "";
    sure.onclose = async () => {
      if (sure.returnValue !== "yes" || id !== this.id) return;
      announce("Cancelling");
      try {
        const task = await door.call("view_cancel", {taskId: id});
        if (id === this.id) this.take(task);
      } catch (e) { this.trouble(e, 10000); }
    };
    sure.showModal();
  }

  /** answer answers the question that is shown. */
  async answer(yes) {
    const {id, task} = this;
    try {
      await door.call("view_answer", {taskId: id, message: task.statusMessage ?? "", yes});
      if (id === this.id) at("asked").hidden = true;
      announce("Answered");
    } catch (e) { this.trouble(e, 10000); }
  }

  async again() {
    if (at("again").hidden || !this.task) return;
    at("again").disabled = true;
    try {
      const {taskId} = await door.call("view_again", {taskId: this.id});
      announce("Started again");
      this.open(taskId);
    } catch (e) {
      this.trouble(e, 10000);
    } finally {
      at("again").disabled = false;
    }
  }

  /** carry reads the whole output, without its escape sequences, and gives it to take. */
  async carry(button, take) {
    const {id} = this, {signal} = this.stop, texts = [], word = button.textContent;
    button.disabled = true;
    try {
      for (let after = 0, rest = "", more = true; more;) {
        const answer = await door.call("view_output", {taskId: id, after, maxBytes: 4 * maxChunk}, signal);
        more = answer.next > after && answer.next < answer.bytes;
        after = answer.next;
        const text = rest + answer.text, whole = more ? text.lastIndexOf("\n") + 1 : text.length; // an escape sequence ends in its line
        texts.push(unstyled(text.slice(0, whole)));
        rest = text.slice(whole);
        say(button, `${Math.floor(after / Math.max(1, answer.bytes) * 100)} %`);
      }
      await take(texts);
      announce("Done");
    } catch (e) {
      if (e.name !== "AbortError") this.trouble(e, 10000);
    } finally {
      button.disabled = false;
      say(button, word);
    }
  }

  // ---- Search

  forget() {
    this.matches = [];
    this.current = -1;
    this.upTo = undefined;
    this.log.find = "";
    this.log.marked = -1;
    at("previous").disabled = at("next").disabled = true;
    say(at("found"), "");
    this.log.render();
  }

  async search() {
    const pattern = at("pattern").value;
    this.forget();
    if (!pattern) return;
    this.pattern = pattern;
    if (!/[\\^$.|?*+()[\]{}]/.test(pattern)) this.log.find = pattern; // a pattern is for the server: an expression could keep this page busy
    say(at("found"), "searching…");
    if (await this.seek(0)) this.step(1);
  }

  /** seek asks for more matches. */
  async seek(after) {
    const {id, pattern} = this;
    try {
      const found = await door.call("view_search", {taskId: id, pattern, after, max: 200}, this.stop.signal);
      if (id !== this.id || pattern !== this.pattern) return false;
      this.matches.push(...found.matches ?? []);
      this.upTo = found.next;
      at("previous").disabled = at("next").disabled = !this.matches.length;
      if (!this.matches.length && this.upTo !== undefined && this.upTo > after) { // a long stretch without one
        say(at("found"), `searching… ${Math.floor(this.upTo / found.bytes * 100)} %`);
        return this.seek(this.upTo);
      }
      this.count();
      if (!this.matches.length) announce("No matches");
      return found.matches?.length > 0;
    } catch (e) {
      if (e.name !== "AbortError") say(at("found"), e.message);
      return false;
    }
  }

  count() {
    const all = this.matches.length, more = this.upTo !== undefined ? " or more" : "";
    say(at("found"), all ? `${this.current < 0 ? "" : `${this.current + 1} of `}${all}${more}` : "no matches");
  }

  async step(by) {
    if (!this.matches.length) return;
    if (this.current + by >= this.matches.length && this.upTo !== undefined) await this.seek(this.upTo);
    this.current = (this.current + by + this.matches.length) % this.matches.length;
    const match = this.matches[this.current];
    this.log.setFollow(false);
    this.log.jump(match.position, null, match.position);
    this.count();
    announce(`Match ${this.current + 1} of ${this.matches.length}: ${plain(match.line, 200)}`);
  }
}

/** withEscapes shows the characters of a JSON text that are not seen, or change the direction of others, as their escapes. */
const withEscapes = json => json.replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu,
  hidden => hidden.split("").map(unit => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0")).join(""));

/** unstyled is a text of several lines without escape sequences; of lines that were overwritten, the last state. */
const unstyled = text => text.split("\n").map(line => parse(line.replace(/\r$/, "").replace(/.*\r/, ""), PLAIN).runs.map(run => run.text).join("")).join("\n");

/** plainLines is plain for text of several lines. */
const plainLines = text => unstyled(text.slice(0, 20000));
