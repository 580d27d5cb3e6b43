//go:build unix

package upstream

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/config"
)

// mirrorMain is a server that shows what it gets, and says what no other server says.
func mirrorMain([]string) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	stateless := os.Getenv("STATELESS") != ""
	const capabilities = `{"tools":{},"prompts":{},"resources":{},"logging":{},"experimental":{"claude/channel":{"n":1}},"extensions":{"io.modelcontextprotocol/skills":{"n":12345678901234567890},"io.modelcontextprotocol/tasks":{},"runnel/task-partials":{}},"x-capability":{"n":1}}`
	hello := ""
	asked := ""
	level := ""
	lines := bufio.NewScanner(os.Stdin)
	for lines.Buffer(nil, 64<<20); lines.Scan(); {
		var m struct {
			ID             json.RawMessage
			Method         string
			Params, Result json.RawMessage
			Error          json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			panic(err)
		}
		answer := func(format string, args ...any) {
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, fmt.Sprintf(format, args...))
		}
		text := func(s string) {
			answer(`{"resultType":"complete","content":[{"type":"text","text":%q}],"messages":[],"contents":[]}`, s)
		}
		fail := func() {
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"sign in","data":{"n":12345678901234567890}}}`, m.ID)
		}
		token := string(rawjson.Member(rawjson.Member(m.Params, "_meta"), "progressToken"))
		ask := func(method string) {
			question := `{"message":"Which?","requestedSchema":{"type":"object","properties":{}},"x-own":1,"_meta":{"x/key":1}}`
			if rawjson.StringMember(m.Params, "name") == "url" {
				question = `{"mode":"url","message":"Which?","url":"https://example.com"}`
			}
			if asked = string(m.ID); stateless && rawjson.Member(m.Params, "inputResponses") == nil {
				answer(`{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":%q,"params":%s}}}`, method, question)
			} else if stateless {
				text(string(rawjson.Member(m.Params, "inputResponses")))
			} else {
				say(`{"jsonrpc":"2.0","id":"q","method":%q,"params":%s}`, method, question)
			}
		}
		switch m.Method {
		case "server/discover":
			if !stateless {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
				continue
			}
			answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":%s,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mirror","version":"1"}}}`, capabilities)
		case "initialize":
			hello = string(m.Params)
			answer(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"mirror","version":"1"}}`,
				cmp.Or(os.Getenv("VERSION"), "2025-11-25"), capabilities)
		case "tools/list":
			answer(`{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"x-hint":1},"x-own":{"n":1e400}}%s]}`,
				strings.ReplaceAll(`,{"name":"who"},{"name":"steps"},{"name":"fail"},{"name":"ask"},{"name":"url"},{"name":"other"}`, `}`, `,"inputSchema":{"type":"object"}}`))
		case "prompts/list":
			answer(`{"resultType":"complete","prompts":[{"name":"p","x-own":1},{"name":"fail"},{"name":"ask"},{"name":"url"}]}`)
		case "resources/list":
			answer(`{"resultType":"complete","resources":[]}`)
		case "resources/templates/list":
			answer(`{"resultType":"complete","resourceTemplates":[]}`)
		case "logging/setLevel":
			level = rawjson.StringMember(m.Params, "level")
			answer(`{}`)
		case "resources/read":
			fail()
		case "prompts/get", "tools/call":
			if stateless {
				hello, level = string(m.Params),
					rawjson.StringMember(rawjson.Member(m.Params, "_meta"),
						"io.modelcontextprotocol/logLevel")
			}
			switch rawjson.StringMember(m.Params, "name") {
			case "p":
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0.5,"x-own":1}}`, token)
				text(string(m.Params))
			case "t":
				answer(`{"resultType":"complete","content":[{"type":"text","text":%q}],"structuredContent":{"n":1e400},"_meta":{"x/big":12345678901234567890},"x-own":{"n":12345678901234567890}}`, m.Params)
			case "who":
				text(hello + level)
			case "steps":
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0.5,"total":3,"message":"one","x-own":1}}`, token)
				say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"first"}}`)
				say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"second"}}`)
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":2.5,"total":3}}`, token)
				answer(`{"resultType":"complete","content":[{"type":"resource_link","uri":"x:y","name":"l"}]}`)
			case "fail":
				fail()
			case "ask", "url":
				ask("elicitation/create")
			case "other":
				ask("x/ask")
			}
		case "skills/list":
			text(string(m.Params))
		case "notifications/x-client":
			say(`{"jsonrpc":"2.0","method":"notifications/x-server","params":%s}`, m.Params)
		case "":
			m.ID = json.RawMessage(asked)
			text(string(m.Result) + string(m.Error))
		}
	}
}

