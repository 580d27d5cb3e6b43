// The page begins here: what is shown, the keys, and, in an MCP App, the host.

const root = document.documentElement;

let stays = 0;

function trouble(error, ms = 0) {
  if (!error && Date.now() < stays) return;
  stays = Date.now() + ms;
  at("trouble").hidden = !error;
  say(at("trouble"), error?.message ?? "");
}

/** shows switches between the list and the task, where a narrow window or an app shows only one. */
function shows(what) {
  root.dataset.shows = what;
  at("back").hidden = what === "list" || door.app;
  at("all").hidden = !door.app;
  say(at("all"), what === "list" ? "Back" : "All tasks");
}

/** addressed returns the id of the task in the address, null if there is none. */
function addressed() {
  const hash = location.hash.slice(1);
  try {
    return hash.startsWith("token=") ? null : decodeURIComponent(hash) || null;
  } catch {
    return null; // a malformed %
  }
}

function open(id) {
  view.show(id);
  list.select(id);
  shows(id ? "task" : "list");
  if (!door.app && addressed() !== id) history.pushState(null, "", id ? `#${encodeURIComponent(id)}` : location.pathname);
  if (!id) document.title = "runnel";
}

function back() {
  if (door.app) return;
  if (matchMedia("(max-width: 44rem)").matches) open(null);
  list.focus();
}

const view = new TaskView(id => { open(id); at("task").focus(); }, trouble);
const list = new TaskList(id => { open(id); at("log").focus({preventScroll: false}); }, trouble);

at("back").onclick = back;
at("all").onclick = () => {
  if (root.dataset.shows === "list" && view.id) shows("task");
  else { shows("list"); list.refresh().catch(trouble); }
};
at("skip").onclick = event => { event.preventDefault(); at("log").focus(); };
for (const button of document.querySelectorAll("[data-close]")) button.onclick = () => button.closest("dialog").close(button.dataset.close);
at("keys").onclick = () => at("help").showModal();

document.addEventListener("keydown", event => {
  const inLog = at("log").contains(document.activeElement), inList = at("list").contains(document.activeElement);
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && (at("task").contains(document.activeElement) || inList)) {
    if (document.activeElement === at("pattern")) at("log").focus();
    else back();
    return;
  }
  if (!inLog && !inList || document.activeElement.matches("select, input")) return;
  const log = at("log"), rows = by => { log.scrollTop += by * rowHeight; };
  const keys = {
    j: () => inLog ? rows(1) : list.move(1), k: () => inLog ? rows(-1) : list.move(-1),
    "/": () => at(inLog ? "pattern" : "words").focus(), n: () => view.step(1), N: () => view.step(-1),
    f: () => { if (!at("follow").disabled) at("follow").click(); },
    c: () => view.cancel(), r: () => view.again(), "?": () => at("help").showModal(),
    g: () => { view.log.setFollow(false); view.log.start > 0 ? view.log.jump(0, 0) : log.scrollTo(0, 0); },
    G: () => view.log.end < view.log.size ? view.log.jump(view.log.size) : log.scrollTo(0, log.scrollHeight),
  };
  if (inLog) Object.assign(keys, {Home: keys.g, End: keys.G});
  else Object.assign(keys, {ArrowDown: keys.j, ArrowUp: keys.k});
  const act = keys[event.key];
  if (!act || !view.id && !["j", "k", "/", "ArrowDown", "ArrowUp", "?"].includes(event.key)) return;
  event.preventDefault();
  act();
});

setInterval(() => { if (!document.hidden) view.tick(); }, 1000);

if (door.app) runApp();
else {
  const fromAddress = () => open(addressed());
  addEventListener("popstate", fromAddress);
  fromAddress();
  list.watch();
  at("run").hidden = false;
  const refresh = () => showTools(id => { open(id); at("log").focus(); }, trouble);
  at("run").onclick = () => { open(null); shows("task"); at("tools").querySelector("button")?.focus(); refresh(); };
  addEventListener("focus", refresh);
  refresh();
}

