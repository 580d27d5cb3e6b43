// The differences between a server and the same server behind "runnel wrap --" that are meant. Each line: of which answers, what, and how it is taken
// out of the answer that came through runnel (t); d is the answer of the server itself. Everything else must be equal.
const without = (o, ...names) => Object.fromEntries(Object.entries(o).filter(([name]) => !names.includes(name)));
const has = (list, key, value) => (list ?? []).some(entry => entry[key] === value);
const own = /^(runnel_)?(start_task|get_task_result|list_tasks|cancel_task|list_running)$/;

export const allowed = [
  ['opening', 'what runnel adds to the capabilities: tasks, its two extensions, resources, changes of lists', (t, d) => ({ ...t, capabilities: theirs(t.capabilities, d.capabilities) })],
  ['tools/list', "runnel's own tools come too, and the order is by name", (t, d) => ({ ...t, tools: ordered(t.tools.filter(x => !own.test(x.name) || has(d.tools, 'name', x.name)), d.tools) })],
  ['tools/list', 'each tool can be called as a task', (t, d) => ({ ...t, tools: t.tools.map((x, i) => (x.execution && x.execution.taskSupport !== 'optional' ? x : { ...without(x, 'execution'), ...(d.tools[i]?.execution && { execution: d.tools[i].execution }) })) })],
  ['resources/list', "runnel's own resources come too: logs of tasks, and the view", (t, d) => ({ ...t, resources: t.resources.filter(x => !/^(ui:\/\/)?runnel/.test(x.uri)) })],
  ['resources/templates/list', "runnel's own template comes too: logs of tasks", (t, d) => ({ ...t, resourceTemplates: t.resourceTemplates.filter(x => !x.uriTemplate.startsWith('runnel://')) })],
  ['', 'the caching hints of lists are those of runnel, which keeps them and announces changes', (t, d) => (t && isList(d) && [0, 60000].includes(t.ttlMs) ? { ...t, ...hints(d) } : t)],
  ['', 'to a client of 2026-07-28, a result of a 2025-11-25 server has what the era requires: resultType, caching hints, who answers', (t, d) => t && bare(without(t, ...['resultType', 'ttlMs', 'cacheScope'].filter(name => !(name in d))), d)],
  ['tools/call {"name":"none"', 'a tool that does not exist is -32602, where some servers answer with a result', (t, d) => (t.code === -32602 ? d : t)],
];

const isList = d => Object.entries(d).some(([name, value]) => /^(tools|prompts|resources|resourceTemplates)$/.test(name) && Array.isArray(value));
const hints = d => ('ttlMs' in d ? { ttlMs: d.ttlMs, cacheScope: d.cacheScope } : {});

// bare takes the name of the server out of a result if the server does not say it itself.
function bare(t, d) {
  const key = 'io.modelcontextprotocol/serverInfo';
  if (!t._meta || d._meta?.[key]) return t;
  const _meta = without(t._meta, key);
  return Object.keys(_meta).length ? { ...t, _meta } : without(t, '_meta');
}

// ordered sorts entries as the server has them.
const ordered = (list, as) => [...list].sort((a, b) => as.findIndex(x => x.name === a.name) - as.findIndex(x => x.name === b.name));

// theirs takes out what runnel adds to capabilities. What the server has itself stays, with the values that came through.
function theirs(t, d) {
  const back = without(t, ...['tasks', 'resources', 'extensions'].filter(name => !d[name]));
  if (d.tasks) back.tasks = d.tasks;
  for (const name of ['tools', 'prompts', 'resources']) {
    const added = name === 'resources' ? ['listChanged', 'subscribe'] : ['listChanged'];
    if (back[name]) back[name] = without(back[name], ...added.filter(member => !d[name]?.[member]));
  }
  const rest = without(t.extensions ?? {}, ...['io.modelcontextprotocol/tasks', 'runnel/task-partials'].filter(name => !d.extensions?.[name]));
  if (Object.keys(rest).length || d.extensions) back.extensions = rest;
  return back;
}
