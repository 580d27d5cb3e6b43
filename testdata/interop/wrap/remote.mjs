// What a client gets of server-filesystem directly, and through mcp-remote and "runnel wrap --http".
// Usage: node remote.mjs PROGRAM. Prints the differences, and exits 1 if there are any.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [program] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), 'runnel-remote-'));
const files = [process.execPath, join(dirname(fileURLToPath(import.meta.url)), 'files.mjs'), home];
const proxy = join(dirname(createRequire(import.meta.url).resolve('mcp-remote/package.json')), 'dist', 'proxy.js');
const large = join(home, 'large.txt');
writeFileSync(large, Array.from({ length: 600 << 10 >> 4 }, (_, i) => `line ${String(i).padStart(10, '0')}\n`).join(''));

async function open(command, env) {
  const client = new Client({ name: 'remote', version: '1' });
  await client.connect(new StdioClientTransport({ command: command[0], args: command.slice(1), env: { ...process.env, ...env }, stderr: 'inherit' }));
  return client;
}

// listen starts runnel in front of the server, and returns its URL.
async function listen(env) {
  const runnel = spawn(program, ['wrap', '--http', '127.0.0.1:0', '--no-stdio', '--log-format', 'json', '--fallback-tools', 'always', '--state', join(home, 'state'), '--', ...files], { env: { ...process.env, ...env }, stdio: ['ignore', 'inherit', 'pipe'] });
  for await (const line of createInterface({ input: runnel.stderr })) {
    const { address } = JSON.parse(line);
    if (address) {
      runnel.stderr.resume();
      return { runnel, url: `http://${address}/mcp` };
    }
  }
  throw new Error('runnel serves no HTTP');
}

// documented takes out what the README says is not as without runnel. Of two tools named list_tasks, the server's keeps its name.
function documented(answer) {
  const own = ['start_task', 'get_task_result', 'cancel_task'];
  if (answer.tools) answer.tools = answer.tools.filter(t => !own.includes(t.name) && !t.name.startsWith('runnel_')).map(({ execution, ...t }) => t).sort((a, b) => (a.name < b.name ? -1 : 1));
  return answer;
}

let different = 0;
for (const env of [{}, { READ_ONLY: '1' }]) { // two entries that differ in nothing else, with one state
  const direct = await open(files, env);
  const { runnel, url } = await listen(env);
  const through = await open([process.execPath, proxy, url, '--transport', 'http-only', '--silent'], { MCP_REMOTE_CONFIG_DIR: join(home, 'remote') });
  const rows = {
    'tools/list': [c => c.listTools(), a => a.tools.length > 5 && a.tools.some(t => t.name === 'write_file') === !env.READ_ONLY],
    '600 KB': [c => c.callTool({ name: 'read_text_file', arguments: { path: large } }), a => a.content[0].text.length >= 600 << 10 && a.structuredContent.content === a.content[0].text],
    'own list_tasks': [c => c.callTool({ name: 'list_tasks', arguments: {} }), a => a.content[0].text === 'the tasks of this server'],
  };
  for (const [row, [ask, complete]] of Object.entries(rows)) {
    for (const time of ['first', 'second']) {
      const [want, got] = [documented(await ask(direct)), documented(await ask(through))];
      try {
        assert.deepEqual(got, want);
        assert.ok(complete(want), 'the answer is not the expected one');
      } catch (error) {
        different++;
        console.error(`${row}, ${time} ${JSON.stringify(env)}: ${error.message.slice(0, 500)}\n  directly: ${JSON.stringify(want).slice(0, 2000)}\n  through:  ${JSON.stringify(got).slice(0, 2000)}`);
      }
    }
  }
  await Promise.all([direct.close(), through.close()]);
  const ended = new Promise(resolve => runnel.on('exit', resolve));
  runnel.kill();
  await ended;
}
rmSync(home, { recursive: true, force: true });
console.log(`mcp-remote: 12 answers compared, ${different} differ`);
process.exit(different ? 1 : 0);
