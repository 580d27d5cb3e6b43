// Real servers answer through "runnel wrap --" as they do directly: each answer on the wire is compared, member by member, for the official
// TypeScript client of both eras, and each question of a server with its answer. Each sequence is sent twice. The differences that are meant are in
// allowed.mjs.
// Usage: node compare.mjs 2025|2026 all|few|SERVER,... PROGRAM. Prints the table, and exits 1 if there is any other difference.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { allowed } from './allowed.mjs';

const [era, only, program] = process.argv.slice(2);
const legacy = era === '2025';
const { Client } = legacy ? await import('@modelcontextprotocol/sdk/client/index.js') : await import('@modelcontextprotocol/client');
const { StdioClientTransport } = legacy ? await import('@modelcontextprotocol/sdk/client/stdio.js') : await import('@modelcontextprotocol/client/stdio');
const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'runnel-fidelity-'));

// bin is the program of a package, here or in the folder above.
function bin(name) {
  if (name === 'sdk-server') return join(here, 'sdk-server.mjs');
  for (const modules of [join(here, 'node_modules'), join(here, '..', 'node_modules')]) {
    try {
      const home = join(modules, '@modelcontextprotocol', name);
      return join(home, Object.values(JSON.parse(readFileSync(join(home, 'package.json'))).bin)[0]);
    } catch {}
  }
  throw new Error(name + ' is not installed');
}
const packages = JSON.parse(readFileSync(join(here, 'package.json'))).dependencies;
const servers = ['sdk-server', 'server-everything', 'server-filesystem', ...Object.keys(packages).map(name => name.split('/')[1]).filter(name => name !== 'server')];
const args = { 'server-everything': ['stdio'], 'server-filesystem': [folder] };
writeFileSync(join(folder, 'a.txt'), 'a file\n'.repeat(1000));

// What answers differently each time, or only after long.
const skipped = /simulate|toggle|long-running|trigger-.*-async|gzip|get-env|create_directory|write_file|move_file|edit_file|wikipedia|first-degree/i;

// value makes an argument that fits a schema.
function value(schema, name) {
  if (schema.enum) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.anyOf) return value(schema.anyOf[0], name);
  if (/^paths?$/.test(name) && schema.type === 'string') return join(folder, 'a.txt');
  switch (schema.type) {
    case 'string': return 'x';
    case 'boolean': return false;
    case 'array': return name === 'paths' ? [join(folder, 'a.txt')] : [];
    case 'object': return filled(schema);
    default: return schema.minimum ?? 1;
  }
}
const filled = schema => Object.fromEntries((schema.required ?? []).map(name => [name, value(schema.properties?.[name] ?? {}, name)]));

const spoken = {}; // the version that each server was last spoken to in

// answers sends the sequence, and returns the answers on the wire by what was asked.
async function answers(server, command) {
  const got = {};
  const transport = new StdioClientTransport({ command: command[0], args: command.slice(1), env: { ...process.env, MEMORY_FILE_PATH: join(folder, `memory-${Math.random()}.jsonl`) }, stderr: 'ignore' });
  const requests = new Map();
  transport.onmessage = m => {
    const what = m.id !== undefined && !m.method && requests.get(m.id);
    if (what) got[what] = m.result ?? m.error;
  };
  const send = transport.send.bind(transport);
  transport.send = (m, ...rest) => {
    if (m.method && m.id !== undefined) {
      spoken[server] = m.params?._meta?.['io.modelcontextprotocol/protocolVersion'] ?? m.params?.protocolVersion ?? spoken[server];
      const { _meta, cursor, inputResponses, requestState, ...params } = m.params ?? {}; // the last answer counts
      if (!/^(initialize|server\/discover)$/.test(m.method)) requests.set(m.id, `${m.method} ${JSON.stringify(params)}`);
    }
    return send(m, ...rest);
  };
  const options = { capabilities: { roots: {}, sampling: {}, elicitation: { form: {}, url: {} } } };
  if (!legacy) options.versionNegotiation = { mode: 'auto' };
  const client = new Client({ name: 'fidelity', title: 'Fidelity', version: '1' }, options);
  const types = legacy && (await import('@modelcontextprotocol/sdk/types.js'));
  const asked = (method, schema, answer) =>
    client.setRequestHandler(legacy ? types[schema] : method, ({ params }) => {
      const { _meta, ...said } = params ?? {};
      if (said.elicitationId) said.elicitationId = 'some id'; // another each time
      const { progressToken, 'io.modelcontextprotocol/related-task': task, ...meta } = _meta ?? {}; // of this connection
      got[`asked:${method} ${JSON.stringify(said)}`] = { params: said, meta };
      return typeof answer === 'function' ? answer(said) : answer;
    });
  asked('roots/list', 'ListRootsRequestSchema', { roots: [{ uri: 'file://' + folder, name: 'folder' }] });
  asked('sampling/createMessage', 'CreateMessageRequestSchema', { role: 'assistant', content: { type: 'text', text: 'hi' }, model: 'm', stopReason: 'endTurn' });
  asked('elicitation/create', 'ElicitRequestSchema', said => (said.requestedSchema ? { action: 'accept', content: filled(said.requestedSchema) } : { action: 'decline' }));
  await client.connect(transport);
  const quiet = async promise => { try { return await promise; } catch { return {}; } };
  const can = client.getServerCapabilities() ?? {};
  got.opening = { capabilities: can, serverInfo: client.getServerVersion(), instructions: client.getInstructions() };
  const { tools = [] } = await quiet(client.listTools());
  const { prompts = [] } = can.prompts ? await quiet(client.listPrompts()) : {};
  const { resources = [] } = can.resources ? await quiet(client.listResources()) : {};
  if (can.resources) await quiet(client.listResourceTemplates());
  for (const r of resources) if (!/^(ui:\/\/)?runnel/.test(r.uri) && !r.uri.includes('/session/')) await quiet(client.readResource({ uri: r.uri }));
  if (can.resources) await quiet(client.readResource({ uri: 'nowhere://x' }));
  for (const p of prompts) await quiet(client.getPrompt({ name: p.name, arguments: Object.fromEntries((p.arguments ?? []).map(a => [a.name, '1'])) }));
  for (const t of tools) {
    const ours = /^(runnel_)?(start_task|get_task_result|list_tasks|cancel_task)$/.test(t.name) && t.title !== undefined && command[0] === program;
    if (!ours && !skipped.test(t.name)) {
      await quiet(client.callTool({ name: t.name, arguments: filled(t.inputSchema) }));
      if (t.inputSchema.required?.length) await quiet(client.callTool({ name: t.name, arguments: {} }));
    }
  }
  await quiet(client.callTool({ name: 'none', arguments: {} }));
  await client.close();
  return got;
}

