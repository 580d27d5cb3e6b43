// Server-filesystem as hosts have it in two entries that differ in their environment only: with READ_ONLY, tools that write are left out. It has a
// tool named list_tasks, as runnel has.
// Usage: node files.mjs FOLDER.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const server = spawn(process.execPath, [createRequire(import.meta.url).resolve('@modelcontextprotocol/server-filesystem/dist/index.js'), ...process.argv.slice(2)], { stdio: ['pipe', 'pipe', 'inherit'] });
const say = message => process.stdout.write(JSON.stringify(message) + '\n');
createInterface({ input: server.stdout }).on('line', line => {
  const message = JSON.parse(line);
  if (message.result?.tools) {
    message.result.tools = message.result.tools.filter(t => !process.env.READ_ONLY || t.annotations?.readOnlyHint);
    message.result.tools.push({ name: 'list_tasks', description: 'of this server', inputSchema: { type: 'object' } });
  }
  say(message);
});
createInterface({ input: process.stdin })
  .on('line', line => {
    const { id, method, params } = JSON.parse(line);
    if (method === 'tools/call' && params.name === 'list_tasks') say({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'the tasks of this server' }] } });
    else server.stdin.write(line + '\n');
  })
  .on('close', () => server.stdin.end());
server.on('exit', code => process.exit(code ?? 1));
