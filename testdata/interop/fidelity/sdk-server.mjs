// A server of the official SDK that speaks 2026-07-28, and 2025-11-25 to a client that opens with initialize. It asks its client for everything that a
// server can ask for, in calls and for a prompt.
import { McpServer, ResourceTemplate, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const text = (value, more) => ({ content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }], ...more });
const asks = {
  'ask-form': () => inputRequired.elicit({ message: 'Which?', requestedSchema: z.object({ which: z.string().describe('a name'), sure: z.boolean().default(true) }), _meta: { 'x/key': 1 } }),
  'ask-url': () => inputRequired.elicitUrl({ message: 'Sign in', url: 'https://example.com/sign-in' }),
  'ask-sample': () => inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'Say hi' } }], maxTokens: 10, systemPrompt: 'short', temperature: 0.5 }),
  'ask-roots': () => inputRequired.listRoots(),
};

serveStdio(() => {
  const server = new McpServer(
    { name: 'sdk-server', title: 'The SDK', version: '2' },
    { capabilities: { logging: {}, experimental: { 'x/experiment': { n: 1 } } }, instructions: 'Ask me.' },
  );
  server.registerTool('add', {
    title: 'Add', description: 'adds', inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }),
    annotations: { readOnlyHint: true }, _meta: { 'x/tool': { n: 1 } },
  }, ({ a, b }) => text(String(a + b), { structuredContent: { sum: a + b }, _meta: { 'x/result': 1 } }));
  server.registerTool('kinds', { description: 'every kind of content' }, () => ({
    content: [
      { type: 'text', text: 'ünï', annotations: { audience: ['user'], priority: 0.5 } },
      { type: 'image', data: 'AAAA', mimeType: 'image/png' },
      { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'note://1', name: 'one' },
      { type: 'resource', resource: { uri: 'note://1', text: 'one', mimeType: 'text/plain' } },
    ],
  }));
  server.registerTool('fail', { description: 'fails' }, () => { throw new Error('no'); });
  server.registerTool('is-error', { description: 'an error as a result' }, () => text('no', { isError: true }));
  for (const [name, ask] of Object.entries(asks)) {
    server.registerTool(name, { description: name }, ctx => (ctx.mcpReq.inputResponses?.q ? text(ctx.mcpReq.inputResponses.q) : inputRequired({ inputRequests: { q: ask() } })));
  }
  server.registerTool('ask-twice', { description: 'asks twice, and all in the second round' }, ctx => {
    const given = ctx.mcpReq.inputResponses ?? {};
    if (!ctx.mcpReq.requestState()) return inputRequired({ requestState: 'first', inputRequests: { a: asks['ask-form']() } });
    if (ctx.mcpReq.requestState() === 'first') return inputRequired({ requestState: 'second', inputRequests: { b: asks['ask-form'](), c: asks['ask-sample']() } });
    return text(Object.keys(given).sort().join());
  });
  server.registerPrompt('plain', { title: 'Plain', argsSchema: z.object({ topic: z.string() }) }, ({ topic }) => ({
    description: 'about ' + topic, messages: [{ role: 'user', content: { type: 'text', text: topic } }], _meta: { 'x/prompt': 1 },
  }));
  server.registerPrompt('ask-prompt', { description: 'asks first' }, ctx =>
    ctx.mcpReq.inputResponses?.q
      ? { messages: [{ role: 'user', content: { type: 'text', text: JSON.stringify(ctx.mcpReq.inputResponses.q) } }] }
      : inputRequired({ inputRequests: { q: asks['ask-form']() } }));
  server.registerResource('one', 'note://1', { title: 'One', mimeType: 'text/plain', _meta: { 'x/resource': 1 } }, uri => ({ contents: [{ uri: uri.href, text: 'one', mimeType: 'text/plain' }] }));
  server.registerResource('bytes', 'note://bytes', { mimeType: 'application/octet-stream' }, uri => ({ contents: [{ uri: uri.href, blob: 'AAAA', _meta: { 'x/blob': 1 } }] }));
  server.registerResource('any', new ResourceTemplate('note://{id}', { list: undefined }), { title: 'Any' }, uri => ({ contents: [{ uri: uri.href, text: uri.href }] }));
  return server;
});
