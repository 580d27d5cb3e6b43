// The official TypeScript client (2.x) gets into runnel by a real authorization server, the certified oidc-provider: it finds that server by
// what runnel says, registers there, is let in by a user, and calls a tool with a token for runnel alone. A program with credentials of its
// own does likewise. Other tokens of the same server are refused.
// Usage: node oauth.mjs RUNNEL. Exits 0 and prints what it saw, or 1 with the reason.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Client, ClientCredentialsProvider, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { Provider } from 'oidc-provider';

const scope = 'tools:call';
const nightly = { clientId: 'nightly', clientSecret: 'secret-of-nightly' };

async function listen(handler) {
  const server = createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return [server, `127.0.0.1:${server.address().port}`];
}

const [, issuerAddress] = await listen((request, response) => provider.callback()(request, response));
const issuer = `http://${issuerAddress}`;
const provider = new Provider(issuer, {
  scopes: [scope],
  clients: [{ client_id: nightly.clientId, client_secret: nightly.clientSecret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }],
  features: {
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
    },
  },
});

// runnel is started on a port that was free a moment ago: its audience is its URL.
const [free, address] = await listen();
free.close();
await once(free, 'close');
const url = `http://${address}/mcp`;
const runnel = spawn(process.argv[2], ['--selftest', '--state', 'memory', '--no-stdio', '--http', address, '--log-format', 'json',
  '--http-issuer', issuer, '--http-audience', url, '--http-scope', scope], { stdio: ['ignore', 'ignore', 'pipe'] });
process.on('exit', () => runnel.kill());
let log = '';
await new Promise((resolve, reject) => {
  createInterface({ input: runnel.stderr }).on('line', line => {
    log += line + '\n';
    if (line.includes('"serving HTTP"')) resolve();
  }).on('close', () => reject(new Error(`runnel has ended:\n${log}`)));
});

// signIn is what a user does in a browser: sign in, and agree. It returns where the browser is sent back to.
async function signIn(at) {
  const cookies = new Map();
  let body;
  for (let step = 0; step < 20; step++) {
    const response = await fetch(at, { method: body ? 'POST' : 'GET', body, redirect: 'manual', headers: { cookie: [...cookies.values()].join('; ') } });
    for (const cookie of response.headers.getSetCookie()) cookies.set(cookie.split('=')[0], cookie.split(';')[0]);
    body = undefined;
    const location = response.headers.get('location');
    if (!location) {
      const [, prompt] = /name="prompt" value="(\w+)"/.exec(await response.text());
      body = new URLSearchParams({ prompt, login: 'ada', password: 'any' });
    } else {
      at = new URL(location, at);
      if (at.searchParams.has('code')) return at;
    }
  }
  assert.fail('the user is not let in');
}

// Person is an OAuth client with a user.
class Person {
  redirectUrl = 'http://127.0.0.1/callback';
  clientMetadata = { client_name: 'interop', redirect_uris: [this.redirectUrl], grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none' };
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  discoveryState() { return this.discovered; }
  saveDiscoveryState(state) { this.discovered = state; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  async redirectToAuthorization(at) { this.back = await signIn(at); }
}

async function connect(authProvider) {
  const client = new Client({ name: 'interop', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  try {
    await client.connect(transport);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError) || authProvider.saved) throw error;
  }
  await transport.finishAuth(authProvider.back.searchParams);
  return connect(authProvider);
}

const person = new Person();
for (const who of [person, new ClientCredentialsProvider({ ...nightly, expectedIssuer: issuer })]) {
  const client = await connect(who);
  const echo = await client.callTool({ name: 'echo', arguments: { text: 'hi' } });
  assert.equal(echo.content[0].text, 'hi');
  await client.close();
}
for (const owner of [person.client.client_id, nightly.clientId]) assert.ok(log.includes(`"owner":"${owner}"`), log);

// What runnel says to a token that the same server has issued for something else.
async function says(asked) {
  const answer = await fetch(`${issuer}/token`, { method: 'POST', body: new URLSearchParams({ grant_type: 'client_credentials', ...asked }),
    headers: { authorization: `Basic ${btoa(`${nightly.clientId}:${nightly.clientSecret}`)}` } });
  const { access_token: token } = await answer.json();
  assert.ok(token, 'no token');
  const response = await fetch(url, { method: 'POST', body: '{}', headers: { authorization: `Bearer ${token}` } });
  return [response.status, response.headers.get('www-authenticate')];
}
const [status, challenge] = await says({ resource: 'https://elsewhere.example.com/mcp', scope });
assert.equal(status, 401);
assert.match(challenge, /error="invalid_token".* resource_metadata="http.*\/\.well-known\/oauth-protected-resource\/mcp"/);
const [forbidden, lacking] = await says({ resource: url });
assert.equal(forbidden, 403);
assert.match(lacking, /error="insufficient_scope".* scope="tools:call"/);

assert.ok(!log.includes(person.saved.access_token), 'a token is in the log');
console.log('a user and a program are let in');
process.exit();
