// The list of tasks, newest first. Listing a large state takes a while, so only the first page is refreshed often, and less often if it takes long.
// The pages of older tasks are refreshed every ten seconds.

/** restFor is how many times longer than a listing the pause after it is, at least; wholeEvery is the time between two listings of all pages. */
const restFor = 20, wholeEvery = 10000;

class TaskList {
  constructor(open, trouble) {
    Object.assign(this, {open, trouble, tasks: [], items: new Map(), pages: 1, current: null, whole: 0});
    const show = pages => { this.pages = pages; this.whole = 0; this.refresh().catch(trouble); };
    at("status").onchange = at("tool").onchange = () => show(1);
    at("more").onclick = () => show(Math.min(this.pages + 1, 20));
  }

  /** watch refreshes the list as long as it is visible. */
  async watch() {
    for (let failures = 0; ;) {
      const began = Date.now();
      if (!document.hidden && at("list").offsetParent !== null) {
        try {
          await this.refresh();
          this.trouble(null);
          failures = 0;
        } catch (e) {
          this.trouble(e);
          failures++;
        }
      }
      await pause(Math.min(10000, Math.max(1500 * 2 ** failures, restFor * (Date.now() - began))));
    }
  }

  async refresh() {
    const filter = {};
    if (at("status").value) filter.status = at("status").value;
    if (at("tool").value) filter.tool = at("tool").value;
    const tasks = [], whole = Date.now() - this.whole > wholeEvery, before = this.tasks;
    let cursor, tools = [];
    for (let page = 0; page < this.pages; page++) {
      const answer = await door.call("view_tasks", cursor ? {...filter, cursor} : filter);
      tasks.push(...answer.tasks ?? []);
      tools = answer.tools ?? tools;
      cursor = answer.nextCursor;
      if (!cursor) break;
      const known = whole ? -1 : before.findIndex(task => task.taskId === cursor);
      if (known >= 0) {
        tasks.push(...before.slice(known + 1));
        cursor = this.cursor;
        break;
      }
    }
    if (filter.status !== (at("status").value || undefined) || filter.tool !== (at("tool").value || undefined)) return; // the filter has changed meanwhile
    if (whole) this.whole = Date.now();
    this.tasks = tasks;
    this.cursor = cursor;
    for (const task of tasks) if (!ended(task.status)) sight(task);
    at("more").hidden = !cursor;
    at("none").hidden = tasks.length > 0;
    say(at("none"), filter.status || filter.tool ? "No such tasks." : "No tasks yet. They appear here as hosts call tools.");
    this.choices([...tools, ...tasks.map(task => task.tool)].sort());
    this.show();
  }

  choices(tools) {
    const box = at("tool"), chosen = box.value, names = [...new Set([...tools, ...chosen ? [chosen] : []])].slice(0, 500);
    if (names.join("\n") === this.names) return;
    this.names = names.join("\n");
    box.replaceChildren(make("option", {value: "", textContent: "any"}), ...names.map(name => make("option", {value: name, textContent: plain(name, 60)})));
    box.value = chosen;
  }

  show() {
    const list = at("tasks"), items = new Map();
    let before = null;
    for (const task of this.tasks) {
      const item = this.items.get(task.taskId) ?? this.item(task.taskId);
      items.set(task.taskId, item);
      this.fill(item, task);
      const place = before ? before.nextSibling : list.firstChild;
      if (place !== item.li) list.insertBefore(item.li, place);
      before = item.li;
    }
    for (const [id, item] of this.items) if (!items.has(id)) item.li.remove();
    this.items = items;
  }

  item(id) {
    const item = {mark: make("span", {ariaHidden: "true"}), tool: make("span", {className: "tool"}), age: make("span", {className: "age"}), last: make("span", {className: "last"}),
      word: make("span", {className: "hidden"}), bar: make("progress", {hidden: true, ariaLabel: "Progress"})};
    item.button = make("button", {type: "button", onclick: () => this.open(id)}, item.mark, make("span", {className: "tool"}, item.tool, item.word), item.age, item.last, item.bar);
    item.button.dataset.id = id;
    item.li = make("li", {}, item.button);
    return item;
  }

  fill(item, task) {
    say(item.mark, STATUS[task.status] ?? "·");
    item.mark.className = `dot-box ${statusClass(task.status)}`;
    say(item.tool, plain(task.title || task.tool, 100));
    say(item.word, `, ${statusWord(task.status)}, `);
    say(item.age, `${began(task.createdAt)} · ${duration(task.durationMs)}${ended(task.status) ? "" : "…"}`);
    say(item.last, plain(task.lastLine || task.statusMessage, 120));
    const p = task.progress;
    item.bar.hidden = !p || ended(task.status);
    if (p?.total > 0) Object.assign(item.bar, {max: p.total, value: Math.min(p.progress, p.total)});
    const current = String(task.taskId === this.current);
    if (item.button.getAttribute("aria-current") !== current) item.button.setAttribute("aria-current", current);
  }

  select(id) {
    this.current = id;
    for (const [other, item] of this.items) item.button.setAttribute("aria-current", String(other === id));
  }

  /** move moves the focus by so many tasks. */
  move(by) {
    const buttons = [...at("tasks").querySelectorAll("button")];
    const k = buttons.indexOf(document.activeElement);
    buttons[Math.min(buttons.length - 1, Math.max(0, k < 0 ? 0 : k + by))]?.focus();
  }
}
