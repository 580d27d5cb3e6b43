// A server as those that were reported: it has a tool list_tasks of its own, and one that says nothing for as long as it is told.
import { createInterface } from 'node:readline'

const text = { type: 'object', properties: {} }
const tools = [
  { name: 'list_tasks', description: 'The tasks of this server', inputSchema: text },
  { name: 'silent', description: 'Answers after a while', inputSchema: { type: 'object', properties: { seconds: { type: 'number' } } } },
]
const say = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\n')
const methods = {
  initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'reporters', version: '1' } }),
  ping: () => ({}),
  'tools/list': () => ({ tools }),
  'tools/call': async ({ name, arguments: { seconds } = {} }) => {
    if (name === 'silent') await new Promise((done) => setTimeout(done, seconds * 1000))
    return { content: [{ type: 'text', text: name === 'silent' ? 'said at last' : 'theirs: water the plants' }] }
  },
}
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) continue
  if (methods[method]) Promise.resolve(methods[method](params)).then((result) => say(id, result))
  else process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: method } }) + '\n')
}
