// The official TypeScript SDK as a client of runnel: list, call, stream, cancel.
// Usage: node client.mjs RUNNEL CONFIG, or node client.mjs URL CONFIG for a runnel that serves HTTP with that config. Exits 0 and prints what it saw, or 1 with the reason.
import assert from 'node:assert/strict';
import { z } from 'zod';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, TaskStatusNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const [program, config] = process.argv.slice(2);

// The SDK does not know SEP-2679: its notification is handled like any custom one.
const TaskPartialNotificationSchema = z.object({
  method: z.literal('notifications/tasks/partial'),
  params: z.object({
    taskId: z.string(),
    seq: z.number().int(),
    content: z.array(z.object({ type: z.literal('text'), text: z.string() })).min(1),
  }),
});

const client = new Client(
  { name: 'interop', version: '1' },
  { capabilities: { tasks: { list: {}, cancel: {}, streaming: { partial: {} } } } },
);
client.onerror = error => {
  // The SDK forgets a call's token before it handles a progress notification that it read together with the result. It reports the streams
  // and messages that it aborts itself when it is closed.
  if (!/progress notification for an unknown token|SSE stream disconnected: AbortError|Failed to send cancellation: AbortError/.test(error.message)) throw error; // a message that it does not accept
};
const tasks = client.experimental.tasks;

const partials = new Map(); // text by task id
client.setNotificationHandler(TaskPartialNotificationSchema, ({ params }) => {
  const task = partials.get(params.taskId) ?? { next: 0, text: '' };
  assert.equal(params.seq, task.next++, 'seq has no gap');
  assert.ok(!ended.has(params.taskId), 'no partial after the terminal status');
  for (const item of params.content) task.text += item.text;
  partials.set(params.taskId, task);
});
const ended = new Map(); // terminal status by task id
let onEnded = () => {};
client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => {
  if (['completed', 'failed', 'cancelled'].includes(params.status)) {
    ended.set(params.taskId, params.status);
    onEnded();
  }
});
const end = taskId =>
  new Promise(resolve => {
    onEnded = () => ended.has(taskId) && resolve(ended.get(taskId));
    onEnded();
  });

const http = program.startsWith('http');
const transport = http ? new StreamableHTTPClientTransport(new URL(program)) : new StdioClientTransport({
  command: program,
  args: ['--selftest', '--config', config],
  env: { ...process.env },
});
await client.connect(transport);
assert.equal(client.getServerVersion().name, 'runnel');

const { tools } = await client.listTools();
for (const name of ['echo', 'stream', 'sleep', 'fail', 'hello', 'must']) {
  assert.ok(tools.some(tool => tool.name === name), `tool ${name} is listed`);
}

// A plain call, and one whose structuredContent the SDK checks against the tool's outputSchema.
const echo = await client.callTool({ name: 'echo', arguments: { text: 'hé "llo"' } });
assert.deepEqual(echo.content, [{ type: 'text', text: 'hé "llo"' }]);
const hello = await client.callTool({ name: 'hello', arguments: { who: 'you' } });
assert.equal(hello.content[0].text, 'hello you\n');
assert.equal(hello.structuredContent.exitCode, 0);
const bad = await client.callTool({ name: 'hello', arguments: {} });
assert.equal(bad.isError, true);

// Progress, by the SDK's own token.
const progress = [];
await client.callTool({ name: 'test_tool_with_progress' }, CallToolResultSchema, {
  onprogress: p => progress.push(p.progress),
});
assert.deepEqual(progress.slice(0, 2), [0, 50]);

// A task by the SDK's stream of messages; its partials arrive while it runs.
const seen = [];
let taskId, result;
for await (const message of tasks.callToolStream(
  { name: 'stream', arguments: { count: 40, intervalMs: 10 } }, CallToolResultSchema, { task: { ttl: 60_000 } })) {
  seen.push(message.type);
  if (message.type === 'taskCreated') taskId = message.task.taskId;
  if (message.type === 'result') result = message.result;
  if (message.type === 'error') throw message.error;
}
assert.equal(seen[0], 'taskCreated');
assert.equal(result.content[0].text, 'streamed 40 chunks');
assert.equal(await end(taskId), 'completed');
const lines = partials.get(taskId).text.trimEnd().split('\n');
assert.equal(lines.length, 40);
lines.forEach((line, i) => assert.match(line, new RegExp(`^chunk ${String(i).padStart(6, '0')} `)));
assert.ok(partials.get(taskId).next > 1, 'partials came while the task ran');

// A tool that requires a task.
let must;
for await (const message of tasks.callToolStream({ name: 'must', arguments: {} })) {
  if (message.type === 'error') throw message.error;
  if (message.type === 'result') must = message.result;
}
assert.equal(must.structuredContent.exitCode, 0);

// tasks/list, tasks/get, tasks/result and tasks/cancel.
const started = tasks.callToolStream({ name: 'sleep', arguments: { ms: 3_600_000 } }, CallToolResultSchema, { task: {} });
const { value: created } = await started.next();
assert.equal(created.type, 'taskCreated');
const running = created.task.taskId;
assert.ok((await tasks.listTasks()).tasks.some(task => task.taskId === running));
assert.equal((await tasks.getTask(running)).status, 'working');
assert.equal((await tasks.cancelTask(running)).status, 'cancelled');
assert.equal(await end(running), 'cancelled');
await started.return();
await assert.rejects(tasks.cancelTask(running), error => error.code === -32602);
assert.equal((await tasks.getTaskResult(taskId, CallToolResultSchema)).content[0].text, 'streamed 40 chunks');

// A plain call that the client aborts.
const abort = new AbortController();
const slow = client.callTool({ name: 'sleep', arguments: { ms: 3_600_000 } }, CallToolResultSchema, { signal: abort.signal });
setTimeout(() => abort.abort('enough'), 50);
await assert.rejects(slow);
await client.ping();

const pid = transport.pid;
if (http) await transport.terminateSession();
await client.close();
if (!http) assert.throws(() => process.kill(pid, 0), 'the server has exited');
console.log(`${tools.length} tools, ${partials.get(taskId).next} partials, ended ${ended.size} tasks`);
