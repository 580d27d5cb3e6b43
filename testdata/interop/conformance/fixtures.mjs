// What the conformance suite looks for on a server, beside runnel's self-test tools, as an MCP server of 2026-07-28 on stdin and stdout: runnel
// serves it as an upstream, in all versions.
import { createInterface } from 'node:readline'

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=='
const wav = Buffer.concat([Buffer.from('RIFF'), Buffer.from([36, 0, 0, 0]), Buffer.from('WAVEfmt '), Buffer.from([16, 0, 0, 0, 1, 0, 1, 0, 64, 31, 0, 0, 128, 62, 0, 0, 2, 0, 16, 0]),
  Buffer.from('data'), Buffer.from([0, 0, 0, 0])]).toString('base64')

const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n')
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const text = (text) => ({ type: 'text', text })
const image = { type: 'image', data: png, mimeType: 'image/png' }
const resource = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } })

// Questions, as input requests.
const form = (message, properties) => ({ method: 'elicitation/create', params: { message, requestedSchema: { type: 'object', properties, required: Object.keys(properties) } } })
const sampling = (question, maxTokens = 100) => ({ method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: text(question) }], maxTokens } })
const roots = { method: 'roots/list', params: {} }
const needs = { 'elicitation/create': 'elicitation', 'sampling/createMessage': 'sampling', 'roots/list': 'roots' }

// asks is what asks some questions in rounds, and then says something with the answers.
const asks = (rounds, say) => (p) => {
  const { round = 0, answers = {} } = p.requestState ? JSON.parse(p.requestState) : {}
  Object.assign(answers, p.inputResponses)
  const answered = p.requestState && Object.keys(rounds[round - 1](p)).every((key) => answers[key])
  if (round === rounds.length && answered) return say(answers, p)
  return { resultType: 'input_required', inputRequests: rounds[round](p), requestState: JSON.stringify({ round: round + 1, answers }) }
}
const askingTool = (questions, say = (answers) => JSON.stringify(answers)) => asks(Array.isArray(questions) ? questions.map((q) => () => q) : [questions], (answers, p) => ({ content: [text(say(answers, p))] }))
const completed = ({ q }) => `Elicitation completed: action=${q.action}, content=${JSON.stringify(q.content ?? {})}`
const name = { user_name: form('What is your name?', { name: { type: 'string' } }) }
const ok = { confirm: form('Please confirm', { ok: { type: 'boolean' } }) }
const enums = {
  untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
  titledSingle: { type: 'string', oneOf: [{ const: 'value1', title: 'First Option' }, { const: 'value2', title: 'Second Option' }, { const: 'value3', title: 'Third Option' }] },
  legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
  untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
  titledMulti: { type: 'array', items: { anyOf: [{ const: 'value1', title: 'First Choice' }, { const: 'value2', title: 'Second Choice' }, { const: 'value3', title: 'Third Choice' }] } },
}
const defaults = {
  name: { type: 'string', default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
}
const allKinds = { user_name: name.user_name, greeting: sampling('Generate a greeting', 50), client_roots: roots }

const log = async (p) => {
  for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
    if (p._meta['io.modelcontextprotocol/logLevel']) send({ method: 'notifications/message', params: { level: 'info', data } })
    await pause(50)
  }
  return { content: [text('logged')] }
}

const toggle = (list, name, entry) => { if (!list[name]) list[name] = entry; else delete list[name] }

// listening are the ids of the subscriptions, with what each of them asks for.
const listening = new Map()
const changed = (kind, toggle) => () => {
  toggle()
  for (const [id, wanted] of listening) {
    if (wanted[kind + 'ListChanged']) send({ method: `notifications/${kind}/list_changed`, params: { _meta: { 'io.modelcontextprotocol/subscriptionId': id } } })
  }
  return { content: [text('changed')] }
}

