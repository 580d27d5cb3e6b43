// The terminal of a task: its screen, as the server has it, and what a person types into it. Nothing is shown that the program does not echo.

/** KEYS has the names of keys (see the tool send_to_task) that are not those of browsers. */
const KEYS = {Backspace: "BSpace", Delete: "DC", Insert: "IC", ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right"};
const NAMED = /^(Enter|Tab|Escape|Home|End|PageUp|PageDown|F\d+)$/;

/** CONTROLLED matches the keys that Ctrl makes others of. */
const CONTROLLED = /^([a-z@[\]\\^_ ]|Up|Down|Left|Right|Home|End|PageUp|PageDown|DC|IC|F\d+)$/i;

/** leastRows is how many rows a screen has here, however few of them have text. */
const leastRows = 12;

/** maxTyped is how much text one call types, in characters; maxPressed how many keys. */
const maxTyped = 16384, maxPressed = 1000;

class Terminal {
  constructor(trouble) {
    Object.assign(this, {trouble, queue: []});
    const screen = at("screen"), line = at("line");
    screen.onkeydown = event => {
      const key = keyOf(event);
      if (!key) return;
      event.preventDefault();
      event.stopPropagation();
      this.type({key});
    };
    screen.onpaste = event => {
      event.preventDefault();
      this.type({text: event.clipboardData.getData("text")});
    };
    line.onkeydown = event => {
      if (event.key !== "Enter" || event.isComposing) return;
      this.type({text: line.value});
      this.type({key: "Enter"});
      line.value = "";
    };
    for (const button of document.querySelectorAll("#typing [data-key]")) button.onclick = () => this.type({key: button.dataset.key});
  }

  clear() {
    at("terminal").hidden = true;
    at("screen").replaceChildren();
    at("typing").hidden = false;
    this.over = false;
    this.queue = [];
  }

  /** follow shows the terminal of a task, if it has one, until another task is shown or this one is over. */
  async follow(id, signal) {
    Object.assign(this, {id, signal});
    for (let next = 0, failures = 0; ;) {
      const {over} = this;
      try {
        while (document.hidden && next) await pause(500, signal);
        const screen = await door.call("view_screen", {taskId: id, after: next, waitMs: next && !over ? door.patience : 0}, signal);
        if (!screen.columns) return;
        this.draw(screen);
        next = screen.next;
        failures = 0;
        if (over) return;
        await pause(80, signal);
      } catch (e) {
        if (signal.aborted || e instanceof Refused) return;
        await pause(Math.min(10000, 500 * 2 ** failures++));
      }
    }
  }

  /** end says that the program reads no more. */
  end() {
    this.over = true;
    at("typing").hidden = true;
  }

  draw({text, row, column, columns}) {
    const lines = unstyled(text).split("\n"), box = at("screen");
    while (lines.length < Math.max(row, leastRows)) lines.push("");
    let line = lines[row - 1], k = 0;
    for (let cell = 1; cell < column;) {
      if (k === line.length) line += " ";
      const char = String.fromCodePoint(line.codePointAt(k));
      cell += MARK.test(char) ? 0 : WIDE.test(char) ? 2 : 1;
      k += char.length;
    }
    const under = k < line.length ? String.fromCodePoint(line.codePointAt(k)) : " ";
    box.style.setProperty("--columns", columns);
    box.replaceChildren([...lines.slice(0, row - 1), line.slice(0, k)].join("\n"), make("span", {className: "cursor", textContent: under}),
      [line.slice(k + under.length), ...lines.slice(row)].join("\n"));
    at("terminal").hidden = false;
  }

  /** type sends a key or a text after what was typed before. */
  async type(what) {
    if (this.over) return;
    if (what.text === undefined) this.queue.push(what);
    else for (let k = 0; k < what.text.length; k += maxTyped) this.queue.push({text: what.text.slice(k, k + maxTyped)});
    if (this.typing) return;
    this.typing = true;
    try {
      while (this.queue.length) {
        const keys = [];
        while (this.queue[0]?.key && keys.length < maxPressed) keys.push(this.queue.shift().key);
        const text = this.queue[0]?.text === undefined ? "" : this.queue.shift().text;
        await door.call("view_type", {taskId: this.id, keys, text}, this.signal);
      }
    } catch (e) {
      this.queue = [];
      if (!this.signal.aborted) this.trouble(e, 10000);
    } finally {
      this.typing = false;
    }
  }
}

/** keyOf names the key of an event, "" for one that is the browser's: to leave the terminal, to copy and to paste. */
function keyOf(event) {
  const {key, ctrlKey: ctrl, altKey: alt, shiftKey: shift} = event, char = [...key].length === 1;
  const name = KEYS[key] ?? (char || NAMED.test(key) ? key : "");
  if (event.metaKey || event.isComposing || key === "Tab" && (shift || ctrl || alt) || event.getModifierState("AltGraph") && !char) return "";
  if (!ctrl && !alt || event.getModifierState("AltGraph")) return name;
  if (ctrl && (shift || !CONTROLLED.test(name) || key === "v" || key === "c" && String(getSelection()))) return "";
  return name && `${alt && key <= "~" ? "M-" : ""}${ctrl ? "C-" : ""}${ctrl ? key.toLowerCase() : name}`;
}
