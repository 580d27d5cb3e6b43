package e2e

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"runnel/rpc/mcp"
)

// The logs are resources of the stateless era too, with what its results must say, and so are a task and its
// log after a restart.
func TestResourcesStateless(t *testing.T) {
	t.Parallel()
	flags := []string{"--selftest", "--immediate-wait", "1ms", "--state", t.TempDir()}
	w := newWitness(t, programCommand(t, flags...))
	// request sends a request and checks its result against the type.
	request := func(w *witness, typ, method, members string, result any) {
		t.Helper()
		a := w.call(method, json.RawMessage(inEra(takes, "", members)))
		if a.Error != nil {
			t.Fatalf("%s: %d %s", method, a.Error.Code, a.Error.Message)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Result))
		if err != nil {
			t.Fatal(err)
		}
		if err := schemaOf(t, newestStateless).check(typ, v); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		if err := json.Unmarshal(a.Result, result); err != nil {
			t.Fatal(err)
		}
	}
	var found mcp.DiscoverResult
	request(w, "DiscoverResult", "server/discover", "", &found)
	if found.Capabilities.Resources == nil || !found.Capabilities.Resources.Subscribe {
		t.Errorf("capabilities %+v", found.Capabilities)
	}
	var created mcp.DetailedTask
	request(w, closedCreated, "tools/call",
		`"name":"stream","arguments":{"count":30,"intervalMs":50}`, &created)
	uri := "runnel://tasks/" + created.TaskID + "/log"
	w.ask("subscriptions/listen", json.RawMessage(inEra(takes, "",
		`"notifications":{"resourceSubscriptions":["`+uri+`","runnel://tasks/unknown/log"]}`)))
	page := func(w *witness) (p cacheableContents) {
		t.Helper()
		request(w, "ReadResourceResult", "resources/read", `"uri":"`+uri+`"`, &p)
		return p
	}
	if p := page(w); p.TTLMs != 0 || p.CacheScope != "private" {
		t.Errorf("the log of a task that runs: %+v", p.Cacheable)
	}
	for deadline := time.Now().Add(watchdog); ; {
		var state mcp.DetailedTask
		request(w, closedTask, "tasks/get", `"taskId":"`+created.TaskID+`"`, &state)
		if state.Status == mcp.TaskCompleted && w.count(uri) >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, %d notifications", state.Status, w.count(uri))
		}
		time.Sleep(20 * time.Millisecond) // as a client polls
	}
	var list struct {
		listResourcesResult
		mcp.Cacheable
	}
	request(w, "ListResourcesResult", "resources/list", "", &list)
	var templates struct {
		listResourceTemplatesResult
		mcp.Cacheable
	}
	request(w, "ListResourceTemplatesResult", "resources/templates/list", "", &templates)
	if len(list.Resources) != 1 || list.Resources[0].URI != uri || len(templates.ResourceTemplates) != 2 {
		t.Errorf("listed %+v, %+v", list, templates)
	}
	for _, bad := range []string{"runnel://tasks/unknown/log", "file:///etc/passwd", uri + "?after=-1"} {
		if a := w.call("resources/read", json.RawMessage(inEra("", "", `"uri":"`+bad+`"`))); a.Error == nil ||
			a.Error.Code != mcp.CodeInvalidParams {
			t.Errorf("%s: %+v", bad, a.Error)
		}
	}
	many := `"` + strings.Repeat(uri+`","`, 100) + uri + `"`
	if a := w.call("subscriptions/listen",
		json.RawMessage(inEra(takes, "",
			`"notifications":{"resourceSubscriptions":[`+many+`]}`))); a.Error == nil ||
		a.Error.Code != mcp.CodeInvalidParams {
		t.Errorf("101 logs: %+v", a.Error)
	}
	before := page(w)
	w.end()
	if n := w.count(uri); n > 4 {
		t.Errorf("%d notifications in about 1.5 s", n)
	}

	w = newWitness(t, programCommand(t, flags...))
	var state mcp.DetailedTask
	request(w, closedTask, "tasks/get", `"taskId":"`+created.TaskID+`"`, &state)
	if state.Status != mcp.TaskCompleted || state.Result == nil || len(state.Result.Content) == 0 {
		t.Errorf("after a restart: %+v", state)
	}
	if p := page(w); p.Contents[0].Text != before.Contents[0].Text || p.TTLMs == 0 {
		t.Errorf("after a restart: %.100q, kept %d ms", p.Contents[0].Text, p.TTLMs)
	}
	w.end()
}
