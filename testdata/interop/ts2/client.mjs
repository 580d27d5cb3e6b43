// The official TypeScript client of 2026-07-28 (2.x) against runnel: how it finds the era and falls back, and in the
// stateless era list, call, progress, cancel, questions, subscriptions, tasks and partials.
// Usage: node client.mjs RUNNEL CONFIG. Exits 0 and prints what it saw, or 1 with the reason.
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import { Client, ProtocolErrorCode, SdkErrorCode } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [program, config] = process.argv.slice(2);
const starts = `${config}.starts`;

const modern = '2026-07-28';
const tasksExtension = 'io.modelcontextprotocol/tasks';
const partialsExtension = 'runnel/task-partials';

// Each start of the program leaves a line behind.
const parameters = {
  command: 'sh',
  args: ['-c', 'echo $$ >>"$0"; exec "$@"', starts, program, '--selftest', '--config', config],
  env: { ...process.env },
};
const startedPIDs = () => readFileSync(starts, 'utf8').trim().split('\n').map(Number);

// connect makes a client and connects it. raw sees every message that comes in, before the client does.
async function connect(options, { transport = new StdioClientTransport(parameters), raw = () => {} } = {}) {
  const client = new Client({ name: 'interop', version: '1' }, { versionNegotiation: { mode: 'auto' }, ...options });
  client.onerror = error => {
    // The client forgets a call's token before it handles a progress notification that it read together with the result.
    // It forgets its subscriptions when it closes, and may still read the answers that their end has.
    if (!/progress notification for an unknown token|unknown message ID: .*"id":"listen:/.test(error.message)) throw error; // a message that it does not accept
  };
  transport.onmessage = raw;
  await client.connect(transport);
  return { client, transport };
}

// until resolves when check does not return undefined; poke has it look again.
function until(check) {
  let poke;
  const promise = new Promise(resolve => {
    poke = () => {
      const value = check();
      if (value !== undefined) resolve(value);
    };
  });
  poke();
  return { promise, poke };
}

async function plainCalls(client) {
  const { tools } = await client.listTools();
  for (const name of ['echo', 'stream', 'sleep', 'hello', 'must']) {
    assert.ok(tools.some(tool => tool.name === name), `tool ${name} is listed`);
  }
  const echo = await client.callTool({ name: 'echo', arguments: { text: 'hé "llo"' } });
  assert.deepEqual(echo.content, [{ type: 'text', text: 'hé "llo"' }]);
  const hello = await client.callTool({ name: 'hello', arguments: { who: 'you' } });
  assert.equal(hello.content[0].text, 'hello you\n');
  assert.equal(hello.structuredContent.exitCode, 0); // checked against the tool's outputSchema by the client
  const bad = await client.callTool({ name: 'hello', arguments: {} });
  assert.equal(bad.isError, true);

  // The SDK hands progress over a moment after it has read it, and forgets onprogress with the answer: what a busy machine reads
  // together with the answer is lost.
  let progress = [];
  for (let tries = 0; tries < 5 && progress.length < 2; tries++) {
    progress = [];
    await client.callTool({ name: 'test_tool_with_progress' }, { onprogress: p => progress.push(p.progress) });
  }
  assert.deepEqual(progress.slice(0, 2), [0, 50]);

  const abort = new AbortController();
  const slow = client.callTool({ name: 'sleep', arguments: { ms: 3_600_000 } }, { signal: abort.signal });
  abort.abort('enough');
  await assert.rejects(slow);
  const after = await client.callTool({ name: 'echo', arguments: { text: 'on' } });
  assert.equal(after.content[0].text, 'on');
  return tools;
}

const elicitation = { elicitation: { form: {} } };
const answer = client =>
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    const [property] = Object.keys(params.requestedSchema.properties);
    return { action: 'accept', content: { [property]: 'Ada' } };
  });

