//go:build unix

package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runnel/internal/processtest"
	"runnel/rpc"
	"runnel/rpc/rawjson"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/config"
)

// fullMain is a server that has everything. Its argument is its name, which is in all that it has.
func fullMain(args []string) {
	const waiting = " waits for roots"
	name, roots := args[0], waiting
	if gate := os.Getenv("GATE"); gate != "" {
		_, _ = os.ReadFile(gate) // until the test opens it
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			panic(err)
		}
		if m.Method != "" && strings.Contains(os.Getenv("SILENT"), m.Method) {
			continue
		}
		answer := func(format string, args ...any) {
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, fmt.Sprintf(format, args...))
		}
		uri := rawjson.StringMember(m.Params, "uri")
		switch m.Method {
		case "server/discover":
			if os.Getenv("STATELESS") == "" {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
				continue
			}
			answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{}},"ttlMs":0,"cacheScope":"private"}`)
		case "initialize":
			answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}},"serverInfo":{"name":%q,"version":"1"},"instructions":%q}`, name, "use "+name)
		case "tools/list":
			tools := `{"name":"tool","inputSchema":{"type":"object"}}`
			if more, err := os.ReadFile(os.Getenv("MORE")); err == nil {
				tools += string(more)
			}
			answer(`{"tools":[%s]}`, tools)
		case "prompts/list":
			if os.Remove(os.Getenv("FAIL")) == nil { // once
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"not now"}}`, m.ID)
				continue
			}
			answer(`{"prompts":[{"name":"p","description":%q},{"name":"only-%s"},{"name":"empty"}]}`,
				"of "+name, name)
		case "prompts/get":
			if strings.Contains(string(m.Params), "large") {
				answer(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`,
					strings.Repeat("p", 4<<20))
				continue
			}
			if rawjson.StringMember(m.Params, "name") == "empty" {
				answer(`{"messages":[]}`)
				continue
			}
			if os.Getenv("STATELESS") != "" &&
				(rawjson.Member(m.Params, "inputResponses") == nil ||
					rawjson.StringMember(m.Params, "name") == "only-"+name) {
				answer(`{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{}}}}}}`)
				continue
			}
			if os.Getenv("STATELESS") != "" {
				answer(`{"resultType":"complete","ttlMs":5,"cacheScope":"public","messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, rawjson.StringMember(m.Params, "requestState")+string(rawjson.Member(m.Params, "inputResponses")))
				continue
			}
			answer(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`,
				name+" "+rawjson.StringMember(m.Params, "name"))
		case "resources/list":
			answer(`{"resources":[{"uri":"%s://one","name":"one"},{"uri":"runnel://tasks/x/log","name":"not shown"},7,{"name":"no uri"}]}`, name)
		case "resources/templates/list":
			answer(`{"resourceTemplates":[{"uriTemplate":"%s://{x}/end","name":"t"},{"uriTemplate":"any://{x}","name":"both"}]}`, name)
		case "resources/read":
			if strings.Contains(uri, "nowhere") {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"no such resource"}}`, m.ID)
				continue
			}
			if strings.Contains(uri, "large") {
				answer(`{"contents":[{"uri":%q,"blob":%q}]}`, uri, strings.Repeat("rrrr", 1<<20))
				continue
			}
			answer(`{"contents":[{"uri":%q,"text":%q}]}`, uri, name)
		case "completion/complete":
			answer(`{"completion":{"values":[%q,%q]}}`, name,
				rawjson.StringMember(rawjson.Member(m.Params, "ref"), "name")+
					rawjson.StringMember(rawjson.Member(m.Params, "ref"), "uri"))
		case "resources/subscribe":
			if !strings.HasSuffix(uri, "/early") {
				answer(`{}`)
			}
			say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri)
			if strings.HasSuffix(uri, "/early") {
				for i := range earlyParts {
					say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"%s/%d"}}`, uri, i)
				}
				answer(`{}`)
			}
		case "tools/call":
			if large := largeResult(m.Params); large != "" {
				answer("%s", large)
				continue
			}
			answer(`{"content":[{"type":"text","text":%q}]}`, name+strings.TrimPrefix(roots, waiting))
		case "notifications/initialized":
			if os.Getenv("ROOTS") != "" {
				say(`{"jsonrpc":"2.0","id":"roots","method":"roots/list"}`)
			}
		case "":
			roots = " knows " + lines.Text()
			say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":{"answer":%s}}}`, lines.Text())
		case "logging/setLevel":
			answer(`{}`)
			say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":%q}}`,
				name+" is at "+rawjson.StringMember(m.Params, "level"))
			say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"not wanted"}}`)
		default:
			if m.ID != nil {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
			}
		}
		if m.Method != "" && os.Getenv("ROOTS") == "again" && roots != waiting {
			roots = waiting
			say(`{"jsonrpc":"2.0","id":"roots again","method":"roots/list"}`)
		}
	}
}

// full is an upstream that has everything, with its name and _ before the names of what it has.
func full(t *testing.T, name string, env ...string) *Server {
	t.Helper()
	u := fake(t, name, func(u *config.Upstream) {
		command := child("full", name)
		u.Command = command.Command
		u.Env = command.Env
		u.Prefix = name + "_"
		for i := 0; i < len(env); i += 2 {
			u.Env[env[i]] = env[i+1]
		}
	})
	u.dir = os.TempDir() // part of what a catalog is known by
	return u
}

// player is a client of a set in a test.
type player struct {
	t       *testing.T
	in      io.Writer
	lines   chan string
	opening string   // the answer to initialize, of speak
	kept    []string // by await
}

func serveSet(t *testing.T, set *Set) *player {
	t.Helper()
	return serveSetWith(t, set, tools.ServeOptions{FallbackTools: "never"})
}

func serveSetWith(t *testing.T, set *Set, o tools.ServeOptions) *player {
	t.Helper()
	o.ImmediateWait, o.Heartbeat = 100*time.Millisecond, 100*time.Millisecond
	srv := rpc.NewServer(nil)
	runner := run.NewRunner(run.Options{})
	methods.Register(srv, runner)
	wraps := slices.ContainsFunc(set.servers, func(u *Server) bool { return u.name == WrappedName })
	set.Serve(srv, runner, wraps, o)
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	c := &player{t: t, in: in, lines: make(chan string, 1000)}
	served, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(context.Background(), inReader, outWriter)
		runner.Close()
		_ = outWriter.Close()
	}()
	go func() {
		defer close(read)
		s := bufio.NewScanner(out)
		for s.Buffer(nil, 64<<20); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = in.Close(); <-served; <-read })
	return c
}

// speak serves upstreams to a session.
func speak(t *testing.T, dir string, upstreams ...*Server) *player {
	t.Helper()
	set := NewSet(&tools.Registry{})
	set.Dir = dir
	for _, u := range upstreams {
		if err := set.Add(u); err != nil {
			t.Fatal(err)
		}
	}
	c := serveSet(t, set)
	t.Cleanup(set.Close)
	c.opening = c.ask(0, "initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	return c
}

// ask sends a request and waits for its answer. What comes before that is kept for await.
func (c *player) ask(id int, method, params string) string {
	c.t.Helper()
	c.send(id, method, params)
	return c.await(fmt.Sprintf(`"id":%d,`, id))
}

func (c *player) send(id int, method, params string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method,
		params); err != nil {
		c.t.Fatal(err)
	}
}

// answer answers a request of the server's.
func (c *player) answer(request, result string) {
	c.t.Helper()
	_, id, _ := strings.Cut(request, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result); err != nil {
		c.t.Fatal(err)
	}
}

// await waits for a line that holds a text.
func (c *player) await(text string) string {
	c.t.Helper()
	for i, line := range c.kept {
		if strings.Contains(line, text) {
			c.kept = append(c.kept[:i:i], c.kept[i+1:]...)
			return line
		}
	}
	late := time.After(watchdog)
	for {
		select {
		case line := <-c.lines:
			if strings.Contains(line, text) {
				return line
			}
			c.kept = append(c.kept, line)
		case <-late:
			c.t.Fatalf("nothing came with %s; there came %q", text, c.kept)
		}
	}
}

// The resources of several servers stand together, by their prefixes; each request goes to the server that it
// belongs to.
func TestUpstreamsAreRouted(t *testing.T) {
	t.Parallel()
	c := speak(t, "", full(t, "a"), full(t, "b"))
	for i, q := range []struct{ method, params, want string }{
		{"prompts/list", `{}`, `"prompts":[{"description":"of a","name":"a_p"},{"name":"a_only-a"},{"name":"a_empty"},{"description":"of b","name":"b_p"},{"name":"b_only-b"},{"name":"b_empty"}]`},
		{"prompts/get", `{"name":"b_p"}`, `"text":"b p"`},
		{"prompts/get", `{"name":"p"}`, `"code":-32602,"message":"unknown prompt: \"p\""`},
		{"resources/list", `{}`, `"resources":[{"uri":"a://one","name":"one"},{"uri":"b://one","name":"one"}]`},
		{"resources/templates/list", `{}`,
			`{"uriTemplate":"a://{x}/end","name":"t"},{"uriTemplate":"any://{x}","name":"both"},{"uriTemplate":"b://{x}/end","name":"t"}]`},
		{"resources/read", `{"uri":"b://one"}`, `"text":"b"`},
		{"resources/read", `{"uri":"b://x/end"}`, `"text":"b"`},
		{"resources/read", `{"uri":"any://thing"}`, `"text":"a"`},
		{"resources/read", `{"uri":"unlisted://thing"}`, `"text":"a"`},
		{"resources/read", `{"uri":"nowhere://thing"}`, `"code":-32002,"message":"no such resource"`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"b_p"},"argument":{"name":"x","value":""}}`, `"values":["b","p"]`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"b://{x}/end"},"argument":{"name":"x","value":""}}`, `"values":["b","b://{x}/end"]`},
		{"completion/complete", `{"ref":{"type":"other"}}`, `"code":-32602`},
		{"logging/setLevel", `{"level":"loud"}`, `"code":-32602`},
		{"logging/setLevel", `{"level":"info"}`, `"result":{}`},
		{"resources/subscribe", `{"uri":"b://one"}`, `"result":{}`},
	} {
		if got := c.ask(i+1, q.method, q.params); !strings.Contains(got, q.want) {
			t.Errorf("%s %s: got %s\nwant %s", q.method, q.params, got, q.want)
		}
	}
	for _, want := range []string{`"data":"a is at info"`, `"data":"b is at info"`,
		`"method":"notifications/resources/updated","params":{"uri":"b://one"}`} {
		c.await(want)
	}
	if got := c.ask(100, "resources/unsubscribe", `{"uri":"b://one"}`); !strings.Contains(got,
		`"result":{}`) {
		t.Errorf("unsubscribed: %s", got)
	}
	for _, line := range c.kept {
		if strings.Contains(line, "not wanted") {
			t.Errorf("below the level that was set: %s", line)
		}
	}
}

// A question with a URL goes to the client that can show one, and that it is done, too.
func TestUpstreamAsksWithURL(t *testing.T) {
	t.Parallel()
	for capabilities, wants := range map[string]bool{`{"elicitation":{"url":{}}}`: true,
		`{"elicitation":{"form":{}}}`: false} {
		set := NewSet(&tools.Registry{})
		if err := set.Add(fake(t, "fake", nil, "askURL")); err != nil {
			t.Fatal(err)
		}
		c := serveSet(t, set)
		t.Cleanup(set.Close)
		c.ask(0, "initialize", fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"t","version":"1"}}`, capabilities))
		c.send(1, "tools/call", `{"name":"askURL"}`)
		if !wants {
			if got := c.await(`"id":1,`); !strings.Contains(got, "the client does not support it") {
				t.Errorf("a client without URLs is answered with %s", got)
			}
			continue
		}
		question := c.await(`"method":"elicitation/create"`)
		for _, want := range []string{`"mode":"url"`, `"url":"https://example.com/in"`,
			`"elicitationId":"e1"`} {
			if !strings.Contains(question, want) {
				t.Errorf("the question lacks %s: %s", want, question)
			}
		}
		c.await(`"method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}`)
		c.answer(question, `{"action":"accept"}`)
		if got := c.await(`"id":1,`); !strings.Contains(got, `got {\"action\":\"accept\"}`) {
			t.Errorf("the answer becomes %s", got)
		}
	}
}