/** runApp runs the page as an MCP App: it shows the task of the host's call. */
async function runApp() {
  root.classList.add("app");
  shows("task");
  at("nothing").replaceChildren("Waiting for the task to begin…");
  let context = {}, given, result = null, over = false;
  const apply = more => {
    Object.assign(context, more);
    if (context.theme === "dark" || context.theme === "light") root.dataset.theme = context.theme;
    for (const [name, value] of Object.entries(more.styles?.variables ?? {})) {
      if (/^--(color|font)-[\w-]+$/.test(name) && typeof value === "string" && !/url|image/i.test(value)) root.style.setProperty(name, value);
    }
    const box = context.containerDimensions ?? {};
    const fixed = context.displayMode === "fullscreen" || typeof box.height === "number";
    root.classList.toggle("fixed", fixed);
    const others = context.availableDisplayModes ?? [];
    at("larger").hidden = !(context.displayMode === "fullscreen" ? others.includes("inline") : others.includes("fullscreen"));
    say(at("larger"), context.displayMode === "fullscreen" ? "Smaller" : "Larger");
  };
  door.onHostEvent = (method, params) => {
    if (method === "ui/notifications/host-context-changed") apply(params);
    else if (method === "ui/notifications/tool-input") given = params.arguments ?? {};
    else if (method === "ui/notifications/tool-result") { result = params; over = true; }
    else if (method === "ui/notifications/tool-cancelled") over = true;
    else if (method === "ui/resource-teardown") view.show(null);
  };
  at("larger").onclick = async () => {
    const mode = context.displayMode === "fullscreen" ? "inline" : "fullscreen";
    apply({displayMode: (await door.request("ui/request-display-mode", {mode})).mode});
  };
  const hello = await door.request("ui/initialize", {protocolVersion: "2026-01-26", appInfo: {name: "runnel", version: "1"}, appCapabilities: {availableDisplayModes: ["inline", "fullscreen"]}});
  apply(hello?.hostContext ?? {});
  door.notify("ui/notifications/initialized", {});
  let told = "";
  new ResizeObserver(() => {
    const {width, height} = document.body.getBoundingClientRect();
    const now = `${Math.ceil(width)} ${Math.ceil(height)}`;
    if (now !== told && !root.classList.contains("fixed")) door.notify("ui/notifications/size-changed", {width: Math.ceil(width), height: Math.ceil(height)});
    told = now;
  }).observe(document.body);
  list.watch();
  const tool = context.toolInfo?.tool?.name;
  if (/^(runnel_)*list_tasks$/.test(tool)) return shows("list");
  for (let waited = 0; !given && !over && waited < 1000; waited += 50) await pause(50); // without arguments, two calls of a tool look the same
  for (let wait = 200; !view.id; wait = Math.min(3000, wait * 1.5)) {
    try {
      const last = over, id = named(result) ?? await mine(tool, given);
      trouble(null);
      if (id && !view.id) return open(id);
      if (last) return ofNoTask(result);
    } catch (e) {
      trouble(e);
    }
    await pause(wait);
  }
}

/** named returns the id of the task in the result of the host's call, which continues in the background. */
function named(result) {
  const meta = result?._meta ?? {};
  return meta["runnel/task"]?.taskId ?? meta["io.modelcontextprotocol/related-task"]?.taskId;
}

/** mine returns the id of the task of the host's call, undefined if there is none yet. */
async function mine(tool, given) {
  if (/^(runnel_)*start_task$/.test(tool)) {
    if (!given?.tool) return undefined;
    return (await door.call("view_mine", {tool: given.tool, arguments: given.arguments ?? {}})).taskId;
  }
  const call = {};
  if (tool) call.tool = tool; // not every host says which
  if (given) call.arguments = given;
  return (await door.call("view_mine", call)).taskId;
}

/** ofNoTask shows the result of a call that ended before it could become a task. */
function ofNoTask(result) {
  const text = (result?.content ?? []).filter(part => part.type === "text").map(part => part.text).join("\n");
  at("nothing").replaceChildren(text ? make("pre", {className: "answer", textContent: plainLines(text)}) : "This call has ended and was not kept. All tasks shows the others.");
}