// Automatic mode: a probe in a process of its own, then the session in another one. The list of tools is subscribed to.
{
  const changes = [];
  let poke = () => {};
  const { client, transport } = await connect({
    capabilities: { ...elicitation, partialResults: {} },
    listChanged: { tools: { autoRefresh: true, debounceMs: 0, onChanged: (error, tools) => { changes.push(error ?? tools); poke(); } } },
  });
  assert.equal(client.getNegotiatedProtocolVersion(), modern);
  assert.equal(client.getServerVersion().name, 'runnel');
  const [probe, session] = startedPIDs();
  assert.equal(startedPIDs().length, 2, 'the program is started twice');
  assert.equal(session, transport.pid);
  assert.throws(() => process.kill(probe, 0), 'the probed program has exited');
  const tools = await plainCalls(client);
  assert.deepEqual((await client.listTools(undefined, { cacheMode: 'refresh' })).tools, tools, 'the list has an order');

  // The client answers the server's question by calling again.
  answer(client);
  const asked = await client.callTool({ name: 'ask', arguments: { message: 'Who?' } });
  assert.equal(asked.content[0].text, 'accepted: Ada');
  const introduced = await client.callTool({ name: 'test_tool_with_task' });
  assert.match(introduced.content[0].text, /Ada/);

  // A tool that requires a task needs a client that takes tasks.
  await assert.rejects(client.callTool({ name: 'must', arguments: {} }), error => {
    assert.equal(error.code, ProtocolErrorCode.MissingRequiredClientCapability);
    assert.deepEqual(error.data, { requiredCapabilities: { extensions: { [tasksExtension]: {} } } });
    return true;
  });
  await assert.rejects(
    client.request({ method: 'tasks/get', params: { taskId: 'none' } }, z.looseObject({})),
    error => error.code === ProtocolErrorCode.MissingRequiredClientCapability,
  );

  // SEP-2998, which the client does not know: partial results of a plain call.
  let text = '';
  let seq = 0;
  client.setNotificationHandler(
    'notifications/tools/partial_result',
    { params: z.object({ partialResultToken: z.literal('mine'), seq: z.number(), content: z.array(z.object({ text: z.string() })), final: z.boolean() }) },
    params => {
      assert.equal(params.seq, seq++);
      for (const item of params.content) text += item.text;
    },
  );
  const streamed = await client.callTool({ name: 'stream', arguments: { count: 20, intervalMs: 10 }, _meta: { partialResultToken: 'mine' } });
  assert.equal(streamed.content[0].text, 'streamed 20 chunks');
  assert.equal(text.trimEnd().split('\n').length, 20);
  assert.ok(seq > 1, 'partial results came while the call ran');

  // A tool that is added to the config is told of.
  assert.deepEqual(client.autoOpenedSubscription.honoredFilter, { toolsListChanged: true });
  const added = until(() => changes.find(tools => Array.isArray(tools) && tools.some(tool => tool.name === 'added')));
  poke = added.poke;
  appendFileSync(config, '  added:\n    command: [echo, added]\n');
  await added.promise;

  const subscription = await client.listen({ toolsListChanged: true });
  await subscription.close();
  assert.equal(await subscription.closed, 'local');

  const auto = client.autoOpenedSubscription.closed;
  process.kill(transport.pid, 'SIGTERM');
  assert.equal(await auto, 'graceful', 'the server ends a subscription with an answer');
  await client.close();
}

