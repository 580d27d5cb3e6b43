//go:build unix

package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/config"
)

// upstreamMain is a server of the handshake era. Its arguments are the names of its tools, which are also
// what they do.
func upstreamMain(names []string) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	tool := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"title":"T","icons":[{"src":"data:,"}],"inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":false},"_meta":{"x":1}}`, name)
	}
	if file := os.Getenv("STARTS"); file != "" {
		f, _ := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		_, _ = f.WriteString("x")
		_ = f.Close()
	}
	if gate := os.Getenv("GATE"); gate != "" {
		_, _ = os.ReadFile(gate) // until the test opens it
	}
	asked := json.RawMessage(nil) // the id of the call that asks
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Error  json.RawMessage
			Params struct {
				Name string
				Meta struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			panic(err)
		}
		answer := func(text string) {
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, m.ID, text)
		}
		switch m.Method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}}`, m.ID)
		case "tools/list":
			var list []string
			for _, name := range names {
				list = append(list, tool(name))
			}
			if os.Getenv("ODD") != "" {
				list = append(list, `{"name":"two words","inputSchema":{"type":"object"}}`,
					`{"name":"text","inputSchema":{"type":"string"}}`, `{"name":"none"}`, `{"name":5}`, `7`,
					`{"name":"odd-output","inputSchema":{"type":"object"},"outputSchema":true}`,
					`{"name":"odd-icons","inputSchema":{"type":"object"},"icons":{}}`,
					`{"name":"odd-meta","inputSchema":{"type":"object"},"_meta":[]}`,
					`{"name":"nulls","inputSchema":{"type":"object"},"outputSchema":null,"icons":null,"_meta":null,"title":null,"annotations":null}`)
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, m.ID, strings.Join(list, ","))
		case "ping":
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		case "":
			if m.Error != nil {
				m.Result = m.Error
			}
			m.ID = asked
			answer("got " + string(m.Result))
		case "tools/call":
			switch m.Params.Name {
			case "die":
				_, _ = fmt.Fprintln(os.Stderr, "first words\nlast words")
				os.Exit(3)
			case "leave":
				os.Exit(0)
			case "hang":
				time.Sleep(time.Hour)
			case "slow":
				id := m.ID
				time.AfterFunc(6*time.Second, func() { // longer than a hung one is waited for
					say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"slow"}]}}`, id)
				})
			case "talk":
				for i := 1; i <= 3; i++ {
					say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":3,"message":"step %d"}}`, m.Params.Meta.Token, i, i)
					say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"l","data":{"n":%d}}}`, i)
				}
				answer("done")
			case "chunks":
				for i := 0; i < 3; i++ {
					say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"partialResult":{"chunk":{"content":[{"type":"text","text":"chunk %d\n"}]},"append":%t,"lastChunk":%t}}}`, m.Params.Meta.Token, i+1, i, i > 0, i == 2)
				}
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"n":1}}}`, m.ID)
			case "rubbish":
				for _, method := range []string{"progress", "message", "tasks/partial", "tasks/status",
					"tools/partial_result", "tasks", "cancelled", "other"} {
					for _, params := range []string{``, `,"params":{}`, `,"params":[1]`,
						`,"params":{"_meta":5}`, `,"params":{"_meta":{"io.modelcontextprotocol/related-task":7},"data":null}`,
						`,"params":{"progressToken":{},"progress":"x","message":4}`,
						`,"params":{"progressToken":` + string(m.Params.Meta.Token) +
							`,"partialResult":{"chunk":1}}`,
						`,"params":{"taskId":5,"seq":-1,"content":{}}`, `,"params":{"requestId":null}`} {
						say(`{"jsonrpc":"2.0","method":"notifications/%s"%s}`, method, params)
					}
				}
				say("not JSON\n\n[]\n{}\n7")
				say(`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage"}`)
				answer("fine")
			case "no-objects":
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"partialResult":{"chunk":{"content":[1,null,"x",[],{"type":"text","text":"good","seqNr":7}]},"append":false,"lastChunk":true}}}`, m.Params.Meta.Token)
				answer("good")
			case "no-result":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"good"},null]}}`,
					m.ID)
			case "ask", "askAtLength":
				asked = m.ID
				title := ""
				if m.Params.Name == "askAtLength" {
					// Each < is written as \u003c.
					title = strings.Repeat("<", tools.MaxQuestionSchema/6)
				}
				say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":%q}}}}}`, title)
			case "askURL":
				asked = m.ID
				say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"Sign in","url":"https://example.com/in","elicitationId":"e1"}}`)
				say(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`)
			case "grow":
				names = append(names, "grown")
				say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				answer("bigger")
			case "wrong":
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such thing","data":{"x":1}}}`, m.ID)
			case "-32001", "-32002", "-32020", "-32022", "-32042", "-32099":
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"no","data":{"x":1}}}`, m.ID,
					m.Params.Name)
			case "reach":
				answer(reach())
			case "env":
				answer(strings.Join(os.Environ(), "\n"))
			default:
				answer(fmt.Sprint(m.Params.Name, " ", os.Getpid()))
			}
		default:
			if m.ID != nil {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
			}
		}
	}
}

// reach returns what a server can change: its own directory, a temporary one of runnel's, and one outside;
// and whether it sees a secret.
func reach() string {
	var list []string
	for _, place := range []struct{ name, dir string }{{"here", "."}, {"outside", os.Getenv("OUTSIDE")},
		{"temporary", os.Getenv("TMPDIR")}} {
		err := os.WriteFile(filepath.Join(place.dir, "file"), nil, 0o600)
		if err == nil && (place.name != "temporary" || strings.Contains(place.dir, "runnel-")) {
			list = append(list, place.name)
		}
	}
	if os.Getenv("MY_TOKEN") != "" {
		list = append(list, "token")
	}
	said := strings.Join(list, ", ")
	if strings.Contains(said, "temporary") {
		said += " in " + os.Getenv("TMPDIR")
	}
	return said
}

// behind is a registry with upstreams.
type behind struct {
	t *testing.T
	*Set
	logs *syncedBuffer
}

type syncedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newBehind(t *testing.T, upstreams ...*Server) *behind {
	t.Helper()
	b := &behind{t: t, Set: NewSet(&tools.Registry{}), logs: &syncedBuffer{}}
	b.shown.Store(true) // so that each change is told
	for _, u := range upstreams {
		u.log = zerolog.New(b.logs).With().Str("upstream", u.name).Logger()
		if err := b.Add(u); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(b.Close)
	return b
}

// fake is an upstream with some tools.
func fake(t *testing.T, name string, change func(*config.Upstream), tools ...string) *Server {
	t.Helper()
	conf := child("upstream", tools...)
	if change != nil {
		change(&conf)
	}
	u, err := New(name, conf, config.Base{Dir: t.TempDir()}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	u.times.pause = 10 * time.Millisecond
	u.times.list = watchdog
	u.times.down = watchdog
	return u
}

// names are the tools in the list.
func (b *behind) names() string {
	b.Need(b.t.Context(), nil)
	var names []string
	for _, tool := range b.Tools.Tools() {
		names = append(names, tool.Describe().Name)
	}
	return strings.Join(names, " ")
}

// await waits until the list is so.
func (b *behind) await(want string) {
	b.t.Helper()
	changed, stop := b.Tools.Changes().Watch()
	defer stop()
	late := time.After(watchdog)
	for b.names() != want {
		select {
		case <-changed:
		case <-late:
			b.t.Fatalf("the list is %q, want %q\n%s", b.names(), want, b.logs)
		}
	}
}

// call calls a tool; output is its log, stderr in angle brackets.
func (b *behind) call(name string, in *tools.Call) (result *mcp.CallToolResult, output string, err error) {
	b.t.Helper()
	b.Need(b.t.Context(), nil)
	tool := b.Tools.Lookup(name)
	if tool == nil {
		b.t.Fatalf("no tool %s: %s\n%s", name, b.names(), b.logs)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), watchdog)
	defer cancel()
	log := partials.NewLog(nil)
	in.Arguments = json.RawMessage(`{}`)
	result, err = tool.Call(ctx, in, tools.NewOutput(ctx, log, nil))
	batch, _, _ := log.ReadAt(ctx, 0, 1<<20)
	for _, c := range batch.Chunks() {
		text := string(c.Data)
		if s, ok := mcp.TextOf(c.Data); ok && c.Kind == partials.Item {
			text = s
		}
		if c.Stream == partials.Stderr {
			text = "<" + text + ">"
		}
		output += text
	}
	return result, output, err
}

func (b *behind) mustCall(name string) string {
	b.t.Helper()
	result, _, err := b.call(name, &tools.Call{})
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", name, err, b.logs)
	}
	return firstText(result)
}

func firstText(result *mcp.CallToolResult) string {
	text, _ := mcp.TextOf(result.Content[0])
	return text
}
