// Every message of sessions in each dialect, held against the official TypeScript SDK's schemas.
// Usage: node strict.mjs RUNNEL CONFIG. Exits 0 and prints what it saw, or 1 with the reason.
//
// The SDK reads a line by JSONRPCMessageSchema, whose responses and notifications are strict at the top level; the
// tap below sees what it lets through and parses it again by the schema of its method. What the SDK does with each:
//
//   SEP-2679         a notification it does not know: given to a custom handler
//   SEP-1905 pulled  results with members it does not know, which its schemas keep
//   SEP-1905 pushed  the first response settles the call; each further one of the same id goes to onerror ("unknown
//                    message ID") and is dropped. Nothing breaks, but nothing is shown: so further responses go only to
//                    clients that declare tasks.responses.modes, which an application sets that reads the transport itself
//   PR #383          its schema strips partialResult from what onprogress gets; the raw message still has it
//   the others       as they are
import assert from 'node:assert/strict';
import { z } from 'zod';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import * as schemas from '@modelcontextprotocol/sdk/types.js';

const [program, config] = process.argv.slice(2);

const results = {
  initialize: schemas.InitializeResultSchema,
  ping: schemas.EmptyResultSchema,
  'tools/list': schemas.ListToolsResultSchema,
  'tools/call': schemas.CallToolResultSchema,
  'tasks/get': schemas.GetTaskResultSchema,
  'tasks/list': schemas.ListTasksResultSchema,
  'tasks/cancel': schemas.CancelTaskResultSchema,
  'tasks/result': schemas.CallToolResultSchema,
};

// partialSchema is SEP-2679's notification in the SDK's own terms.
const partialSchema = schemas.NotificationSchema.extend({
  method: z.literal('notifications/tasks/partial'),
  params: z.strictObject({
    taskId: z.string(),
    seq: z.number().int().nonnegative(),
    content: z.array(schemas.ContentBlockSchema).min(1),
  }),
});

// partialResultSchema is what PR #383 adds to the params of the SDK's progress notification.
const partialResultSchema = z.strictObject({
  chunk: z.strictObject({ content: z.array(schemas.ContentBlockSchema) }),
  append: z.boolean(),
  lastChunk: z.boolean(),
});

// segmentsSchema is what SEP-1905 adds to a result.
const segmentsSchema = z.array(schemas.ContentBlockSchema.and(z.looseObject({ seqNr: z.number().int().positive() })));

// check parses a message by the schema of its method and returns what it is.
function check(message, request) {
  schemas.JSONRPCMessageSchema.parse(message);
  if ('error' in message) {
    schemas.JSONRPCErrorResponseSchema.parse(message);
    return 'error';
  }
  if (!('method' in message)) return checkResult(message.result, request);
  if ('id' in message) {
    schemas.ServerRequestSchema.parse(message);
    return message.method;
  }
  if (message.method === 'notifications/tasks/partial') {
    partialSchema.parse(message);
    return message.method;
  }
  schemas.ServerNotificationSchema.parse(message);
  if (message.params?.partialResult === undefined) return message.method;
  partialResultSchema.parse(message.params.partialResult);
  return 'partialResult';
}

function checkResult(result, request) {
  assert.ok(request, 'an answer to nothing');
  if (result.task) schemas.CreateTaskResultSchema.parse(result);
  if ('partial-content' in result) {
    segmentsSchema.parse(result['partial-content']);
    z.boolean().parse(result.isComplete);
    schemas.ResultSchema.parse(result);
    return 'partial-content';
  }
  if (result.task) return 'task';
  results[request.method].parse(result);
  if (request.method === 'tools/call' || request.method === 'tasks/result') {
    assert.ok(Array.isArray(result.content), 'content is required, not only allowed to be missing');
  }
  return request.method;
}

// Session is the SDK's client with a tap between its transport and its protocol.
class Session {
  kinds = {}; // how many of each kind of message came
  statuses = new Map(); // terminal ones, by task id
  notified = () => {};
  problems = []; // what the SDK or the schemas reject
  further = 0; // responses to a call that was answered

  static async open(capabilities, ...args) {
    const s = new Session();
    s.transport = new StdioClientTransport({
      command: program,
      args: ['--selftest', '--config', config, ...args],
      env: { ...process.env },
    });
    const requests = new Map();
    const answered = new Set();
    const send = s.transport.send.bind(s.transport);
    s.transport.send = (message, options) => {
      if ('method' in message && 'id' in message) requests.set(message.id, message);
      return send(message, options);
    };
    s.transport.onmessage = message => {
      try {
        const kind = check(message, requests.get(message.id));
        s.kinds[kind] = (s.kinds[kind] ?? 0) + 1;
      } catch (error) {
        s.problems.push(`${JSON.stringify(message)}: ${error.message}`);
      }
      if ('result' in message) {
        if (answered.has(message.id)) s.further++;
        answered.add(message.id);
      }
      if (message.method === 'notifications/tasks/status') {
        if (['completed', 'failed', 'cancelled'].includes(message.params.status)) {
          s.statuses.set(message.params.taskId, message.params.status);
        }
        s.notified(message.params);
      }
    };
    s.client = new Client({ name: 'strict', version: '1' }, { capabilities });
    s.unknown = 0; // further responses, as the SDK reports them
    s.client.onerror = error => {
      if (/response for an unknown message ID/.test(error.message)) s.unknown++;
      // The SDK forgets a call's token before it handles a progress notification that it read together with the result.
      else if (!/progress notification for an unknown token/.test(error.message)) s.problems.push(error.message);
    };
    await s.client.connect(s.transport);
    await s.client.listTools();
    return s;
  }

