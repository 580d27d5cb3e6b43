// What can be run: the tools of the config, each with a form from its schema.

/** showTools lists them, and the hosts that start runnel and have sessions open; open(id) opens what has been started. */
async function showTools(open, trouble) {
  try {
    const {tools, hosts, sessions} = await door.call("view_tools", {});
    const now = JSON.stringify(tools);
    if (at("tools").now !== now) at("tools").replaceChildren(...tools.map(tool => make("li", {},
      make("div", {}, make("b", {textContent: plain(tool.title || tool.name, 100)}), make("p", {className: "facts", textContent: plain(tool.description)})),
      make("button", {type: "button", textContent: "Run", ariaLabel: `Run ${plain(tool.name, 100)}`, onclick: () => ask(tool, open)}))));
    at("tools").now = now;
    at("with").hidden = !hosts;
    at("now").hidden = !sessions?.length;
    at("sessions").replaceChildren(...(sessions ?? []).map(({host, dir, since}) => make("li", {}, make("b", {textContent: plain(host, 100)}),
      make("span", {className: "facts", textContent: `${plain(dir)} · since ${began(since)}`, title: new Date(since).toLocaleString()}))));
    say(at("with"), "Hosts that start runnel");
    at("hosts").replaceChildren(...(hosts ?? []).map(({host, file}) => make("li", {}, make("b", {textContent: host}), make("span", {className: "facts", textContent: plain(file)}))));
    if (hosts?.length === 0) at("hosts").append(make("li", {className: "facts"}, make("span", {}, "None yet. In a terminal, ", make("code", {textContent: "runnel install HOST"}), " adds runnel to one.")));
    say(at("can"), tools.length ? "Run a tool" : "This config has no tools.");
  } catch (e) {
    trouble(e);
  }
}

/** ask asks for the arguments of a tool and runs it. */
function ask(tool, open) {
  const {properties = {}, required = []} = tool.inputSchema ?? {};
  const fields = Object.entries(properties).map(([name, schema], k) => field(name, schema, required.includes(name), k));
  say(at("ask-title"), `Run ${plain(tool.title || tool.name, 100)}`);
  say(at("ask-text"), plain(tool.description, 1000));
  say(at("ask-wrong"), "");
  at("fields").replaceChildren(...fields.map(field => field.element));
  const run = async () => {
    at("ask-run").disabled = true;
    try {
      const args = {};
      for (const {name, read} of fields) {
        const value = read();
        if (value !== undefined) args[name] = value;
      }
      const {taskId} = await door.call("view_run", {tool: tool.name, arguments: args});
      at("ask").close();
      announce("Started");
      open(taskId);
    } catch (e) {
      say(at("ask-wrong"), e.message);
    } finally {
      at("ask-run").disabled = false;
    }
  };
  at("ask-run").onclick = run;
  at("fields").onkeydown = event => { if (event.key === "Enter" && !event.isComposing && !event.target.matches("textarea, button")) run(); };
  at("ask").showModal();
  (fields[0]?.input ?? at("ask-run")).focus();
}

/** field makes the input of one argument. What is left blank is not given, so that the tool's default holds. */
function field(name, schema, needed, k) {
  const {type, default: usual} = schema, id = `field-${k}`, lines = type === "array" && schema.items?.type === "string";
  const shown = value => value === undefined ? "" : typeof value === "string" ? value : lines ? value.join("\n") : JSON.stringify(value);
  let input;
  if (schema.enum) {
    input = make("select", {}, ...needed ? [] : [make("option", {value: "", textContent: ""})], ...schema.enum.map(value => make("option", {value: JSON.stringify(value), textContent: plain(value)})));
    if (usual !== undefined) input.value = JSON.stringify(usual);
  } else if (type === "boolean") input = make("input", {type: "checkbox", checked: usual === true});
  else if (type === "integer" || type === "number") input = make("input", {type: "number", min: schema.minimum ?? "", max: schema.maximum ?? "", step: type === "integer" ? 1 : "any", placeholder: shown(usual)});
  else if (type === "string") input = make("input", {type: "text", placeholder: shown(usual), autocomplete: "off", spellcheck: false});
  else input = make("textarea", {rows: 3, placeholder: shown(usual), spellcheck: false});
  Object.assign(input, {id, ariaRequired: String(needed)});
  const read = () => {
    if (type === "boolean") return input.checked || usual !== undefined || needed ? input.checked : undefined;
    const text = input.value;
    if (text === "") return undefined;
    if (type === "string" && !schema.enum) return text;
    if (lines) return text.replace(/\n$/, "").split("\n");
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`${name}: this is not JSON`);
    }
  };
  const hint = [needed && "required", lines && "one a line", !type && "JSON", type === "object" && "JSON", schema.description].filter(Boolean).map(text => plain(text)).join(" · ");
  const about = make("span", {className: "facts", id: `${id}-hint`, textContent: hint});
  input.setAttribute("aria-describedby", about.id);
  return {name, input, read, element: make("div", {className: type === "boolean" ? "field check" : "field"}, make("label", {htmlFor: id, textContent: plain(name, 100)}), input, about)};
}
