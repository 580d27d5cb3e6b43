// The differences between a server and the same server behind "runnel wrap --" that are meant. Each line: where, what, and how it is taken out of
// both sides before they are compared.
const own = /^(runnel_)?(start_task|get_task_result|list_tasks|cancel_task|list_running)$/;
const without = (o, ...names) => Object.fromEntries(Object.entries(o).filter(([name]) => !names.includes(name)));
const named = list => [...list].sort((a, b) => (a.name < b.name ? -1 : 1));

export const allowed = [
  ['initialize, server/discover', 'the version that runnel speaks', r => (r.capabilities ? without(r, 'protocolVersion', 'supportedVersions') : r)],
  ['initialize, server/discover', 'the capabilities that runnel adds: tasks, its extensions, resources, changes of lists', r => (r.capabilities ? { ...r, capabilities: theirs(r.capabilities) } : r)],
  ['tools/list', "runnel's own tools, and the order by name", r => (r.tools ? { ...r, tools: named(r.tools.filter(t => !own.test(t.name))) } : r)],
  ['tools/list', 'how a tool can be called: as a task', r => (r.tools ? { ...r, tools: r.tools.map(t => without(t, 'execution')) } : r)],
  ['resources/list', "runnel's own resources: logs of tasks, and the page beside calls", r => (r.resources ? { ...r, resources: r.resources.filter(x => !/^(ui:\/\/)?runnel/.test(x.uri)) } : r)],
  ['resources/templates/list', "runnel's own templates: logs of tasks", r => (r.resourceTemplates ? { ...r, resourceTemplates: r.resourceTemplates.filter(x => !x.uriTemplate.startsWith('runnel://')) } : r)],
  ['results of 2026-07-28', 'what the era has: resultType, caching hints, who answers', r => bare(without(r, 'resultType', 'ttlMs', 'cacheScope'))],
  ['tools/call', 'a tool that does not exist: -32602, where some servers answer with a result', r => (/unknown tool|not found/i.test(r.message ?? r.content?.[0]?.text ?? '') ? 'no such tool' : r)],
];

function bare(r) {
  if (!r._meta) return r;
  const _meta = without(r._meta, 'io.modelcontextprotocol/serverInfo');
  return Object.keys(_meta).length ? { ...r, _meta } : without(r, '_meta');
}

function theirs(c) {
  const { tasks, resources, extensions, ...rest } = c;
  const ext = without(extensions ?? {}, 'io.modelcontextprotocol/tasks', 'runnel/task-partials');
  for (const name of ['tools', 'prompts']) if (rest[name]) rest[name] = {};
  return Object.keys(ext).length ? { ...rest, extensions: ext } : rest;
}
