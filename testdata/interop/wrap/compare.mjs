// What a client gets of a server directly and through "runnel wrap --", method by method, by the official TypeScript client.
// Usage: node compare.mjs 2025|2026 PROGRAM. Prints the differences that are not documented, and exits 1 if there are any.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [era, program] = process.argv.slice(2);
const state = mkdtempSync(join(tmpdir(), 'runnel-wrap-'));
const require = createRequire(import.meta.url);
const server = [process.execPath, require.resolve('@modelcontextprotocol/server-everything/dist/index.js'), 'stdio'];

const legacy = era === '2025';
const { Client } = legacy ? await import('@modelcontextprotocol/sdk/client/index.js') : await import('@modelcontextprotocol/client');
const { StdioClientTransport } = legacy ? await import('@modelcontextprotocol/sdk/client/stdio.js') : await import('@modelcontextprotocol/client/stdio');
const types = legacy ? await import('@modelcontextprotocol/sdk/types.js') : null;

// open connects a client that can do everything.
async function open(command) {
  const options = { capabilities: { roots: { listChanged: true }, sampling: {}, elicitation: { form: {} } } };
  if (!legacy) options.versionNegotiation = { mode: 'auto' };
  const client = new Client({ name: 'compare', version: '1' }, options);
  const said = { messages: [], updates: [], asked: [] };
  const on = (method, f) => client.setRequestHandler(legacy ? types[method.schema] : method.name, f);
  on({ schema: 'ListRootsRequestSchema', name: 'roots/list' }, () => {
    said.asked.push('roots/list');
    return { roots: [{ uri: 'file:///tmp/root', name: 'root' }] };
  });
  on({ schema: 'CreateMessageRequestSchema', name: 'sampling/createMessage' }, ({ params }) => {
    said.asked.push('sampling/createMessage ' + JSON.stringify(params.messages));
    return { model: 'none', role: 'assistant', content: { type: 'text', text: 'sampled' } };
  });
  on({ schema: 'ElicitRequestSchema', name: 'elicitation/create' }, ({ params }) => {
    said.asked.push('elicitation/create ' + params.message);
    return { action: 'decline' };
  });
  const heard = (schema, name, f) => client.setNotificationHandler(legacy ? types[schema] : name, f);
  heard('LoggingMessageNotificationSchema', 'notifications/message', ({ params }) => { said.messages.push(params); });
  heard('ResourceUpdatedNotificationSchema', 'notifications/resources/updated', ({ params }) => { said.updates.push(params); });
  await client.connect(new StdioClientTransport({ command: command[0], args: command.slice(1), env: { ...process.env }, stderr: 'inherit' }));
  return { client, said };
}

// all reads all pages of a list.
async function all(list, member) {
  const entries = [];
  for (let cursor; ; ) {
    const page = await list(cursor ? { cursor } : {});
    entries.push(...page[member]);
    if (!(cursor = page.nextCursor)) return entries;
  }
}

// lasting leaves out resources that a server has only in the session that made them: a list that runnel knows from before has them still, until
// the server has started and said otherwise.
const lasting = list => list.filter(r => !r.uri.startsWith('demo://resource/session/'));

const failed = async promise => {
  try {
    return await promise;
  } catch (error) {
    return { error: error.code, message: error.message };
  }
};

async function until(condition) {
  for (let i = 0; i < 200 && !condition(); i++) await sleep(100);
}