// A server that asks for roots as soon as it may, before the client's session is open, gets them. There are
// no kept lists, so it starts before the answer to initialize.
func TestRootsAtStart(t *testing.T) {
	t.Parallel()
	for range 2 {
		set := NewSet(&tools.Registry{})
		if err := set.Add(full(t, WrappedName, "ROOTS", "yes")); err != nil {
			t.Fatal(err)
		}
		c := serveSet(t, set)
		t.Cleanup(set.Close)
		c.ask(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"t","version":"1"}}`)
		question := c.await(`"method":"roots/list"`)
		c.ask(1, "tools/list", `{}`)
		for id := 2; id < 4; id++ {
			c.send(id, "tools/call", `{"name":"wrapped_tool"}`)
		}
		c.answer(question, `{"roots":[{"uri":"file:///here"}]}`)
		if got := c.await("notifications/message"); !strings.Contains(got,
			`"result":{"roots":[{"uri":"file:///here"}]}`) {
			t.Errorf("the server gets %s", got)
		}
		for id := 2; id < 4; id++ {
			if got := c.await(fmt.Sprintf(`"id":%d,`, id)); !strings.Contains(got, "file:///here") {
				t.Errorf("a call that comes before the roots: %s", got)
			}
		}
	}
}

// A server that asks for roots outside of calls gets them from a client of 2026-07-28 with its next request
// that may carry a question, and before that request. It asks at its start and after each request, which
// runnel may still count as under way.
func TestRootsOfAStatelessClient(t *testing.T) {
	t.Parallel()
	set := NewSet(&tools.Registry{})
	if err := set.Add(full(t, WrappedName, "ROOTS", "again")); err != nil {
		t.Fatal(err)
	}
	c := serveSet(t, set)
	t.Cleanup(set.Close)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`
	c.ask(0, "tools/list", `{`+meta+`}`)
	held := &set.servers[0].up().forwards
	id := 0
	for i, request := range []struct{ method, named string }{
		{"tools/call", `"name":"wrapped_tool"`},
		{"tools/call", `"name":"wrapped_tool"`},
		{"prompts/get", `"name":"wrapped_p"`},
		{"prompts/get", `"name":"wrapped_p"`},
		{"tools/call", `"name":"wrapped_tool"`},
		{"resources/read", `"uri":"wrapped://one"`},
		{"tools/call", `"name":"wrapped_tool"`},
	} {
		for began := time.Now(); !held.waits(); time.Sleep(time.Millisecond) {
			if time.Since(began) > watchdog {
				t.Fatalf("%d: the server's question is lost", i)
			}
		}
		id++
		result := rawjson.Member([]byte(c.ask(id, request.method, `{`+request.named+`,`+meta+`}`)), "result")
		if !strings.Contains(string(result), `"method":"roots/list"`) {
			t.Fatalf("%d: %s is answered by %s", i, request.method, result)
		}
		key := ""
		for it := rawjson.Over(rawjson.Member(result, "inputRequests")); it.Next(); {
			key = string(it.Name)
		}
		id++
		uri := fmt.Sprintf("file:///%d", i)
		again := `"requestState":` + string(rawjson.Member(result, "requestState")) + `,"inputResponses":{"` +
			key + `":{"roots":[{"uri":"` + uri + `"}]}}`
		got := c.ask(id, request.method, `{`+request.named+`,`+again+`,`+meta+`}`)
		if request.method == "tools/call" && !strings.Contains(got, uri) || strings.Contains(got, `"error"`) {
			t.Errorf("%d: %s is then answered by %s", i, request.method, got)
		}
	}
}