// mirrored serves a mirror of an era to a client of an era, which declares much.
func mirrored(t *testing.T, host, server string) (c *player, params func(more string) string) {
	t.Helper()
	variable := "STATELESS="
	if server == "2026" {
		variable += "yes"
	}
	u := newMirror(t, variable)
	set := NewSet(&tools.Registry{})
	if err := set.Add(u); err != nil {
		t.Fatal(err)
	}
	c = serveSet(t, set)
	t.Cleanup(set.Close)
	const info, capabilities = `{"name":"host","title":"The Host","version":"7","x-own":1}`,
		`{"elicitation":{"form":{},"url":{}},"sampling":{"x-own":1},"experimental":{"x":{"n":1}},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
	if host == "2025" {
		c.opening = c.ask(0, "initialize",
			`{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":`+info+`}`)
		c.ask(1, "tools/list", `{}`)
		return c, func(more string) string { return `{` + more + `}` }
	}
	params = func(more string) string {
		whole := json.RawMessage(`{` + more + `}`)
		meta := rawjson.Merge(json.RawMessage(`{}`), rawjson.Member(whole, "_meta"))
		meta = rawjson.Merge(meta, json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":`+info+`,"io.modelcontextprotocol/clientCapabilities":`+capabilities+`}`))
		return string(rawjson.WithMember(whole, "_meta", meta))
	}
	c.opening = c.ask(0, "server/discover", params(""))
	c.ask(1, "tools/list", params(""))
	c.opening = c.ask(2, "server/discover", params(""))
	return c, params
}

// newMirror makes a mirror, with variables of its environment.
func newMirror(t *testing.T, variables ...string) *Server {
	return fake(t, WrappedName, func(u *config.Upstream) {
		command := child("mirror")
		u.Command, u.Env = command.Command, command.Env
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			u.Env[name] = value
		}
	})
}