// same takes the differences that are meant out of an answer that came through runnel.
const same = (what, through, direct) => {
  for (const [of, , take] of allowed) if (what.startsWith(of) && isObject(direct) && isObject(through)) through = take(through, direct);
  return through;
};
const isObject = r => r && typeof r === 'object';
// plain takes out the time of day.
const plain = r =>
  JSON.parse(JSON.stringify(r ?? null).replace(/20\d\d-\d\d-\d\dT[\d:.]+Z?/g, 'TIME').replace(/[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d 20\d\d [^"\\]*/g, 'TIME').replace(/\d+:\d\d:\d\d( [AP]M)?/g, 'TIME'));

let different = 0;
const rows = [];
async function compare(server) {
  const command = [process.execPath, '--import', join(here, 'steady.mjs'), bin(server), ...(args[server] ?? ['--stdio'])];
  const state = mkdtempSync(join(folder, 'state-'));
  const row = { server, methods: {}, compared: 0, different: 0 };
  const direct = await answers(server, command);
  row.era = spoken[server];
  for (const time of ['first', 'second']) { // the second one finds what runnel has kept
    const through = await answers(server, [program, 'wrap', '--state', state, '--', ...command]);
    for (const what of Object.keys(direct)) {
      const method = what.split(' ')[0];
      const here = same(what, through[what], direct[what]);
      row.compared++;
      row.methods[method] = (row.methods[method] ?? 0) + 1;
      try {
        assert.deepEqual(plain(here), plain(direct[what]));
      } catch {
        row.different++;
        different++;
        console.error(`${server} ${era}, ${time}: ${what}\n  directly: ${JSON.stringify(plain(direct[what]))?.slice(0, 1500)}\n  through:  ${JSON.stringify(plain(here))?.slice(0, 1500)}`);
      }
    }
  }
  row.era += ' / ' + spoken[server];
  rows.push(row);
}

const few = ['sdk-server', 'server-everything', 'server-filesystem', 'server-threejs']; // 2026-07-28, the most methods, files and roots, an App
const chosen = { all: servers, few }[only] ?? only.split(',');
const waiting = servers.filter(name => chosen.includes(name));
await Promise.all([0, 1].map(async () => {
  while (waiting.length) {
    const server = waiting.shift();
    try {
      await compare(server);
    } catch (error) {
      different++;
      console.error(`${server} ${era}: ${error.stack}`);
    }
  }
}));
rmSync(folder, { recursive: true, force: true });
const methods = [...new Set(rows.flatMap(r => Object.keys(r.methods)))].sort();
console.log(['server', 'directly / through', ...methods, 'different'].join(' | '));
for (const r of rows.sort((a, b) => (a.server < b.server ? -1 : 1))) console.log([r.server, r.era, ...methods.map(m => r.methods[m] ?? '–'), r.different].join(' | '));
console.log(`${rows.length} servers, ${rows.reduce((n, r) => n + r.compared, 0)} answers compared, ${different} differ`);
process.exit(different || rows.length === 0 ? 1 : 0);
