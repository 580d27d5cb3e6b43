// A client for the conformance suite: runnel at the URL that the suite appends, once for each call that the scenario expects. RUNNEL is the
// program.
import { spawnSync } from 'node:child_process'

const url = process.argv.at(-1)
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context = '{}', MCP_CONFORMANCE_PROTOCOL_VERSION: version } = process.env

const run = (args, input = '') => {
  const done = spawnSync(process.env.RUNNEL, args, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'inherit'] })
  process.stdout.write(done.stdout)
  if (done.status !== 0) process.exitCode = 1
  return done.stdout
}
const at = ['--url', url, ...(version ? ['--protocol', version] : [])]
const tools = () => JSON.parse(run(['tools', '-o', 'json', ...at])).tools
const call = (name, args = {}) => run(['call', name, '--yes', '--input', JSON.stringify(args), ...at])

const scenarios = {
  initialize: tools,
  tools_call: () => call('add_numbers', { a: 2, b: 3 }),
  'elicitation-sep1034-client-defaults': () => call('test_client_elicitation_defaults'),
  'sse-retry': () => call('test_reconnection'),
  'request-metadata': tools,
  'sep-2322-client-request-state': () => ['echo_state', 'unrelated', 'no_state', 'no_result_type'].forEach((name) => call('test_mrtr_' + name)),
  'http-standard-headers': () => call('test_headers'),
  'http-custom-headers': () => JSON.parse(context).toolCalls.forEach((c) => call(c.name, c.arguments)),
  'http-invalid-tool-headers': () => tools().forEach((tool) => call(tool.name, { region: 'eu' })),
  'json-schema-ref-no-deref': tools,
  'json-schema-2020-12-preservation': () => call('json_schema_echo', { schema: tools().find((t) => t.name === 'json_schema_2020_12_tool').inputSchema }),
}
;(scenarios[scenario] ?? (() => run(['tools', ...at])))()