// A wrapped server may speak a version from before the first that runnel lists, which official clients take,
// and its resource links reach clients of versions that have none: both pass as they do directly.
func TestOldVersionsThroughWrap(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"2024-10-07", "2024-11-05", "2025-03-26", "2025-11-25"} {
		for _, host := range []string{"2024-11-05", "2025-03-26", "2025-06-18"} {
			t.Run(server+" "+host, func(t *testing.T) {
				t.Parallel()
				set := NewSet(&tools.Registry{})
				t.Cleanup(set.Close)
				if err := set.Add(newMirror(t, "VERSION="+server)); err != nil {
					t.Fatal(err)
				}
				c := serveSet(t, set)
				if got := c.ask(0, "initialize",
					`{"protocolVersion":"`+host+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`); !strings.Contains(got, `"protocolVersion":"`+host+`"`) {
					t.Errorf("initialize is answered by %s", got)
				}
				for i := range 2 {
					if got := c.ask(10+i, "tools/call", `{"name":"steps"}`); !strings.Contains(got,
						`"content":[{"type":"resource_link","uri":"x:y","name":"l"}]`) {
						t.Errorf("the result is %s", got)
					}
				}
			})
		}
	}
}

// An error of a wrapped server passes with its code and data, also as the result of a task.
func TestErrorOfATaskThroughWrap(t *testing.T) {
	t.Parallel()
	c := speak(t, "", newMirror(t))
	for i := range 2 {
		created := c.ask(10+i, "tools/call", `{"name":"fail","task":{}}`)
		id := rawjson.StringMember(rawjson.Member(rawjson.Member([]byte(created), "result"), "task"),
			"taskId")
		if got := c.ask(20+i, "tasks/result", `{"taskId":"`+id+`"}`); !strings.Contains(got,
			`"error":{"code":-32042,"message":"sign in","data":{"n":12345678901234567890}}`) {
			t.Errorf("%s\ntasks/result is answered by %s", created, got)
		}
	}
}

// A question by URL of a 2026-07-28 server, which has no elicitationId, has one for a client of 2025-11-25,
// which requires it.
func TestURLQuestionAcrossTheEras(t *testing.T) {
	t.Parallel()
	c, params := mirrored(t, "2025", "2026")
	for i, method := range []string{"tools/call", "prompts/get"} {
		c.send(10+i, method, params(`"name":"url"`))
		question := c.await(`"method":"elicitation/create"`)
		if rawjson.StringMember(rawjson.Member([]byte(question), "params"), "elicitationId") == "" {
			t.Errorf("the question is %s", question)
		}
		c.answer(question, `{"action":"accept"}`)
		if got := c.await(fmt.Sprintf(`"id":%d,`, 10+i)); !strings.Contains(got, `accept`) {
			t.Errorf("the answer is %s", got)
		}
	}
}

// A client of 2026-07-28 gets a server's question about a prompt as the answer, and its request goes on with
// the response: once, for the same prompt. A client that cannot be asked is not: the server gets the error of
// a method that its client lacks.
func TestQuestionAboutAPromptAcrossTheEras(t *testing.T) {
	t.Parallel()
	c, params := mirrored(t, "2026", "2025")
	const refused, response = `"code":-32602`, `"inputResponses":{"question":{"action":"decline"}}`
	for i := range 2 {
		id := 10 * (i + 1)
		asked := c.ask(id, "prompts/get", params(`"name":"ask"`))
		state := `"requestState":` + string(rawjson.Member(rawjson.Member([]byte(asked), "result"),
			"requestState"))
		for n, wrong := range []string{`"name":"p",` + state + `,` + response, `"name":"ask",` + state,
			`"name":"ask","requestState":"x",` + response} {
			if got := c.ask(id+1+n, "prompts/get", params(wrong)); !strings.Contains(got, refused) {
				t.Errorf("%s is answered by %s", wrong, got)
			}
		}
		whole := params(`"name":"ask",` + state + `,` + response)
		if got := c.ask(id+5, "prompts/get", whole); !strings.Contains(got, `decline`) {
			t.Errorf("the answer is %s", got)
		}
		if got := c.ask(id+6, "prompts/get", whole); !strings.Contains(got, refused) {
			t.Errorf("the same response again is answered by %s", got)
		}
		cannot := params(`"name":"ask","_meta":{}`)
		cannot = strings.Replace(cannot, `"elicitation":{"form":{},"url":{}},`, ``, 1)
		if got := c.ask(id+7, "prompts/get", cannot); !strings.Contains(got, `-32601`) {
			t.Errorf("a client that cannot be asked gets %s", got)
		}
	}
}

// Requests of a server that no request of the client can carry are bounded in number and in time.
func TestHeldRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f forwards
		for range 2 {
			answers := make(chan error, maxHeld)
			for range maxHeld {
				go func() {
					_, err := f.hold(t.Context(), "roots/list", nil)
					answers <- err
				}()
			}
			synctest.Wait()
			if _, err := f.hold(t.Context(), "roots/list", nil); err == nil ||
				!strings.Contains(err.Error(), "the limit is 16") {
				t.Errorf("one more is answered by %v", err)
			}
			for range maxHeld { // after parkedTTL
				if err := <-answers; err == nil ||
					!strings.Contains(err.Error(), "no request of the client within 10m0s") {
					t.Errorf("got %v", err)
				}
			}
			if len(f.held) > 0 {
				t.Errorf("%d are held", len(f.held))
			}
		}
	})
}

// A client of the handshake era gets extensions of a server only if it declares some itself, and never those
// that runnel has in 2026-07-28. Each client asks twice, before and after the server is known.
func TestExtensionsOfAServer(t *testing.T) {
	t.Parallel()
	for capabilities, want := range map[string]string{
		`{}`:                        ``,
		`{"elicitation":{}}`:        ``,
		`{"extensions":{}}`:         `"extensions":{"io.modelcontextprotocol/skills":{"n":12345678901234567890}}`,
		`{"extensions":{"x/y":{}}}`: `"extensions":{"io.modelcontextprotocol/skills":{"n":12345678901234567890}}`,
	} {
		t.Run(capabilities, func(t *testing.T) {
			t.Parallel()
			u := newMirror(t)
			set := NewSet(&tools.Registry{})
			t.Cleanup(set.Close)
			if err := set.Add(u); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got := serveSet(t, set).ask(0, "initialize",
					`{"protocolVersion":"2025-11-25","capabilities":`+capabilities+
						`,"clientInfo":{"name":"host","version":"1"}}`)
				if !strings.Contains(got, `"experimental"`) || !strings.Contains(got, want) ||
					want == "" && strings.Contains(got, "extensions") {
					t.Errorf("initialize is answered by %s", got)
				}
			}
		})
	}
}

// What a wrapped server and its client say to each other passes as it is, in both eras and across them. Each
// call is made twice.
func TestWrappedIsNotChanged(t *testing.T) {
	t.Parallel()
	for _, eras := range []string{"2025 2025", "2025 2026", "2026 2025", "2026 2026"} {
		t.Run(eras, func(t *testing.T) {
			t.Parallel()
			host, server, _ := strings.Cut(eras, " ")
			c, params := mirrored(t, host, server)
			id := 10
			want := func(line string, texts ...string) {
				t.Helper()
				for _, text := range texts {
					if !strings.Contains(line, text) {
						t.Errorf("%s is missing in %s", text, line)
					}
				}
			}
			ask := func(method, more string, texts ...string) string {
				t.Helper()
				id++
				line := c.ask(id, method, params(more))
				want(line, texts...)
				return line
			}
			const big = `12345678901234567890`
			want(c.opening, `"experimental":{"claude/channel":{"n":1}}`,
				`"io.modelcontextprotocol/skills":{"n":`+big+`}`, `"x-capability":{"n":1}`)
			for range 2 {
				ask("tools/list", ``, `"annotations":{"readOnlyHint":true,"x-hint":1}`, `"x-own":{"n":1e400}`)
				ask("prompts/list", ``, `{"name":"p","x-own":1}`)
				meta := `"_meta":{"traceparent":"00-1","x/tenant":{"n":` + big + `},"progressToken":"mine"}`
				got := ask("tools/call", `"name":"t","arguments":{"n":1e400},"x-own":`+big+`,`+meta,
					`"structuredContent":{"n":1e400}`, `"x/big":`+big, `"x-own":{"n":`+big+`}`,
					`\"traceparent\":\"00-1\"`, `\"x/tenant\":{\"n\":`+big+`}`, `\"arguments\":{\"n\":1e400}`,
					`\"x-own\":`+big)
				if strings.Contains(got, `\"mine\"`) {
					t.Errorf("the token of another connection: %s", got)
				}
				ask("tools/call", `"name":"who"`, `The Host`, `\"x-own\":1`, `\"url\":{}`,
					`\"experimental\":{\"x\":{\"n\":1}}`, `io.modelcontextprotocol/ui`, `profile=mcp-app`)
				ask("prompts/get", `"name":"p",`+meta, `\"traceparent\":\"00-1\"`,
					`\"x/tenant\":{\"n\":`+big+`}`)
				want(c.await(`"progress":0.5`), `"progressToken":"mine"`, `"x-own":1`)
				ask("skills/list", `"cursor":"a",`+meta, `\"cursor\":\"a\"`, `\"traceparent\":\"00-1\"`)
				const failure = `"error":{"code":-32042,"message":"sign in","data":{"n":` + big + `}}`
				ask("tools/call", `"name":"fail"`, failure)
				ask("prompts/get", `"name":"fail"`, failure)
				ask("resources/read", `"uri":"x:y"`, failure)
				level := `"_meta":{"progressToken":"steps"}`
				if host == "2025" {
					ask("logging/setLevel", `"level":"debug"`, `"result":{}`)
				} else {
					level = `"_meta":{"progressToken":"steps","io.modelcontextprotocol/logLevel":"debug"}`
				}
				c.kept = nil
				ask("tools/call", `"name":"steps",`+level, `"resource_link"`)
				want(strings.Join(c.kept, ""),
					`"progressToken":"steps","progress":0.5,"total":3,"message":"one","x-own":1`,
					`"level":"debug","data":"first"`, `"level":"error","data":"second"`,
					`"progressToken":"steps","progress":2.5,"total":3`)
				// The machine is busy.
				c.kept = slices.DeleteFunc(c.kept,
					func(line string) bool { return strings.Contains(line, `"running for `) })
				if got := strings.Join(c.kept, ""); len(c.kept) != 4 ||
					strings.Index(got, `"progress":0.5`) > strings.Index(got, "first") ||
					strings.Index(got, "first") > strings.Index(got, "second") ||
					strings.Index(got, "second") > strings.Index(got, `"progress":2.5`) {
					t.Errorf("the order is %q", c.kept)
				}
				c.kept = nil
				ask("tools/call", `"name":"who",`+strings.Replace(level, "debug", "warning", 1),
					map[string]string{"2025": "debug",
						"2026": map[string]string{"2025": "debug", "2026": "warning"}[server]}[host])

				if _, err := fmt.Fprintf(c.in,
					`{"jsonrpc":"2.0","method":"notifications/x-client","params":{"n":%s}}`+"\n",
					big); err != nil {
					t.Fatal(err)
				}
				if host == "2025" {
					c.await(`"method":"notifications/x-server","params":{"n":` + big + `}`)
				}
				testQuestions(t, c, host, server, params, &id)
			}
		})
	}
}

