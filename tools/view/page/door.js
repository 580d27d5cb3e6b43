// The door passes calls to the server: door.call(tool, args, signal) resolves to structuredContent, or rejects with an Error whose message is for
// people.

/** An MCP App: the host is the page around this one. Specification 2026-01-26 of the extension io.modelcontextprotocol/ui. */
function appDoor() {
  const waiting = new Map();
  let last = 0;
  const send = message => window.parent.postMessage({jsonrpc: "2.0", ...message}, "*"); // the page around this one is the host
  const request = (method, params) => new Promise((resolve, reject) => {
    waiting.set(++last, {resolve, reject});
    send({id: last, method, params});
  });
  const door = {
    app: true, patience: 10000, onHostEvent: () => {}, request,
    notify: (method, params) => send({method, params}),
    async call(name, args, signal) {
      signal?.throwIfAborted();
      const result = await request("tools/call", {name, arguments: args});
      signal?.throwIfAborted();
      return structured(result);
    },
    /** file reads a file of a task, page by page. */
    async file({uri, size, mimeType}, signal) {
      const pages = [];
      for (let after = 0; after < size;) {
        signal.throwIfAborted();
        const [page] = (await request("resources/read", {uri: `${uri}?after=${after}`})).contents, next = page._meta?.["runnel/next"];
        if (!page.blob || !(next > after)) throw new Error("the host passes on no files");
        pages.push(Uint8Array.from(atob(page.blob), char => char.charCodeAt(0)));
        after = next;
      }
      return new Blob(pages, {type: mimeType});
    },
  };
  window.addEventListener("message", event => {
    const m = event.data;
    if (event.source !== window.parent || m?.jsonrpc !== "2.0") return;
    if (m.method === undefined) {
      const caller = waiting.get(m.id);
      waiting.delete(m.id);
      if (m.error) caller?.reject(new Error(plain(m.error.message) || "the host refused the call"));
      else caller?.resolve(m.result);
    } else if (m.id === undefined) {
      door.onHostEvent(m.method, m.params ?? {});
    } else if (m.method === "ping" || m.method === "ui/resource-teardown") {
      if (m.method !== "ping") door.onHostEvent(m.method, m.params ?? {});
      send({id: m.id, result: {}});
    } else {
      send({id: m.id, error: {code: -32601, message: "the view does not know this method"}});
    }
  });
  return door;
}

/** "runnel ui": the server that sent the page. It is stateless (2026-07-28), so it may be restarted. */
function httpDoor() {
  const key = "runnel-token";
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (given) { // remove it from the address bar and from the browser's history
    sessionStorage.setItem(key, given[1]);
    history.replaceState(null, "", location.pathname);
  }
  const token = sessionStorage.getItem(key);
  let last = 0;
  return {
    app: false, patience: 20000, onHostEvent: () => {},
    async call(name, args, signal) {
      if (!token) throw new NoEntry();
      const version = "2026-07-28", prefix = "io.modelcontextprotocol/";
      let response, text;
      try {
        response = await fetch("/mcp", {
          method: "POST", signal, cache: "no-store", credentials: "omit", redirect: "error",
          headers: {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": `Bearer ${token}`,
            "MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": name,
          },
          body: JSON.stringify({jsonrpc: "2.0", id: ++last, method: "tools/call", params: {name, arguments: args, _meta: {
            [`${prefix}protocolVersion`]: version,
            [`${prefix}clientInfo`]: {name: "runnel-view", version: "1"},
            [`${prefix}clientCapabilities`]: {extensions: {[`${prefix}ui`]: {mimeTypes: ["text/html;profile=mcp-app"]}}},
          }}}),
        });
        text = await response.text();
      } catch (e) {
        signal?.throwIfAborted();
        throw new Unreachable();
      }
      if (response.status === 401) throw new NoEntry();
      let answer;
      if (response.headers.get("Content-Type")?.startsWith("text/event-stream")) { // a slow answer: the last event is it
        for (const line of text.split("\n")) if (line.startsWith("data: {")) answer = line.slice(6);
      } else answer = text;
      try {
        answer = JSON.parse(answer);
      } catch {
        throw new Unreachable(); // the answer is incomplete
      }
      if (answer.error) throw new Error(plain(answer.error.message) || `the server refused the call (${response.status})`);
      return structured(answer.result);
    },
    /** file downloads a file of a task. */
    async file({uri}, signal) {
      let response;
      try {
        response = await fetch(uri.replace("runnel:/", ""), {signal, cache: "no-store", credentials: "omit", redirect: "error", headers: {"Authorization": `Bearer ${token}`}});
        if (response.ok) return await response.blob();
      } catch (e) {
        signal.throwIfAborted();
        throw new Unreachable();
      }
      throw new Error("This file is no longer kept.");
    },
  };
}

class Unreachable extends Error {
  constructor() { super("runnel does not answer: it has ended, or is busy. This page tries again."); }
}

class NoEntry extends Error {
  constructor() { super("Open the address that runnel ui prints, with its token. Addresses of earlier runs no longer work."); }
}

/** Refused has the tool's own words. */
class Refused extends Error {}

function structured(result) {
  if (result?.isError || !result?.structuredContent) {
    const text = (result?.content ?? []).filter(part => part.type === "text").map(part => part.text).join(" ");
    throw new Refused(plain(text) || "the answer has no content");
  }
  return result.structuredContent;
}

const door = window.parent === window ? httpDoor() : appDoor();
