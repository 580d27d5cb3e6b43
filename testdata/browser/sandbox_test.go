package browser

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// host is a page that shows the view as strictly as a host may: a sandbox with nothing but scripts, so
// without an origin, storage or forms. It passes calls on, and names the task as the result of a call does
// that was handed over.
const host = `<!doctype html><title>host</title><iframe id="view" sandbox="allow-scripts" style="width:900px;height:900px" src="/view"></iframe>
<script>
const view = document.getElementById("view"), said = [];
addEventListener("message", async event => {
	const m = event.data;
	if (event.source !== view.contentWindow) return;
	said.push(m.method);
	const send = more => view.contentWindow.postMessage({jsonrpc: "2.0", ...more}, "*");
	if (m.method === "ui/initialize") send({id: m.id, result: {protocolVersion: m.params.protocolVersion, hostInfo: {name: "host", version: "1"}, hostCapabilities: {serverTools: {}}, hostContext: {theme: "dark", displayMode: "inline"}}});
	else if (m.method === "ui/notifications/initialized") {
		send({method: "ui/notifications/tool-input", params: {arguments: {}}});
		send({method: "ui/notifications/tool-result", params: {content: [{type: "text", text: "is still running"}], _meta: {"runnel/task": {taskId: new URLSearchParams(location.search).get("task")}}}});
	} else if (m.method === "tools/call") {
		const {result, error} = await (await fetch("/call", {method: "POST", body: JSON.stringify(m.params)})).json();
		send(error ? {id: m.id, error} : {id: m.id, result});
	}
});
</script>`

// As an MCP App the page lives in a sandbox that allows it next to nothing.
func TestStrictSandbox(t *testing.T) {
	t.Parallel()
	u := start(t, tools)
	at, err := url.Parse(u.url)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(at.Fragment, "token=")
	at.Fragment = ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer *http.Response
		var err error
		switch r.URL.Path {
		case "/view":
			answer, err = http.Get(at.String())
		case "/call":
			answer, err = pass(r, at.String()+"mcp", token)
		default:
			_, _ = io.WriteString(w, host)
			return
		}
		if err != nil {
			if r.Context().Err() == nil { // the page waits for the answer
				t.Error(err)
			}
			return
		}
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(answer.Body)
		if _, event, ok := bytes.Cut(text, []byte("data: {")); ok && r.URL.Path == "/call" {
			text = append([]byte("{"), event...)
		}
		if r.URL.Path == "/view" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)

	p := open(t, u.url, "light", desktop)
	u.call("slow")
	p.openTask("slow")
	id := strings.TrimPrefix(eval[string](p, "location.hash"), "#")
	p.do(chromedp.Navigate(server.URL + "/?task=" + url.QueryEscape(id)))
	p.until("the frame", `said.includes("ui/notifications/size-changed")`)
	p = p.frame("/view")
	p.until("output", status+`.includes("running") && `+shown("step 3"))
	if !eval[bool](p, `getComputedStyle(document.documentElement).colorScheme === "dark"`) {
		t.Error("it is not as dark as its host")
	}
	p.find("step 2")
	p.until("a match", `document.querySelector(".row.match")?.textContent === "step 2"`)
	p.click("#cancel")
	p.click("#sure [data-close=yes]")
	p.until("the cancelled task", status+`.includes("cancelled")`)
}

// pass sends a call of the view to runnel.
func pass(r *http.Request, to, token string) (*http.Response, error) {
	var params map[string]any
	if err := json.NewDecoder(r.Body).Decode(&params); err != nil {
		return nil, err
	}
	const version = "2026-07-28"
	params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": version,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"extensions": map[string]any{"io.modelcontextprotocol/ui": map[string]any{"mimeTypes": []string{"text/html;profile=mcp-app"}}}}}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": params})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": params["name"].(string)} {
		request.Header.Set(name, value)
	}
	return http.DefaultClient.Do(request)
}