// testQuestions has the server ask in a call and for a prompt: questions and answers pass, also an answer
// that is an error.
func testQuestions(t *testing.T, c *player, host, server string, params func(string) string, id *int) {
	for _, method := range []string{"tools/call", "prompts/get", "tools/call", "prompts/get"} {
		*id++
		c.send(*id, method, params(`"name":"ask"`))
		question := ""
		if host == "2025" {
			question = c.await(`"method":"elicitation/create"`)
			c.answer(question, `{"action":"accept","content":{},"x-own":1,"_meta":{"x/key":2}}`)
		} else {
			question = c.await(fmt.Sprintf(`"id":%d,`, *id))
			result := rawjson.Member([]byte(question), "result")
			key := "q"
			for it := rawjson.Over(rawjson.Member(result, "inputRequests")); it.Next(); {
				key = string(it.Name)
			}
			*id++
			c.send(*id, method, params(`"name":"ask","requestState":`+
				string(rawjson.Member(result, "requestState"))+`,"inputResponses":{"`+key+
				`":{"action":"accept","content":{},"x-own":1,"_meta":{"x/key":2}}}`))
		}
		if !strings.Contains(question, `"x-own":1`) || !strings.Contains(question, `"x/key":1`) {
			t.Errorf("%s: the question is %s", method, question)
		}
		if got := c.await(fmt.Sprintf(`"id":%d,`, *id)); !strings.Contains(got, `\"x-own\":1`) ||
			!strings.Contains(got, `\"x/key\":2`) {
			t.Errorf("%s: the answer is %s", method, got)
		}
	}
	if host != "2025" {
		return
	}
	for _, name := range []string{"ask", "other"} {
		if server == "2026" {
			continue // the call fails with the client's error
		}
		*id++
		c.send(*id, "tools/call", params(`"name":"`+name+`"`))
		question := c.await(`"message":"Which?"`)
		if _, err := fmt.Fprintf(c.in,
			`{"jsonrpc":"2.0","id":%s,"error":{"code":-7,"message":"no","data":{"x":1}}}`+"\n",
			rawjson.Member([]byte(question), "id")); err != nil {
			t.Fatal(err)
		}
		if got := c.await(fmt.Sprintf(`"id":%d,`, *id)); !strings.Contains(got,
			`{\"code\":-7,\"message\":\"no\",\"data\":{\"x\":1}}`) {
			t.Errorf("the refusal of %s is %s", name, got)
		}
	}
}

// Among several upstreams, a method that runnel does not know goes to the only one that declares it.
func TestUnknownMethodAmongUpstreams(t *testing.T) {
	t.Parallel()
	mirror := func(name string) *Server {
		return fake(t, name, func(u *config.Upstream) {
			command := child("mirror")
			u.Command = command.Command
			u.Env = command.Env
			u.Prefix = name + "_"
		})
	}
	const unknown = `"code":-32601`
	one := speak(t, "", mirror("a"), fake(t, "b", nil, "text"))
	two := speak(t, "", mirror("a"), mirror("b"))
	for i := range 2 {
		if got := one.ask(10+i, "skills/list", `{"x":1}`); !strings.Contains(got, `{\"x\":1}`) {
			t.Errorf("one declares skills: %s", got)
		}
		if got := one.ask(20+i, "other/list", `{}`); !strings.Contains(got, unknown) {
			t.Errorf("nobody declares it: %s", got)
		}
		if got := two.ask(10+i, "skills/list", `{}`); !strings.Contains(got, unknown) {
			t.Errorf("both declare it: %s", got)
		}
	}
}
