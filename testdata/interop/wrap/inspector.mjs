// What the Inspector's command line gets of a server directly and through "runnel wrap --".
// Usage: node inspector.mjs PROGRAM. Prints the differences that are not documented, and exits 1 if there are any.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const [program] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const everything = [require.resolve('@modelcontextprotocol/server-everything/dist/index.js'), 'stdio'];
const inspector = require.resolve('@modelcontextprotocol/inspector/clients/launcher/build/index.js');
const home = mkdtempSync(join(tmpdir(), 'runnel-inspector-'));
const config = join(home, 'mcp.json');
const files = [join(dirname(fileURLToPath(import.meta.url)), 'files.mjs')];
const large = join(home, 'large.txt');
writeFileSync(large, Array.from({ length: 600 << 10 >> 4 }, (_, i) => `line ${String(i).padStart(10, '0')}\n`).join(''));
// entries are a server, directly and wrapped. All that is wrapped keeps its lists in one state.
const entries = (name, args, own, more) => ({
  [name]: { command: process.execPath, args, ...more },
  [name + ', wrapped']: { command: program, args: ['wrap', '--log-level', 'error', '--fallback-tools', own, '--state', join(home, 'state'), '--', process.execPath, ...args], ...more },
});
writeFileSync(config, JSON.stringify({ mcpServers: {
  ...entries('everything', everything, 'never', {}),
  ...entries('files', [...files, home], 'always', {}),
  ...entries('files of the roots', files, 'always', { roots: [{ uri: 'file://' + home, name: 'home' }] }), // asked for at its start
  ...entries('read-only files', [...files, home], 'always', { env: { READ_ONLY: '1' } }), // the same but for its environment
} }));

const env = { ...process.env, HOME: home, MCP_INSPECTOR_SECRET_STORE: 'memory' };
async function ask(server, args) {
  for (let tries = 1; ; tries++) {
    try {
      const { stdout } = await promisify(execFile)(process.execPath, [inspector, '--cli', '--config', config, '--server', server, '--method', ...args], { env, maxBuffer: 64 << 20 });
      return JSON.parse(stdout.replace(/\d+:\d\d:\d\d [AP]M/g, 'TIME') || 'null');
    } catch (error) {
      // A server that asks for its roots refuses a call that comes before it knows them, as on a busy machine, directly and wrapped.
      if (tries === 10 || !/path outside allowed directories: \S+ not in "/.test(error.stdout)) throw error;
    }
  }
}

// documented takes out what the README says is not as without runnel. Of two tools named list_tasks, the server's keeps its name.
function documented(answer) {
  const own = ['start_task', 'get_task_result', 'cancel_task'];
  if (answer?.tools) answer.tools = answer.tools.filter(t => !own.includes(t.name) && !t.name.startsWith('runnel_')).map(({ execution, ...t }) => t).sort((a, b) => (a.name < b.name ? -1 : 1));
  if (answer?.resources) answer.resources = answer.resources.filter(r => !r.uri.startsWith('runnel://'));
  if (answer?.resourceTemplates) answer.resourceTemplates = answer.resourceTemplates.filter(r => !r.uriTemplate.startsWith('runnel://'));
  return answer;
}

const call = (tool, ...args) => ['tools/call', '--tool-name', tool, ...(args.length ? ['--tool-arg', ...args] : [])];
// Each method with what its answer must have, where an empty answer or an error would be the same through runnel.
const methods = [
  ['everything', ['tools/list'], a => a.tools.length > 5],
  ['everything', ['prompts/list'], a => a.prompts.length > 1],
  ['everything', ['resources/list'], a => a.resources.length > 1],
  ['everything', ['resources/templates/list'], a => a.resourceTemplates.length > 1],
  ['everything', call('get-sum', 'a=2', 'b=3'), a => /5/.test(a.content[0].text)],
  ['files', ['tools/list'], a => a.tools.some(t => t.name === 'write_file')],
  ['read-only files', ['tools/list'], a => a.tools.length > 5 && !a.tools.some(t => t.name === 'write_file')],
  ['files', call('read_text_file', 'path=' + large), a => a.content[0].text.length >= 600 << 10 && a.structuredContent.content === a.content[0].text],
  ['files of the roots', call('read_text_file', 'path=' + large), a => a.structuredContent.content.length >= 600 << 10],
  ['files', call('list_tasks'), a => a.content[0].text === 'the tasks of this server'],
];
let different = 0;
for (const [server, method, complete] of methods) {
  for (const time of server === 'everything' ? ['only'] : ['first', 'second']) { // each call starts three programs
    const [direct, wrapped] = await Promise.all([ask(server, method), ask(server + ', wrapped', method)]);
    try {
      assert.deepEqual(documented(wrapped), documented(direct));
      assert.ok(complete(direct), 'the answer is not the expected one');
    } catch (error) {
      different++;
      console.error(`${server}, ${time} ${method.join(' ')}: ${error.message.slice(0, 500)}\n  directly: ${JSON.stringify(direct).slice(0, 2000)}\n  through:  ${JSON.stringify(wrapped).slice(0, 2000)}`);
    }
  }
}
rmSync(home, { recursive: true, force: true });
console.log(`${methods.length} methods compared, ${different} differ`);
process.exit(different ? 1 : 0);