// ask asks for everything and returns the answers by method.
async function ask(command) {
  const { client, said } = await open(command);
  const c = client;
  const got = {};
  got['capabilities'] = c.getServerCapabilities();
  got['serverInfo'] = c.getServerVersion();
  got['instructions'] = c.getInstructions();
  got['tools/list'] = await all(p => c.listTools(p), 'tools');
  got['prompts/list'] = await all(p => c.listPrompts(p), 'prompts');
  got['resources/list'] = lasting(await all(p => c.listResources(p), 'resources'));
  got['resources/templates/list'] = await all(p => c.listResourceTemplates(p), 'resourceTemplates');
  for (const prompt of got['prompts/list']) {
    const args = Object.fromEntries((prompt.arguments ?? []).map(a => [a.name, a.name === 'resourceType' ? 'Text' : '1']));
    got['prompts/get ' + prompt.name] = await failed(c.getPrompt({ name: prompt.name, arguments: args }));
  }
  got['prompts/get of none'] = (await failed(c.getPrompt({ name: 'none' }))).error;
  for (const { uri } of got['resources/list']) if (!uri.startsWith('runnel:')) got['resources/read ' + uri] = await failed(c.readResource({ uri }));
  for (const uri of ['demo://resource/dynamic/text/7', 'demo://resource/dynamic/blob/7', 'demo://nowhere']) got['resources/read ' + uri] = await failed(c.readResource({ uri }));
  got['completion/complete of a prompt'] = await failed(c.complete({ ref: { type: 'ref/prompt', name: 'completable-prompt' }, argument: { name: 'department', value: 'E' } }));
  got['completion/complete with context'] = await failed(
    c.complete({ ref: { type: 'ref/prompt', name: 'completable-prompt' }, argument: { name: 'name', value: '' }, context: { arguments: { department: 'Sales' } } }),
  );
  got['completion/complete of a template'] = await failed(c.complete({ ref: { type: 'ref/resource', uri: 'demo://resource/dynamic/text/{resourceId}' }, argument: { name: 'resourceId', value: '1' } }));
  for (const [name, args] of Object.entries({
    echo: { message: 'hi' },
    'get-sum': { a: 2, b: 3 },
    'get-tiny-image': {},
    'get-annotated-message': { messageType: 'error', includeImage: true },
    'get-resource-links': { count: 3 },
    'get-resource-reference': { resourceType: 'Text', resourceId: 1 },
    'get-structured-content': { location: 'New York' },
    'get-roots-list': {},
    'trigger-sampling-request': { prompt: 'say', maxTokens: 10 },
    'trigger-elicitation-request': {},
    'gzip-file-as-resource': { name: 'x.gz', data: 'data:text/plain;base64,aGk=', outputType: 'resourceLink' },
  })) {
    const result = await failed(c.callTool({ name, arguments: args }));
    got['tools/call ' + name] = result;
    for (const item of result.content ?? []) {
      if (item.type === 'resource_link') got[`resources/read of a link of ${name}, ${item.uri}`] = await failed(c.readResource({ uri: item.uri }));
    }
  }
  const none = await failed(c.callTool({ name: 'none', arguments: {} }));
  got['tools/call of none'] = Boolean(none.isError || none.error); // an error result there, -32602 here
  if (legacy) {
    got['logging/setLevel'] = await failed(c.setLoggingLevel('debug'));
    const uri = 'demo://resource/dynamic/text/1';
    got['resources/subscribe'] = await failed(c.subscribeResource({ uri }));
    await c.callTool({ name: 'toggle-subscriber-updates', arguments: {} });
    await c.callTool({ name: 'toggle-simulated-logging', arguments: {} });
    await until(() => said.updates.length > 0 && said.messages.some(m => /level.message/.test(m.data)));
    got['notifications/resources/updated'] = said.updates[0];
    got['notifications/message'] = said.messages.some(m => /level.message/.test(m.data));
    got['resources/unsubscribe'] = await failed(c.unsubscribeResource({ uri }));
  }
  got['asked'] = [...new Set(said.asked)];
  await c.close();
  return got;
}

// documented takes out of the answers through runnel what the README says is not as without it.
function documented(got) {
  const own = ['start_task', 'get_task_result', 'list_tasks', 'cancel_task'];
  const direct = structuredClone(got);
  direct['tools/list'] = got['tools/list'].filter(t => !own.includes(t.name)).map(({ execution, ...t }) => t);
  direct['resources/list'] = got['resources/list'].filter(r => !r.uri.startsWith('runnel://'));
  direct['resources/templates/list'] = got['resources/templates/list'].filter(r => !r.uriTemplate.startsWith('runnel://'));
  const { tasks, extensions, ...capabilities } = got.capabilities;
  direct.capabilities = capabilities;
  return direct;
}

// plain leaves out times, and what each result of 2026-07-28 has: the server itself speaks 2025-11-25.
const decoded = (key, v) => {
  if (key === 'blob') return Buffer.from(v, 'base64').toString();
  if (!legacy && ['io.modelcontextprotocol/serverInfo', 'ttlMs', 'cacheScope', 'resultType'].includes(key)) return undefined;
  if (!legacy && key === '_meta' && Object.keys(v).every(k => k === 'io.modelcontextprotocol/serverInfo')) return undefined;
  return v;
};
const plain = v => JSON.parse(JSON.stringify(v ?? null, decoded).replace(/\d+:\d\d:\d\d( [AP]M)?/g, 'TIME').replace(/20\d\d-\d\d-\d\dT[\d:.]+Z/g, 'TIME'));
const sorted = got => ({ ...got, 'tools/list': got['tools/list'].sort((a, b) => (a.name < b.name ? -1 : 1)) });

const direct = sorted(documented(await ask(server)));
let different = 0;
for (const time of ['first', 'second']) { // the second one finds what the server had
  const through = sorted(documented(await ask([program, 'wrap', '--state', state, '--', ...server])));
  for (const method of new Set([...Object.keys(direct), ...Object.keys(through)])) {
    try {
      assert.deepEqual(plain(through[method]), plain(direct[method]));
    } catch {
      different++;
      console.error(`${time}: ${method}\n  directly: ${JSON.stringify(direct[method])?.slice(0, 2000)}\n  through:  ${JSON.stringify(through[method])?.slice(0, 2000)}`);
    }
  }
}
rmSync(state, { recursive: true, force: true });
console.log(`${Object.keys(direct).length} answers compared, ${different} differ; prompts: ${direct['prompts/list'].length}, resources: ${direct['resources/list'].length}, asked: ${direct.asked.length}`);
process.exit(different ? 1 : 0);