// waits reports whether a request of the server is held.
func (f *forwards) waits() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held) > 0
}

// A prompt of a server of the stateless era that asks first: a session is asked, and reads nothing of that
// era.
func TestStatelessUpstreamsPrompt(t *testing.T) {
	t.Parallel()
	set := NewSet(&tools.Registry{})
	if err := set.Add(full(t, "a", "STATELESS", "yes")); err != nil {
		t.Fatal(err)
	}
	c := serveSet(t, set)
	t.Cleanup(set.Close)
	c.ask(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}`)
	if got := c.ask(1, "prompts/list", `{}`); !strings.Contains(got, `"name":"a_p"`) {
		t.Errorf("the list is %s", got)
	}
	c.send(2, "prompts/get", `{"name":"a_p"}`)
	c.answer(c.await(`"method":"elicitation/create"`), `{"action":"accept","content":{}}`)
	got := c.await(`"id":2,`)
	c.send(3, "prompts/get", `{"name":"a_only-a"}`) // which asks again and again
	for range maxRounds {
		c.answer(c.await(`"method":"elicitation/create"`), `{"action":"accept","content":{}}`)
	}
	if got := c.await(`"id":3,`); !strings.Contains(got, "it asks without end") {
		t.Errorf("a prompt that asks without end: %s", got)
	}
	if !strings.Contains(got, `"text":"s{\"q\":{\"action\":\"accept\",\"content\":{}}}"`) ||
		strings.Contains(got, "resultType") || strings.Contains(got, "ttlMs") {
		t.Errorf("the prompt is %s", got)
	}
}

// A server's catalog is known when runnel starts again, before the server is there; changes since then are
// told.
func TestCatalogIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gate := processtest.NewGate(t)
	more := filepath.Join(t.TempDir(), "more")
	opened := make(chan struct{})
	go func() { defer close(opened); _ = os.WriteFile(gate, []byte("go\n"), 0) }()
	first := speak(t, dir, full(t, "a", "GATE", gate, "MORE", more))
	if got := first.ask(1, "tools/list", `{}`); !strings.Contains(got, `"name":"a_tool"`) {
		t.Fatalf("the first list is %s", got)
	}
	for _, method := range []string{promptList, resourceList, templateList} { // it is kept when it is whole
		first.ask(2, method, `{}`)
	}
	<-opened
	if err := os.WriteFile(more, []byte(`,{"name":"later","inputSchema":{"type":"object"}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	second := speak(t, dir, full(t, "a", "GATE", gate, "MORE", more))
	opening := second.opening
	if !strings.Contains(opening, `"prompts":{"listChanged":true}`) || !strings.Contains(opening, "use a") {
		t.Errorf("the second one opens with %s", opening)
	}
	got := second.ask(1, "tools/list", `{}`)
	if !strings.Contains(got, `"name":"a_tool"`) || strings.Contains(got, "later") {
		t.Errorf("before the server is there the list is %s", got)
	}
	if got := second.ask(2, "prompts/list", `{}`); !strings.Contains(got, `"name":"a_p"`) {
		t.Errorf("before the server is there the list of prompts is %s", got)
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	second.await("notifications/tools/list_changed")
	if got := second.ask(3, "tools/list", `{}`); !strings.Contains(got, `"name":"a_later"`) {
		t.Errorf("the list is then %s", got)
	}
	for _, line := range second.kept {
		if strings.Contains(line, "prompts/list_changed") {
			t.Errorf("told of what has not changed: %s", line)
		}
	}
}

// A list waits for its own answer only: what the server does not answer hides nothing else.
func TestListsWaitForTheirOwnAnswer(t *testing.T) {
	t.Parallel()
	for range 2 {
		c := speak(t, "", full(t, WrappedName, "SILENT", "prompts/list resources/list"))
		for range 2 {
			if got := c.ask(1, "tools/list", `{}`); !strings.Contains(got, `"name":"wrapped_tool"`) {
				t.Errorf("the list is %s", got)
			}
			if got := c.ask(2, "resources/templates/list", `{}`); !strings.Contains(got, `"name":"both"`) {
				t.Errorf("the list of templates is %s", got)
			}
			if got := c.ask(3, "resources/read", `{"uri":"any://thing"}`); !strings.Contains(got,
				`"text":"wrapped"`) {
				t.Errorf("the resource is %s", got)
			}
		}
	}
}

// The first list of a wrapped server, and the first call of any server, wait as long as their client does,
// with signs of life.
func TestFirstListAndCallWait(t *testing.T) {
	t.Parallel()
	const params = `{"name":"%s_tool","arguments":{},"_meta":{"progressToken":"p"}}`
	for range 2 {
		gate := processtest.NewGate(t)
		u := full(t, WrappedName, "GATE", gate)
		u.times.list, u.times.prepare = time.Millisecond, time.Millisecond
		c := speak(t, "", u)
		c.send(1, "tools/list", `{"_meta":{"progressToken":"p"}}`)
		c.await(`"message":"waiting for wrapped for `)
		if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
		if got := c.await(`"id":1,`); !strings.Contains(got, `"name":"wrapped_tool"`) {
			t.Errorf("the list is %s", got)
		}

		gate = processtest.NewGate(t)
		u = full(t, "a", "GATE", gate)
		u.times.list = time.Millisecond
		c = speak(t, "", u)
		if got := c.ask(1, "tools/list", `{}`); !strings.Contains(got, `"tools":[]`) {
			t.Errorf("before the server is there the list is %s", got)
		}
		c.send(2, "tools/call", fmt.Sprintf(params, "a"))
		c.await(`"message":"waiting for a for `)
		if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
		if got := c.await(`"id":2,`); !strings.Contains(got, `"text":"a"`) {
			t.Errorf("the call's answer is %s", got)
		}
		c.await("notifications/tools/list_changed")
	}
}

// A list that cannot be read once is not taken, nor kept, for an empty one: it is read again.
func TestListThatFailsOnce(t *testing.T) {
	t.Parallel()
	for name, relist := range map[string]time.Duration{"again": 10 * time.Millisecond, "kept": time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir, fail := t.TempDir(), filepath.Join(t.TempDir(), "fail")
			if err := os.WriteFile(fail, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			u := full(t, "a", "FAIL", fail)
			u.times.relist = relist
			c := speak(t, dir, u)
			if relist == time.Hour {
				if got := c.ask(1, "prompts/list", `{}`); !strings.Contains(got, `"prompts":[]`) {
					t.Errorf("the list that failed is %s", got)
				}
				if kept, _ := filepath.Glob(filepath.Join(dir, catalogFolder, "*.json")); len(kept) > 0 {
					t.Errorf("what lacks a list is kept: %v", kept)
				}
				return
			}
			c.send(1, "prompts/list", `{}`)
			for got := c.await(`"id":1,`); !strings.Contains(got, `"name":"a_p"`); got = c.ask(2,
				"prompts/list", `{}`) {
				c.await("notifications/prompts/list_changed")
			}
		})
	}
}

// A subscriber to a resource is told when a reload takes its server away; the next server of that name is
// asked to report its changes.
func TestSubscriptionsOutliveAReload(t *testing.T) {
	t.Parallel()
	set := NewSet(&tools.Registry{})
	for _, name := range []string{"a", "b"} {
		if err := set.Add(full(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := serveSet(t, set)
	t.Cleanup(set.Close)
	c.ask(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	updated := func(uri string) {
		c.await(fmt.Sprintf(`"method":"notifications/resources/updated","params":{"uri":%q}`, uri))
	}
	for i, uri := range []string{"a://one", "b://one"} {
		c.ask(i+1, "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri))
		updated(uri) // as the server tells at once
	}
	next := NewSet(&tools.Registry{})
	if err := next.Add(full(t, "b", "CHANGED", "yes")); err != nil {
		t.Fatal(err)
	}
	set.Replace(next)
	updated("a://one") // it is gone
	updated("b://one") // another server has it
	updated("b://one") // which was subscribed to
	if got := c.ask(9, "resources/unsubscribe", `{"uri":"b://one"}`); !strings.Contains(got, `"result":{}`) {
		t.Errorf("unsubscribed: %s", got)
	}
}

// earlyParts is how many parts of a resource "early" change before the server has answered who subscribes to
// it.
const earlyParts = 20

// "The server MUST send notifications/subscriptions/acknowledged as the first message": a server's updates
// that come before that wait, and none takes the place of another.
func TestUpdatesWaitForTheAcknowledgement(t *testing.T) {
	t.Parallel()
	c := speak(t, "", full(t, "a"))
	if _, err := io.WriteString(c.in,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"resourceSubscriptions":["a://x/early"]}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	c.await("notifications/subscriptions/acknowledged")
	for _, line := range c.kept {
		if strings.Contains(line, "resources/updated") {
			t.Errorf("before the acknowledgement: %s", line)
		}
	}
	c.await(`"method":"notifications/resources/updated","params":{"uri":"a://x/early","_meta":`)
	for i := range earlyParts {
		c.await(fmt.Sprintf(`"method":"notifications/resources/updated","params":{"uri":"a://x/early/%d","_meta":`, i))
	}
}

// A list that has nothing is empty in every version, not null.
func TestEmptyListsAreLists(t *testing.T) {
	t.Parallel()
	set := NewSet(&tools.Registry{})
	if err := set.Add(full(t, "a")); err != nil {
		t.Fatal(err)
	}
	c := serveSet(t, set)
	t.Cleanup(set.Close)
	c.ask(0, "initialize", `{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if got := c.ask(1, "prompts/get", `{"name":"a_empty"}`); !strings.Contains(got, `"messages":[]`) {
		t.Errorf("a prompt without messages: %s", got)
	}
	// The list has become shorter since the page before.
	cursor := shownPrefix + "99"
	if got := c.ask(2, "resources/list", fmt.Sprintf(`{"cursor":%q}`, cursor)); !strings.Contains(got,
		`"resources":[]`) {
		t.Errorf("behind the end of the list: %s", got)
	}
}