const string = { type: 'string' }
const input = (properties = {}, more = {}) => ({ type: 'object', properties, required: Object.keys(properties), ...more })
const returns = (...content) => () => ({ content })
const tools = {
  test_image_content: [input(), returns(image)],
  test_audio_content: [input(), returns({ type: 'audio', data: wav, mimeType: 'audio/wav' })],
  test_embedded_resource: [input(), returns(resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'))],
  test_multiple_content_types: [input(), returns(text('Multiple content types test:'), image, resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'))],
  test_tool_with_logging: [input(), log],
  test_logging_tool: [input(), log],
  test_sampling: [input({ prompt: string }), askingTool((p) => ({ q: sampling(p.arguments.prompt) }), ({ q }) => `LLM response: ${q.content.text}`)],
  test_elicitation: [input({ message: string }), askingTool((p) => ({ q: form(p.arguments.message, { username: string, email: string }) }), ({ q }) => `User response: ${JSON.stringify(q)}`)],
  test_elicitation_sep1034_defaults: [input(), askingTool(() => ({ q: form('Please check the defaults', defaults) }), completed)],
  test_elicitation_sep1330_enums: [input(), askingTool(() => ({ q: form('Please choose', enums) }), completed)],
  test_input_required_result_elicitation: [input(), askingTool([name], ({ user_name }) => `Hello, ${user_name.content?.name}!`)],
  test_input_required_result_sampling: [input(), askingTool([{ capital_question: sampling('What is the capital of France?') }])],
  test_input_required_result_list_roots: [input(), askingTool([{ client_roots: roots }])],
  test_input_required_result_request_state: [input(), askingTool([ok], () => 'state-ok')],
  test_input_required_result_tampered_state: [input(), askingTool([ok])],
  test_input_required_result_multiple_inputs: [input(), askingTool([allKinds])],
  test_input_required_result_multi_round: [input(), askingTool([{ step1: form('Step 1: What is your name?', { name: string }) }, { step2: form('Step 2: What is your favorite color?', { color: string }) }])],
  test_input_required_result_capabilities: [input(), askingTool((p) => Object.fromEntries(Object.entries(allKinds).filter(([, q]) => p._meta['io.modelcontextprotocol/clientCapabilities'][needs[q.method]])))],
  test_missing_capability: [input(), (p) => {
    if (!p._meta['io.modelcontextprotocol/clientCapabilities'].sampling) throw { code: -32021, message: 'sampling is needed', data: { requiredCapabilities: { sampling: {} } } }
    return { content: [text('sampled')] }
  }],
  test_streaming_elicitation: [input(), askingTool([name])],
  test_trigger_tool_change: [input(), changed('tools', () => toggle(tools, 'test_changed_tool', [input(), returns(text('here'))]))],
  test_trigger_prompt_change: [input(), changed('prompts', () => toggle(prompts, 'test_changed_prompt', [[], () => says(text('here'))]))],
  test_header: [input({ region: { type: 'string', 'x-mcp-header': 'Region' } }), (p) => ({ content: [text(p.arguments.region)] })],
  json_schema_2020_12_tool: [{
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: string, city: string } } },
    properties: { name: string, address: { $ref: '#/$defs/address' }, contactMethod: { type: 'string', enum: ['phone', 'email'] }, phone: string, email: string },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  }, returns(text('valid'))],
}

const says = (...contents) => ({ messages: contents.map((content) => ({ role: 'user', content })) })
const prompts = {
  test_simple_prompt: [[], () => says(text('This is a simple prompt for testing.'))],
  test_prompt_with_arguments: [['arg1', 'arg2'], ({ arguments: a }) => says(text(`Prompt with arguments: arg1='${a.arg1}', arg2='${a.arg2}'`))],
  test_prompt_with_embedded_resource: [['resourceUri'], ({ arguments: a }) => says(resource(a.resourceUri, 'text/plain', 'Embedded resource content for testing.'), text('Please process the embedded resource above.'))],
  test_prompt_with_image: [[], () => says(image, text('Please analyze the image above.'))],
  test_input_required_result_prompt: [[], asks([() => ({ user_context: form('What context should the prompt use?', { context: string }) })], ({ user_context }) => says(text(user_context.content.context)))],
}

const resources = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: png },
  'test://watched-resource': { mimeType: 'text/plain', text: 'watched' },
}
const read = (uri) => {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1]
  if (id) return { uri, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }
  if (!resources[uri]) throw { code: -32602, message: 'no such resource', data: { uri } }
  return { uri, ...resources[uri] }
}

const list = (all) => ({ ttlMs: 0, cacheScope: 'public', ...all })
const methods = {
  'server/discover': () => list({
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { subscribe: true }, completions: {}, logging: {} },
  }),
  'tools/list': () => list({ tools: Object.entries(tools).map(([name, [inputSchema]]) => ({ name, description: 'Conformance fixture', inputSchema })) }),
  'tools/call': (p) => tools[p.name][1](p),
  'prompts/list': () => list({ prompts: Object.entries(prompts).map(([name, [args]]) => ({ name, description: 'Conformance fixture', arguments: args.map((name) => ({ name, description: name, required: true })) })) }),
  'prompts/get': (p) => prompts[p.name][1](p),
  'resources/list': () => list({ resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, mimeType })) }),
  'resources/templates/list': () => list({ resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }] }),
  'resources/read': (p) => list({ contents: [read(p.uri)] }),
  'completion/complete': (p) => ({ completion: { values: ['paris', 'park', 'party'].filter((v) => v.startsWith(p.argument.value)), hasMore: false } }),
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  if (method === 'subscriptions/listen') {
    listening.set(id, params.notifications ?? {})
    send({ method: 'notifications/subscriptions/acknowledged', params: { notifications: params.notifications, _meta: { 'io.modelcontextprotocol/subscriptionId': id } } })
  } else if (method === 'notifications/cancelled') {
    listening.delete(params.requestId)
  } else if (id !== undefined) {
    Promise.resolve(params).then(methods[method] ?? (() => { throw { code: -32601, message: 'no such method' } })).then(
      (result) => send({ id, result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'fixtures', version: '1' } }, ...result } }),
      (error) => send({ id, error: { code: error.code ?? -32603, message: String(error.message ?? error), data: error.data } }),
    )
  }
}
