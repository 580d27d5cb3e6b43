// The official TypeScript client of 2026-07-28 (2.x) against runnel over HTTP: how it finds the era, calls, questions, a subscription with a
// task's partials, and a call that is aborted.
// Usage: node http.mjs URL CONFIG. Exits 0 and prints what it saw, or 1 with the reason.
import assert from 'node:assert/strict';
import { z } from 'zod';
import { Client, SdkErrorCode, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url] = process.argv.slice(2);
const tasksExtension = 'io.modelcontextprotocol/tasks';
const partialsExtension = 'runnel/task-partials';

async function connect(mode, extensions = {}, raw = () => {}) {
  const client = new Client({ name: 'interop', version: '1' }, { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} }, extensions } });
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    const [property] = Object.keys(params.requestedSchema.properties);
    return { action: 'accept', content: { [property]: 'Ada' } };
  });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  transport.onmessage = raw;
  await client.connect(transport);
  assert.equal(client.getServerVersion().name, 'runnel');
  return client;
}

async function calls(client) {
  const hello = await client.callTool({ name: 'hello', arguments: { who: 'you' } });
  assert.equal(hello.content[0].text, 'hello you\n');
  const progress = [];
  await client.callTool({ name: 'test_tool_with_progress' }, { onprogress: p => progress.push(p.progress) });
  assert.deepEqual(progress.slice(0, 2), [0, 50]);
  const asked = await client.callTool({ name: 'ask', arguments: { message: 'Who?' } });
  assert.equal(asked.content[0].text, 'accepted: Ada');
  const abort = new AbortController();
  const slow = client.callTool({ name: 'sleep', arguments: { ms: 3_600_000 } }, { signal: abort.signal });
  setTimeout(() => abort.abort('enough'), 100);
  await assert.rejects(slow);
  const after = await client.callTool({ name: 'echo', arguments: { text: 'on' } });
  assert.equal(after.content[0].text, 'on');
}

const modern = await connect('auto');
assert.equal(modern.getNegotiatedProtocolVersion(), '2026-07-28');
await calls(modern);
await modern.close();

const legacy = await connect('legacy');
assert.equal(legacy.getNegotiatedProtocolVersion(), '2025-11-25');
await calls(legacy);
await legacy.close();

// A task, whose partials come on a subscription.
let handle;
const tasks = await connect('auto', { [tasksExtension]: {}, [partialsExtension]: {} }, message => {
  if (message.result?.resultType === 'task') handle = message.result;
});
const params = z.looseObject({ taskId: z.string(), _meta: z.looseObject({ 'io.modelcontextprotocol/subscriptionId': z.string() }) });
let next, text;
tasks.setNotificationHandler('notifications/tasks/partial', { params }, partial => {
  assert.equal(partial.seq, next++, 'seq has no gap');
  for (const item of partial.content) text += item.text;
});
let end;
tasks.setNotificationHandler('notifications/tasks', { params }, task => task.status === 'completed' && end(task));
let streamed = 0;
for (const intervalMs of [10, 10, 100, 100, 1000]) { // on a busy machine a short task ends before the subscription
  next = 0;
  text = '';
  const ended = new Promise(resolve => { end = resolve; });
  await assert.rejects(tasks.callTool({ name: 'stream', arguments: { count: 40, intervalMs } }), error => error.code === SdkErrorCode.UnsupportedResultType);
  const subscription = await tasks.listen({ taskIds: [handle.taskId] });
  assert.equal((await ended).result.content[0].text, 'streamed 40 chunks');
  assert.equal(text.trimEnd().split('\n').length, 40);
  await subscription.close();
  if (next > 1 && ++streamed === 2) break;
}
assert.equal(streamed, 2, 'partials came while the task ran');
await tasks.close();
console.log(`both eras, ${next} partials`);
