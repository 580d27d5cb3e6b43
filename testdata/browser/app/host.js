// A host of MCP Apps that is a web page, as the basic-host of the extension is: the official client and the official AppBridge, and around
// the view a sandbox of another origin.
import {Client, StreamableHTTPClientTransport} from "@modelcontextprotocol/client";
import {AppBridge, PostMessageTransport, RESOURCE_MIME_TYPE, getToolUiResourceUri} from "@modelcontextprotocol/ext-apps/app-bridge";

const info = {name: "host", version: "1"};

window.host = {
  /** connect reaches the server, in the handshake era or in a version that is pinned. */
  async connect(pin) {
    this.client = new Client(info, {
      capabilities: {extensions: {"io.modelcontextprotocol/ui": {mimeTypes: [RESOURCE_MIME_TYPE]}}},
      ...(pin ? {versionNegotiation: {mode: {pin}}} : {}),
    });
    await this.client.connect(new StreamableHTTPClientTransport(new URL("/mcp", location.href)));
    this.tools = (await this.client.listTools()).tools;
    return this.tools.map(tool => tool.name);
  },

  /** call calls a tool, and shows its view while the call runs. */
  async call(name, args, told = true) {
    const tool = this.tools.find(tool => tool.name === name);
    this.result = undefined;
    const result = this.client.callTool({name, arguments: args}).then(result => { this.result = result; return result; });
    const {contents: [page]} = await this.client.readResource({uri: getToolUiResourceUri(tool)});
    if (page.mimeType !== RESOURCE_MIME_TYPE) throw new Error(page.mimeType);
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts allow-same-origin";
    frame.style = "width: 100%; height: 600px; border: 0";
    const ready = new Promise(resolve => addEventListener("message", ({source, data}) => {
      if (source === frame.contentWindow && data?.method === "ui/notifications/sandbox-proxy-ready") resolve();
    }));
    const sandbox = new URL(document.body.dataset.sandbox);
    sandbox.searchParams.set("csp", JSON.stringify(page._meta?.ui?.csp ?? {}));
    frame.src = sandbox;
    document.getElementById("views").replaceChildren(frame);
    await ready;
    const bridge = this.bridge = new AppBridge(this.client, info, {serverTools: {}, serverResources: {}}, {hostContext: {
      theme: "light", displayMode: "inline", availableDisplayModes: ["inline", "fullscreen"], containerDimensions: {maxHeight: 2000},
      ...(told ? {toolInfo: {tool}} : {}), // the basic-host does not tell
    }});
    bridge.onsizechange = ({height}) => { if (height) frame.style.height = `${height}px`; this.sized = height; };
    bridge.onrequestdisplaymode = async ({mode}) => { await bridge.sendHostContextChange({displayMode: mode}); return {mode}; };
    const initialized = new Promise(resolve => { bridge.oninitialized = resolve; });
    await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
    await bridge.sendSandboxResourceReady({html: page.text, csp: page._meta?.ui?.csp});
    await initialized;
    await bridge.sendToolInput({arguments: args});
    result.then(result => bridge.sendToolResult(result), error => bridge.sendToolCancelled({reason: String(error)}));
  },

  theme: theme => host.bridge.sendHostContextChange({theme}),

  /** leave ends the view as a host has to. */
  async leave() {
    await this.bridge.teardownResource({});
    document.getElementById("views").replaceChildren();
  },
};