  call(name, args, more = {}, options = {}) {
    return this.client.request(
      { method: 'tools/call', params: { name, arguments: args, ...more } }, schemas.ResultSchema, options);
  }

  // end waits for a task's terminal status notification.
  end(taskId) {
    return new Promise(resolve => {
      this.notified = () => this.statuses.has(taskId) && resolve(this.statuses.get(taskId));
      this.notified();
    });
  }

  result(taskId, more = {}) {
    return this.client.request({ method: 'tasks/result', params: { taskId, ...more } }, schemas.ResultSchema);
  }

  // close ends the session, which must have been shown messages of these kinds.
  async close(...kinds) {
    await this.client.ping();
    await this.client.close();
    assert.deepEqual(this.problems, []);
    for (const kind of kinds) assert.ok(this.kinds[kind] > 0, `no ${kind} in ${JSON.stringify(this.kinds)}`);
    return this.kinds;
  }
}

const text = result => result.content.map(item => item.text).join('');

const sessions = {
  async 'SEP-2679'() {
    const s = await Session.open({ tasks: { streaming: { partial: {} } } });
    for (const [name, args, status] of [
      ['stream', { count: 20, intervalMs: 5 }, 'completed'],
      ['blob', { bytes: 100 }, 'completed'],
      ['fail', { afterChunks: 2, message: 'no luck' }, 'failed'],
      ['panic', {}, 'failed'],
    ]) {
      const { task } = await s.call(name, args, { task: {} });
      assert.equal(await s.end(task.taskId), status);
      await s.result(task.taskId).catch(error => assert.equal(name, 'panic', error.message));
      await s.client.experimental.tasks.getTask(task.taskId);
    }
    await s.client.experimental.tasks.listTasks();
    return s.close('notifications/tasks/partial', 'notifications/tasks/status', 'task', 'tasks/result', 'tasks/get', 'tasks/list', 'error');
  },

  async 'SEP-1905 pushed'() {
    const s = await Session.open({ tasks: { responses: { modes: ['task', 'immediate', 'streaming'] } } });
    const { task } = await s.call('stream', { count: 20, intervalMs: 5 }, { task: { responseModes: ['streaming'] } });
    assert.equal(await s.end(task.taskId), 'completed');
    const failed = await s.call('fail', { afterChunks: 2, intervalMs: 300, message: 'no luck' }, { task: { responseModes: ['streaming'] } });
    assert.equal(await s.end(failed.task.taskId), 'failed');
    const merged = await s.result(task.taskId);
    assert.equal(text(merged).length, 20 * 50 + 'streamed 20 chunks'.length);
    assert.ok(s.further > 0 && s.unknown === s.further, `${s.unknown} of ${s.further} further responses are reported, none is shown`);
    return s.close('partial-content', 'notifications/tasks/status', 'tasks/result');
  },

  async 'SEP-1905 pulled'() {
    const s = await Session.open({ tasks: {} }, '--immediate-wait', '10s'); // for the first segment, however busy the machine
    const first = await s.call('stream', { count: 20, intervalMs: 5 }, { task: { responseModes: ['streaming'] } });
    let last = first['partial-content'].length;
    for (let page = first; !page.isComplete; last += page['partial-content'].length) {
      page = await s.result(first.task.taskId, { lastSeqNr: last });
    }
    assert.ok(last > 1, 'several segments');
    assert.equal((await s.result(first.task.taskId)).content.length, last);
    assert.equal(s.further, 0, 'nothing is pushed to a client that does not take it');
    return s.close('partial-content', 'tasks/result');
  },

  async 'SEP-1905 immediate and fallback'() {
    const s = await Session.open({ tasks: {} }, '--immediate-wait', '200ms');
    const now = await s.call('echo', { text: 'now' }, { task: { responseModes: ['immediate'] } });
    assert.equal(text(now), 'now');
    assert.equal(text(await s.result(now._meta['io.modelcontextprotocol/related-task'].taskId)), 'now');
    const { task, _meta } = await s.call('sleep', { ms: 400 }, { task: { responseModes: ['immediate'] } });
    assert.equal(_meta['io.modelcontextprotocol/fallback-mode'], 'task');
    assert.equal(await s.end(task.taskId), 'completed');
    return s.close('tools/call', 'task', 'tasks/result');
  },

  async 'PR #383'() {
    const s = await Session.open({ tasks: {} });
    const asked = { _meta: { partialResults: true } };
    const seen = [];
    const onprogress = progress => seen.push(progress);
    const empty = await s.call('stream', { count: 20, intervalMs: 5 }, asked, { onprogress });
    assert.deepEqual(empty.content, []);
    assert.ok(seen.length > 1 && seen.every((p, i) => i === 0 || p.progress > seen[i - 1].progress), 'progress rises');
    const failed = await s.call('fail', { afterChunks: 1, message: 'no luck' }, asked, { onprogress });
    assert.deepEqual([failed.content, failed.isError], [[], true]);
    const { task } = await s.call('stream', { count: 3 }, { ...asked, task: {} }, { onprogress });
    assert.equal(await s.end(task.taskId), 'completed');
    assert.equal(text(await s.result(task.taskId)), 'streamed 3 chunks');
    return s.close('partialResult', 'tools/call', 'task');
  },

  async progress() {
    const s = await Session.open({});
    const seen = [];
    const onprogress = progress => seen.push(progress);
    await s.call('test_tool_with_progress', {}, {}, { onprogress });
    await s.call('stream', { count: 20, intervalMs: 10 }, {}, { onprogress });
    assert.ok(seen.some(p => /^chunk 0000\d\d /.test(p.message)), 'the last line of output');
    const { task } = await s.call('stream', { count: 5, intervalMs: 100 }, { task: {} }, { onprogress });
    assert.equal(await s.end(task.taskId), 'completed');
    return s.close('notifications/progress', 'tools/call', 'task');
  },

  async 'status only'() {
    const s = await Session.open({ tasks: {} });
    const { task } = await s.call('stream', { count: 600, intervalMs: 100 }, { task: { ttl: 60_000 } });
    const shown = await new Promise(resolve => {
      s.notified = params => params.status === 'working' && resolve(params.statusMessage);
    });
    assert.match(shown, /^chunk 0000\d\d /);
    await s.client.experimental.tasks.cancelTask(task.taskId);
    assert.equal(await s.end(task.taskId), 'cancelled');
    return s.close('notifications/tasks/status', 'tasks/cancel');
  },

  async 'hand-over'() {
    const s = await Session.open({}, '--sync-wait', '200ms', '--fallback-tools', 'always');
    const first = await s.call('stream', { count: 12, intervalMs: 50 }, {}, { onprogress: () => {} });
    let { taskId, status } = first._meta['runnel/task'];
    assert.equal(status, 'working');
    let output = first.content.length > 1 ? first.content[1].text : '';
    while (status === 'working') {
      const page = await s.call('get_task_result', { task_id: taskId, wait_ms: 5000 });
      ({ status } = page._meta['runnel/task']);
      output += page.content[0].text;
    }
    assert.equal(output.match(/^chunk /gm).length, 12);
    const started = await s.call('start_task', { tool: 'sleep', arguments: { ms: 3_600_000 } });
    assert.ok(text(await s.call('list_tasks', {})).includes(started._meta['runnel/task'].taskId));
    await s.call('cancel_task', { task_id: started._meta['runnel/task'].taskId });
    return s.close('tools/call', 'notifications/progress');
  },

  async elicitation() {
    const s = await Session.open({ elicitation: {}, tasks: {} });
    const answers = [{ action: 'accept', content: { answer: 'yes' } }, { action: 'decline' }, { action: 'cancel' }];
    let asked = () => {};
    s.client.setRequestHandler(schemas.ElicitRequestSchema, (request, { signal }) => {
      assert.equal(request.params.requestedSchema.properties.answer.type, 'string');
      const answer = answers.shift();
      asked(signal);
      return answer ?? new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('withdrawn'))));
    });
    assert.equal(text(await s.call('ask', { message: 'Really?' })), 'accepted: yes');
    assert.equal(text(await s.call('ask', { message: 'Really?' })), 'declined');
    const { task } = await s.call('ask', { message: 'Really?' }, { task: {} });
    assert.equal(await s.end(task.taskId), 'completed');
    // A question that the task's end withdraws.
    const open = new Promise(resolve => { asked = resolve; });
    const doomed = await s.call('ask', { message: 'Still?' }, { task: {} });
    const signal = await open;
    const withdrawn = new Promise(resolve => signal.addEventListener('abort', resolve));
    assert.equal((await s.client.experimental.tasks.getTask(doomed.task.taskId)).status, 'input_required');
    await s.client.experimental.tasks.cancelTask(doomed.task.taskId);
    assert.equal(await s.end(doomed.task.taskId), 'cancelled');
    await withdrawn;
    return s.close('elicitation/create', 'notifications/cancelled', 'notifications/tasks/status');
  },
};

let total = 0;
for (const [name, play] of Object.entries(sessions)) {
  const kinds = await play().catch(error => {
    error.message = `${name}: ${error.message}`;
    throw error;
  });
  const count = Object.values(kinds).reduce((a, b) => a + b);
  total += count;
  console.log(`${name}: ${count} messages, ${JSON.stringify(kinds)}`);
}
console.log(`${Object.keys(sessions).length} sessions, ${total} messages, none rejected`);
