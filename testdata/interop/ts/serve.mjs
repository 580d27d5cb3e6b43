// The official TypeScript SDK's own server over Streamable HTTP, for runnel as its client: sessions whose streams can be resumed. It prints
// where it listens.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { z } from 'zod';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

class Events {
  all = [];
  async storeEvent(streamId, message) {
    return `${streamId}/${this.all.push({ streamId, message }) - 1}`;
  }
  async replayEventsAfter(last, { send }) {
    const [streamId, index] = last.split('/');
    for (let n = Number(index) + 1; n < this.all.length; n++) {
      if (this.all[n].streamId === streamId) await send(`${streamId}/${n}`, this.all[n].message);
    }
    return streamId;
  }
}

function newServer() {
  const server = new McpServer({ name: 'interop-server', version: '1' });
  server.registerTool('count', { inputSchema: { n: z.number(), region: z.string() } }, async ({ n, region }, { _meta, sendNotification }) => {
    for (let progress = 1; progress <= n; progress++) {
      await setTimeout(10);
      await sendNotification({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress, total: n } });
    }
    return { content: [{ type: 'text', text: `counted ${n} in ${region}` }] };
  });
  return server;
}

const sessions = new Map();
const listener = createServer(async (request, response) => {
  let transport = sessions.get(request.headers['mcp-session-id']);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID, eventStore: new Events(), retryInterval: 50,
      onsessioninitialized: id => sessions.set(id, transport),
    });
    await newServer().connect(transport);
  }
  await transport.handleRequest(request, response);
});
listener.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