// The tasks extension. The client knows none of it but lets its user speak it; the handle it refuses as a result type
// that it does not know, so its task id is read from the message.
const endedTasks = [];
{
  const tasks = new Map(); // the last state that was told, by task id
  const texts = new Map(); // text of the partials, by task id
  const handles = [];
  const acknowledgements = [];
  const waiting = new Set();
  const poke = () => waiting.forEach(w => w.poke());
  const told = (taskId, ...statuses) => {
    const w = until(() => (statuses.includes(tasks.get(taskId)?.status) ? tasks.get(taskId) : undefined));
    waiting.add(w);
    return w.promise;
  };
  const { client, transport } = await connect(
    {
      versionNegotiation: { mode: { pin: modern } },
      capabilities: { ...elicitation, extensions: { [tasksExtension]: {}, [partialsExtension]: {} } },
    },
    {
      raw: message => {
        if (message.result?.resultType === 'task') handles.push(message.result);
        if (message.method === 'notifications/subscriptions/acknowledged') acknowledgements.push(message.params.notifications);
      },
    },
  );
  answer(client);

  const detailed = z.object({
    taskId: z.string(), status: z.enum(['working', 'input_required', 'completed', 'failed', 'cancelled']), statusMessage: z.string().optional(),
    createdAt: z.iso.datetime(), lastUpdatedAt: z.iso.datetime(), ttlMs: z.int().nullable(), pollIntervalMs: z.int().optional(),
    inputRequests: z.record(z.string(), z.looseObject({ method: z.literal('elicitation/create') })).optional(),
    result: z.looseObject({ content: z.array(z.looseObject({})) }).optional(), error: z.looseObject({ code: z.int() }).optional(),
  });
  const onSubscription = { _meta: z.looseObject({ 'io.modelcontextprotocol/subscriptionId': z.string() }) };
  client.setNotificationHandler('notifications/tasks', { params: detailed.extend(onSubscription) }, task => {
    tasks.set(task.taskId, task);
    poke();
  });
  client.setNotificationHandler(
    'notifications/tasks/partial',
    { params: z.object({ ...onSubscription, taskId: z.string(), seq: z.int(), content: z.array(z.object({ type: z.literal('text'), text: z.string() })).min(1) }) },
    params => {
      const task = texts.get(params.taskId) ?? { next: 0, text: '' };
      assert.equal(params.seq, task.next++, 'seq has no gap');
      assert.ok(!['completed', 'failed', 'cancelled'].includes(tasks.get(params.taskId)?.status), 'no partial after the terminal status');
      for (const item of params.content) task.text += item.text;
      texts.set(params.taskId, task);
    },
  );
  const start = async (name, args = {}) => {
    await assert.rejects(client.callTool({ name, arguments: args }), error => error.code === SdkErrorCode.UnsupportedResultType && error.data.resultType === 'task');
    const handle = handles.at(-1);
    assert.equal(handle.status, 'working');
    return handle.taskId;
  };
  const get = taskId => client.request({ method: 'tasks/get', params: { taskId } }, detailed);
  const acknowledged = (method, params) => client.request({ method, params }, z.strictObject({ _meta: z.looseObject({}) }));

  // The server decides: what is done soon is a result, what is not is a task.
  assert.equal((await client.callTool({ name: 'echo', arguments: { text: 'soon' } })).content[0].text, 'soon');
  let streaming;
  for (const intervalMs of [10, 100, 1000]) { // on a busy machine a short task ends before the subscription
    streaming = await start('stream', { count: 60, intervalMs });
    const subscription = await client.listen({ taskIds: [streaming] });
    assert.deepEqual(acknowledgements.at(-1), { taskIds: [streaming] }); // the client's honoredFilter leaves out what it does not know
    const done = await told(streaming, 'completed');
    assert.equal(done.result.content[0].text, 'streamed 60 chunks');
    assert.deepEqual((await get(streaming)).result, done.result);
    assert.equal(texts.get(streaming).text.trimEnd().split('\n').length, 60);
    await subscription.close();
    endedTasks.push(streaming);
    if (texts.get(streaming).next > 1) break;
  }
  assert.ok(texts.get(streaming).next > 1, 'partials came while the task ran');

  // Questions of a task: found by polling, answered with tasks/update.
  const deleting = await start('confirm_delete', { filename: 'a.txt' });
  const questions = await client.listen({ taskIds: [deleting] });
  const { inputRequests } = await told(deleting, 'input_required');
  assert.deepEqual((await get(deleting)).inputRequests, inputRequests);
  const [key] = Object.keys(inputRequests);
  await acknowledged('tasks/update', { taskId: deleting, inputResponses: { [key]: { action: 'accept', content: { confirm: true } } } });
  assert.equal((await told(deleting, 'completed')).result.content[0].text, 'Deleted a.txt');
  await questions.close();
  endedTasks.push(deleting);

  // A question before there is a task: the client answers it by itself, and the call becomes a task.
  const greeting = await start('test_tool_with_task');
  await client.listen({ taskIds: [greeting] });
  assert.match((await told(greeting, 'completed')).result.content[0].text, /Ada/);
  endedTasks.push(greeting);

  // Errors, one kind inside the result and one beside it.
  const failing = await start('failing_job');
  const erring = await start('protocol_error_job');
  await client.listen({ taskIds: [failing, erring] });
  assert.equal((await told(failing, 'completed')).result.isError, true);
  assert.equal((await told(erring, 'failed')).error.code, ProtocolErrorCode.InternalError);
  endedTasks.push(failing, erring);

  const sleeping = await start('sleep', { ms: 3_600_000 });
  await client.listen({ taskIds: [sleeping] });
  await acknowledged('tasks/cancel', { taskId: sleeping });
  await told(sleeping, 'cancelled');
  await acknowledged('tasks/cancel', { taskId: sleeping });
  assert.equal((await get(sleeping)).status, 'cancelled');
  endedTasks.push(sleeping);

  await assert.rejects(get('none'), error => error.code === ProtocolErrorCode.InvalidParams);
  const pid = transport.pid;
  await client.close();
  assert.throws(() => process.kill(pid, 0), 'the server has exited');
}

// The server corrects a version that it does not serve.
{
  const { client } = await connect({ supportedProtocolVersions: ['2099-01-01', modern, '2025-11-25'] });
  assert.equal(client.getNegotiatedProtocolVersion(), modern);
  await plainCalls(client);
  await client.close();
}

// Falling back: the probe fails, here because it lost its _meta, and the session is opened by initialize on the connection
// that was probed. (The client probes in place when the transport is one of its user's.)
{
  class Forgetful extends StdioClientTransport {
    send(message, ...rest) {
      if (message.method === 'server/discover') message = { ...message, params: {} };
      return super.send(message, ...rest);
    }
  }
  const before = startedPIDs().length;
  const { client } = await connect({ capabilities: elicitation }, { transport: new Forgetful(parameters) });
  assert.equal(startedPIDs().length, before + 1, 'the program is started once');
  assert.equal(client.getNegotiatedProtocolVersion(), '2025-11-25');
  await plainCalls(client);
  answer(client);
  const asked = await client.callTool({ name: 'ask', arguments: { message: 'Who?' } });
  assert.equal(asked.content[0].text, 'accepted: Ada');
  await client.close();
}

// Falling back from a probe that ends without an answer: the first start dies, the second one serves the session.
{
  const args = ['-c', 'if test -e "$0"; then exec "$@"; fi; : >"$0"', `${config}.probed`, ...parameters.args.slice(3)];
  const { client } = await connect({}, { transport: new StdioClientTransport({ ...parameters, args }) });
  assert.equal(client.getNegotiatedProtocolVersion(), '2025-11-25');
  await plainCalls(client);
  await client.close();
}

console.log(`probed, corrected, fell back twice; ${startedPIDs().length} starts, ended ${endedTasks.length} tasks`);
