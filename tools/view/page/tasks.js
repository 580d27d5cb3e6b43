// The list of tasks, newest first. All of them are in memory, so that filters and their counts are quick; only the rows in sight are in the document.
// The first page is asked for often, less often if that takes long; older pages come once, and again every few minutes.

/** restFor is how many times longer than a listing the pause after it is, at least; wholeEvery is the time between two listings of all pages. */
const restFor = 20, wholeEvery = 300000;

/** maxTasks bounds the tasks in memory; pageSize is how many older ones are asked for at a time. */
const maxTasks = door.app ? 500 : 20000, pageSize = 200;

/** taskHeight is the height of a row of the list in style.css, in pixels. */
const taskHeight = 54;

const SHOW = {all: () => true, running: task => !ended(task.status), failed: task => task.status === "failed"};

class TaskList {
  constructor(open, trouble) {
    Object.assign(this, {open, trouble, tasks: [], groups: [], expanded: new Set(), items: new Map(), current: null, whole: 0, filtered: 0, status: "all", cursor: undefined});
    at("tool").onchange = at("host").onchange = at("words").oninput = () => this.filter();
    this.chips = new Map(Object.keys(SHOW).map(status => [status, make("button", {type: "button", onclick: () => { this.status = status; this.filter(); }})]));
    at("chips").append(...this.chips.values());
    at("list").addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(at("list"));
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

  /** refresh lists what may have changed: the newest tasks, and those further down that run or are in sight, some of which may be deleted. */
  async refresh() {
    const {tasks: page, nextCursor} = await door.call("view_tasks", {});
    const known = this.tasks.findIndex(task => task.taskId === page.at(-1)?.taskId);
    if (!nextCursor || known < 0 || Date.now() - this.whole > wholeEvery) {
      this.whole = Date.now();
      this.tasks = page.map(prepared);
      this.cursor = nextCursor;
    } else {
      this.tasks = [...page.map(prepared), ...this.tasks.slice(known + 1)];
    }
    const inSight = new Set([...this.items.values()].map(item => item.task)), below = this.tasks.slice(page.length);
    const further = new Set([...below.filter(task => inSight.has(task)), ...below.filter(task => !ended(task.status)).slice(0, 50)].map(task => task.taskId));
    if (further.size) {
      const fresh = new Map((await door.call("view_tasks", {ids: [...further].slice(0, pageSize)})).tasks.map(task => [task.taskId, prepared(task)]));
      this.tasks = this.tasks.filter(task => !further.has(task.taskId) || fresh.has(task.taskId)).map(task => fresh.get(task.taskId) ?? task);
    }
    this.filter();
    this.older();
  }

  /** older lists the older tasks, page by page. */
  async older() {
    if (this.listing) return;
    this.listing = true;
    try {
      while (this.cursor && this.tasks.length < maxTasks) {
        const {cursor} = this, {tasks, nextCursor} = await door.call("view_tasks", {cursor, max: pageSize});
        if (cursor !== this.cursor) continue; // the list has begun again
        this.tasks = [...this.tasks, ...tasks.map(prepared)];
        this.cursor = nextCursor;
        await pause(20); // what follows is a task of its own, for the browser
        if (!this.cursor || Date.now() - this.filtered > 500) this.filter(); // it looks at all tasks
      }
    } catch (e) {
      this.cursor = undefined; // the next listing of all pages tries again
      this.trouble(e);
    } finally {
      this.listing = false;
    }
  }

  /** filter chooses what is shown, and counts what each choice would show. */
  filter() {
    this.filtered = Date.now();
    const words = at("words").value.toLowerCase().split(/\s+/).filter(Boolean), tool = at("tool").value, host = at("host").value;
    const counts = {all: 0, running: 0, failed: 0}, tools = new Map(), hosts = new Map(), shown = [];
    for (const task of this.tasks) {
      if (!words.every(word => task.words.includes(word) || task.taskId.startsWith(word))) continue; // any two digits are somewhere in an id
      const isShown = SHOW[this.status](task), ofTool = !tool || task.tool === tool, ofHost = !host || task.host === host;
      if (ofTool && ofHost) for (const status in SHOW) if (SHOW[status](task)) counts[status]++;
      if (isShown && ofHost) tools.set(task.tool, (tools.get(task.tool) ?? 0) + 1);
      if (isShown && ofTool && task.host) hosts.set(task.host, (hosts.get(task.host) ?? 0) + 1);
      if (isShown && ofTool && ofHost) shown.push(task);
    }
    for (const [status, chip] of this.chips) {
      say(chip, `${status} ${counts[status].toLocaleString()}${this.cursor ? "+" : ""}`);
      if (chip.ariaPressed !== String(status === this.status)) chip.ariaPressed = String(status === this.status);
    }
    choices(at("tool"), "any tool", tools);
    choices(at("host"), "any host", hosts);
    at("host").hidden = !hosts.size && !host;
    root.classList.toggle("empty", !this.tasks.length);
    at("none").hidden = shown.length > 0;
    say(at("none"), this.tasks.length ? "No such tasks." : "No tasks yet. They appear here as hosts call tools.");
    this.group(shown);
  }

  /** group makes one row of equal runs that follow each other. */
  group(shown) {
    this.groups = [];
    for (let k = 0, end; k < shown.length; k = end) {
      for (end = k + 1; end < shown.length && ended(shown[k].status) && shown[end].key === shown[k].key;) end++;
      const tasks = shown.slice(k, end), id = tasks.at(-1).taskId; // of the oldest: newer ones join
      if (tasks.length === 1 || !this.expanded.has(id)) this.groups.push({id, tasks});
      else tasks.forEach((task, n) => this.groups.push({id: n ? task.taskId : `${id} open`, tasks: [task], of: n ? null : tasks}));
    }
    const height = `${this.groups.length * taskHeight}px`;
    if (at("tasks").style.height !== height) at("tasks").style.height = height;
    this.draw();
  }

  /** draw puts the rows in sight into the document. It keeps elements that are there, so that the focus stays. */
  draw() {
    const box = at("list"), top = box.scrollTop - at("tasks").offsetTop, items = new Map();
    const first = Math.max(0, Math.floor(top / taskHeight) - 5), last = Math.min(this.groups.length, Math.ceil((top + box.clientHeight) / taskHeight) + 5);
    let before = null;
    for (let k = first; k < last; k++) {
      const group = this.groups[k], item = this.items.get(group.id) ?? this.item();
      items.set(group.id, item);
      this.fill(item, group, k);
      const place = before ? before.nextSibling : at("tasks").firstChild;
      if (place !== item.li) at("tasks").insertBefore(item.li, place);
      before = item.li;
    }
    for (const [id, item] of this.items) if (!items.has(id)) item.li.remove();
    this.items = items;
  }

  item() {
    const item = {mark: make("span", {ariaHidden: "true"}), tool: make("span"), args: make("span", {className: "args"}), age: make("span", {className: "age"}),
      last: make("span", {className: "last"}), word: make("span", {className: "hidden"}), bar: make("progress", {hidden: true, ariaLabel: "Progress"})};
    item.button = make("button", {type: "button", className: "open", onclick: () => this.open(item.task.taskId)},
      item.mark, make("span", {className: "line"}, make("span", {className: "tool"}, item.tool, item.word), item.args), item.age, item.last, item.bar);
    item.more = make("button", {type: "button", className: "more-runs", onclick: () => {
      const id = item.group.of?.at(-1).taskId ?? item.group.id;
      if (!this.expanded.delete(id)) this.expanded.add(id);
      this.filter();
    }});
    item.li = make("li", {}, item.button, item.more);
    return item;
  }

  fill(item, group, k) {
    const [task] = group.tasks, equal = group.of ?? group.tasks;
    item.task = task;
    item.group = group;
    const y = `translateY(${k * taskHeight}px)`;
    if (item.li.style.transform !== y) item.li.style.transform = y;
    Object.assign(item.li, {ariaSetSize: this.groups.length, ariaPosInSet: k + 1});
    item.more.hidden = equal.length === 1;
    say(item.more, `×${equal.length}`);
    Object.assign(item.more, {ariaLabel: `${equal.length} equal runs`, ariaExpanded: String(Boolean(group.of))});
    say(item.mark, STATUS[task.status] ?? "·");
    item.mark.className = `dot-box ${statusClass(task.status)}`;
    say(item.tool, plain(task.title || task.tool, 100));
    say(item.word, `, ${statusWord(task.status)}, `);
    say(item.args, task.given);
    say(item.age, `${began(task.createdAt)} · ${duration(task.durationMs)}`);
    const {code, said} = outcome(task);
    say(item.last, [code, task.status === "failed" && said || plain(task.matches || task.lastLine, 120) || said].filter(Boolean).join(" · ").slice(0, 200));
    item.button.title = [task.given, task.host && `of ${plain(task.host)}`, new Date(task.createdAt).toLocaleString(), task.taskId].filter(Boolean).join("\n");
    const p = task.progress;
    item.bar.hidden = !p || ended(task.status);
    if (p?.total > 0) Object.assign(item.bar, {max: p.total, value: Math.min(p.progress, p.total)});
    const current = String(group.tasks.some(task => task.taskId === this.current));
    if (item.button.getAttribute("aria-current") !== current) item.button.setAttribute("aria-current", current);
  }

  select(id) {
    this.current = id;
    this.draw();
  }

  /** focus moves the focus to a row, which comes into sight; without a number, to that of the task that is open. */
  focus(k = Math.max(0, this.groups.findIndex(group => group.tasks.some(task => task.taskId === this.current)))) {
    const group = this.groups[Math.min(this.groups.length - 1, Math.max(0, k))], box = at("list");
    if (!group) return;
    const y = at("tasks").offsetTop + this.groups.indexOf(group) * taskHeight;
    if (y < box.scrollTop || y + taskHeight > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
    this.draw();
    this.items.get(group.id)?.button.focus();
  }

  /** move moves the focus by so many rows. */
  move(by) {
    const item = [...this.items.values()].find(item => item.li.contains(document.activeElement));
    this.focus(item ? this.groups.indexOf(item.group) + by : undefined);
  }
}

/** prepared adds what filters and rows need of a task. */
function prepared(task) {
  task.given = given(task.arguments).slice(0, 300);
  task.key = JSON.stringify([task.tool, task.host, task.status, task.arguments, task.status === "completed" || task.statusMessage]);
  task.words = [task.tool, task.title, task.given, task.lastLine, task.statusMessage, task.host].join(" ").toLowerCase();
  return task;
}

/** choices fills a box with the values that can be chosen, and how many tasks each has. */
function choices(box, any, counts) {
  const chosen = box.value;
  if (chosen && !counts.has(chosen)) counts.set(chosen, 0);
  const names = [...counts.keys()].sort().slice(0, 500), now = names.map(name => `${name} ${counts.get(name)}`).join("\n");
  if (box.now === now || document.activeElement === box) return; // an open box would lose its place
  box.now = now;
  box.replaceChildren(make("option", {value: "", textContent: any}), ...names.map(name => make("option", {value: name, textContent: `${plain(name, 60)} (${counts.get(name)})`})));
  box.value = chosen;
}
