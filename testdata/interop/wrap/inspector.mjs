// What the Inspector's command line gets of a server directly and through "runnel wrap --".
// Usage: node inspector.mjs PROGRAM. Prints the differences that are not documented, and exits 1 if there are any.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const [program] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const everything = [require.resolve('@modelcontextprotocol/server-everything/dist/index.js'), 'stdio'];
const inspector = require.resolve('@modelcontextprotocol/inspector/clients/launcher/build/index.js');
const home = mkdtempSync(join(tmpdir(), 'runnel-inspector-'));
const config = join(home, 'mcp.json');
writeFileSync(config, JSON.stringify({ mcpServers: {
  direct: { command: process.execPath, args: everything },
  wrapped: { command: program, args: ['wrap', '--fallback-tools', 'never', '--state', join(home, 'state'), '--', process.execPath, ...everything] },
} }));

const env = { ...process.env, HOME: home, MCP_INSPECTOR_SECRET_STORE: 'memory' };
async function ask(server, args) {
  const { stdout } = await promisify(execFile)(process.execPath, [inspector, '--cli', '--config', config, '--server', server, '--method', ...args], { env });
  return JSON.parse(stdout.replace(/\d+:\d\d:\d\d [AP]M/g, 'TIME') || 'null');
}

// documented takes out what the README says is not as without runnel.
function documented(answer) {
  if (answer?.tools) answer.tools = answer.tools.map(({ execution, ...t }) => t).sort((a, b) => (a.name < b.name ? -1 : 1));
  if (answer?.resources) answer.resources = answer.resources.filter(r => !r.uri.startsWith('runnel://'));
  if (answer?.resourceTemplates) answer.resourceTemplates = answer.resourceTemplates.filter(r => !r.uriTemplate.startsWith('runnel://'));
  return answer;
}

const methods = [
  ['tools/list'],
  ['prompts/list'],
  ['resources/list'],
  ['resources/templates/list'],
  ['tools/call', '--tool-name', 'get-sum', '--tool-arg', 'a=2', 'b=3'],
];
let different = 0;
for (const method of methods) {
  const [direct, wrapped] = await Promise.all([ask('direct', method), ask('wrapped', method)]);
  try {
    assert.deepEqual(documented(wrapped), documented(direct));
  } catch {
    different++;
    console.error(`${method.join(' ')}\n  directly: ${JSON.stringify(direct).slice(0, 2000)}\n  through:  ${JSON.stringify(wrapped).slice(0, 2000)}`);
  }
}
rmSync(home, { recursive: true, force: true });
console.log(`${methods.length} methods compared, ${different} differ`);
process.exit(different ? 1 : 0);
