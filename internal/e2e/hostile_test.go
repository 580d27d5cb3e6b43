package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// maxAboveIdle is how much memory hostile input may make the program take, as a user has it, above what it
// takes when idle.
const maxAboveIdle = 64 << 20

// hostileClient is a session whose client writes bytes, not messages.
func hostileClient(t *testing.T, args ...string) *session {
	t.Helper()
	s := process(t, programCommand(t, args...))
	s.open()
	return s
}

// response is the next line that is no notification. The audit does not see it, nor what it answers.
func (s *session) response() []byte {
	s.t.Helper()
	for {
		line, err := s.take(watchdog)
		if err != nil {
			s.t.Fatalf("%v\nstderr:\n%s", err, s.stderr)
		}
		if !bytes.Contains(line, []byte(`"method":"notifications/`)) {
			return line
		}
	}
}

// goesOn returns what checks that the session goes on, and that the process has held no more than
// maxAboveIdle since.
func (s *session) goesOn(t *testing.T) (check func()) {
	t.Helper()
	before, known := peakRSS(s.pid)
	return func() {
		t.Helper()
		_, _ = io.WriteString(s.in, `{"jsonrpc":"2.0","id":"after","method":"ping"}`+"\n")
		if line := s.response(); !bytes.Contains(line, []byte(`"id":"after","result":{}`)) {
			t.Errorf("then: %s", clipLine(line))
		}
		after, _ := peakRSS(s.pid)
		t.Logf("%d MiB above idle", (after-before)>>20)
		if known && after-before > maxAboveIdle {
			t.Errorf("%d MiB above idle", (after-before)>>20)
		}
	}
}

// Hostile input, and what it gets: a clear error or safe treatment, little memory, and the session goes on.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	call := func(name, arguments, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"X","method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, name, arguments, more)
	}
	request := func(method, members string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"X","method":%q,"params":%s}`, method,
			inEra(takes, "", members))
	}
	stateless := func(name, arguments string) io.Reader {
		return strings.NewReader(request("tools/call",
			fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments)))
	}
	many := func(n int, part string) string { return strings.TrimSuffix(strings.Repeat(part+",", n), ",") }
	numbered := func(n int, part string) string {
		before, after, _ := strings.Cut(part, "%d")
		var b []byte
		for i := range n {
			b = append(strconv.AppendInt(append(b, before...), int64(i), 10), after...)
			b = append(b, ',')
		}
		return strings.TrimSuffix(string(b), ",")
	}
	type row struct {
		name  string
		input io.Reader // lines, the last newline is added
		want  string    // in the answer
	}
	for _, c := range []row{
		{"200,000 levels", strings.NewReader(call("echo",
			strings.Repeat("[", 200_000)+strings.Repeat("]", 200_000), "")), `"code":-32700`},
		{"200,000 levels of objects", strings.NewReader(strings.Repeat(`{"a":`, 200_000) + "1" +
			strings.Repeat("}", 200_000)), `"code":-32700`},
		{"256 MiB without a newline", io.LimitReader(endless('x'), 4*maxAboveIdle), `"code":-32600`},
		{"256 MiB of a string", io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"`),
			io.LimitReader(endless('x'), 4*maxAboveIdle)), `"code":-32600`},
		{"a number beyond all bounds as id",
			strings.NewReader(`{"jsonrpc":"2.0","id":1e999999,"method":"ping"}`), `"code":-32600`},
		{"a number beyond all bounds as ttl",
			strings.NewReader(call("echo", `{"text":"x"}`, `,"task":{"ttl":1e999999}`)), `"code":-32602`},
		{"a number beyond all bounds as argument", strings.NewReader(call("sleep", `{"ms":1e999999}`, "")),
			`"isError":true`},
		{"a long number", strings.NewReader(call("sleep", `{"ms":`+strings.Repeat("9", 1<<20)+`}`, "")),
			`"isError":true`},
		{"invalid UTF-8", strings.NewReader("{\"jsonrpc\":\"2.0\",\"id\":\"X\",\"method\":\"\xff\xfe\"}"),
			`"code":-32700`},
		{"half a surrogate", strings.NewReader(call("echo", `{"text":"\ud800"}`, "")), `"result":`},
		{"a zero byte", strings.NewReader("{\"jsonrpc\":\"2.0\",\"id\":\"X\",\"method\":\"a\x00b\"}"),
			`"code":-32700`},
		{"duplicate members", strings.NewReader(`{"jsonrpc":"2.0","id":"X","id":"Y","method":"ping"}`),
			`"code":-32600`},
		{"two tools", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tools/call","params":{"name":"echo","name":"forge","arguments":{}}}`), `params.name is there twice`},
		{"two tools, the first without a name",
			strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tools/call","params":{"name":"","name":"forge","arguments":{}}}`), `params.name is there twice`},
		{"two _meta", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tools/call","params":{"_meta":{},"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":1}}}`), `params._meta is there twice`},
		{"another spelling of name", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tools/call","params":{"name":"echo","Name":"forge","arguments":{}}}`), `params.Name is written`},
		{"another spelling of arguments",
			strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"argument\u017f":{"text":"y"}}}`), `is written`},
		{"a huge _meta", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"ping","params":{"_meta":{"x":"` + strings.Repeat("x", 8<<20) + `"}}}`), `"result":{}`},
		{"a huge progress token", strings.NewReader(call("echo", `{"text":"x"}`,
			`,"_meta":{"progressToken":{"a":[1]}}`)), `"text":"x"`},
		{"a path as a tool", strings.NewReader(call("../../bin/sh", `{}`, "")), `"code":-32602`},
		{"an option as an argument", strings.NewReader(call("say", `{"what":"--version; id"}`, "")),
			`--version; id`},
		{"a newline and a message as an argument",
			strings.NewReader(call("say", `{"what":"a\n{\"jsonrpc\":\"2.0\",\"id\":\"X\",\"result\":{}}"}`,
				"")), `a\n{\"jsonrpc\"`},
		{"a command that writes messages", strings.NewReader(call("forge", `{}`, "")), `forged`},
		{"control characters and ANSI in output", strings.NewReader(call("paint", `{}`, "")), `"red\u0007`},
		{"an environment variable as an argument",
			strings.NewReader(call("env", `{"PATH":"/evil","LD_PRELOAD":"/evil.so","BASH_ENV":"/evil"}`, "")),
			`not allowed`},
		{"a log outside", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"resources/read","params":{"uri":"runnel://tasks/../../../etc/passwd/log"}}`), `"code":-32002`},
		{"SQL as a task", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tasks/get","params":{"taskId":"' OR 1=1 --"}}`), `"code":-32602`},
		{"a batch of a million", strings.NewReader("[" + many(1_000_000, `{}`) + "]"), `"code":-32600`},
		{"a million arguments", strings.NewReader(call("echo", "{"+numbered(1_000_000, `"a%d":1`)+"}", "")),
			`too many values`},
		{"millions of values in an argument",
			strings.NewReader(call("echo", `{"text":[`+many(8_000_000, `1`)+`]}`, "")), `too many values`},
		{"a million members of _meta",
			strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"ping","params":{"_meta":{` +
				numbered(1_000_000, `"a%d":1`) + `}}}`), `too many values`},
		{"millions of response modes",
			strings.NewReader(call("echo", `{"text":"x"}`,
				`,"task":{"responseModes":[`+many(5_000_000, `""`)+`]}`)), `too many values`},
		{"very many values", strings.NewReader(call("echo", `{"text":[`+many(90_000, `"x"`)+`]}`, "")),
			`"isError":true`},
		{"a cursor of somebody's own",
			strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tasks/list","params":{"cursor":"-1' OR 1=1"}}`), `"code":-32602`},

		// The stateless era does these in its own way.
		{"stateless: 200,000 levels", stateless("echo",
			strings.Repeat("[", 200_000)+strings.Repeat("]", 200_000)), `"code":-32700`},
		{"stateless: 200,000 levels of capabilities",
			strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
				strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000) + `}}}`),
			`"code":-32700`},
		{"stateless: a huge version", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + strings.Repeat("9", 8<<20) + `","io.modelcontextprotocol/clientCapabilities":{}}}}`), `"code":-32022`},
		{"stateless: a huge _meta", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":"X","method":"server/discover","params":%s}`, inEra("", `"x":"`+strings.Repeat("x", 8<<20)+`"`, ""))), `"supportedVersions"`},
		{"stateless: a million extensions",
			strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":"X","method":"server/discover","params":%s}`,
				inEra(`"extensions":{`+numbered(1_000_000, `"a%d":{}`)+`}`, "", ""))), `too many values`},
		{"stateless: a number beyond all bounds", stateless("sleep", `{"ms":1e999999}`), `"isError":true`},
		{"stateless: half a surrogate", stateless("echo", `{"text":"\ud800"}`), `"content":`},
		{"stateless: duplicate arguments", stateless("echo", `{"text":"a","text":"b"}`), `"content":`},
		{"stateless: an option as an argument", stateless("say", `{"what":"--version; id"}`),
			`--version; id`},
		{"stateless: a command that writes messages", stateless("forge", `{}`), `forged`},
		{"stateless: control characters and ANSI in output", stateless("paint", `{}`), `"red\u0007`},
		{"stateless: an environment variable as an argument",
			stateless("env", `{"PATH":"/evil","LD_PRELOAD":"/evil.so"}`), `not allowed`},
		{"stateless: a log outside", strings.NewReader(request("resources/read",
			`"uri":"runnel://tasks/../../../etc/passwd/log"`)), `"code":-32602`},
		{"stateless: SQL as a task", strings.NewReader(request("tasks/get", `"taskId":"' OR 1=1 --"`)),
			`"code":-32602`},
		{"stateless: a million task ids",
			strings.NewReader(request("subscriptions/listen",
				`"notifications":{"taskIds":[`+numbered(1_000_000, `"t%d"`)+`]}`)), `too many values`},
		{"stateless: many task ids", strings.NewReader(request("subscriptions/listen",
			`"notifications":{"taskIds":[`+numbered(90_000, `"t%d"`)+`]}`)), `the limit is`},
		{"stateless: a million answers",
			strings.NewReader(request("tasks/update",
				`"taskId":"t","inputResponses":{`+numbered(500_000, `"a%d":{"action":"decline"}`)+`}`)),
			`too many values`},
		{"stateless: a state of somebody's own",
			strings.NewReader(request("tools/call",
				`"name":"echo","arguments":{},"inputResponses":{},"requestState":"`+
					strings.Repeat("x", 4<<20)+`"`)), `"code":-32602`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := hostileClient(t, append(writeConfig(t, `
tools:
  say: {command: [echo, "{{what}}"], input: {what: {type: string}}}
  forge: {shell: 'printf "\n{\"jsonrpc\":\"2.0\",\"id\":\"X\",\"result\":{\"forged\":true}}\n"'}
  paint: {shell: 'printf "\033[31mred\007\033[0m\033]0;title\007"'}
  env: {shell: 'case "$PATH$LD_PRELOAD$BASH_ENV" in *evil*) echo evil;; *) echo clean;; esac'}
`), "--selftest", "--state", t.TempDir(), "--immediate-wait", "30s")...)
			goesOn := s.goesOn(t)
			if _, err := io.Copy(s.in, io.MultiReader(c.input, strings.NewReader("\n"))); err != nil {
				t.Fatal(err)
			}
			line := s.response()
			if !bytes.Contains(line, []byte(c.want)) || bytes.Contains(line, []byte("evil\\n")) {
				t.Errorf("answer %s, want %s", clipLine(line), c.want)
			}
			goesOn() // there was one answer
		})
	}
}

// A schema or a config that explodes is refused when it is read, with what is wrong, or is of no consequence:
// its tool answers in time.
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	double := func(n int, how string) string { // each of n definitions applies the next one twice
		var defs strings.Builder
		for i := range n {
			fmt.Fprintf(&defs, `"a%d":%s,`, i,
				strings.ReplaceAll(how, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)))
		}
		return fmt.Sprintf(`{"type":"object","properties":{"x":{"$ref":"#/$defs/a0"}},"$defs":{%s"a%d":{"type":"string"}}}`, &defs, n)
	}
	object := func(x string) string { return `{"type":"object","properties":{"x":` + x + `}}` }
	nested := func(depth int) string {
		return strings.Repeat(`{"x":`, depth) + "1" +
			strings.Repeat("}", depth)
	}
	const twice = `{"type":"object","properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"anyOf":[{"properties":{"x":{"$ref":"#/$defs/n"}},"required":["y"]},{"properties":{"x":{"$ref":"#/$defs/n"}},"required":["z"]}]}}}`
	for _, c := range []struct {
		name, schema string
		refused      string // the error; "": the tool answers
		x            string // the argument; "": a long string
	}{
		{"anyOf, twice each", double(60, `{"anyOf":[NEXT,NEXT]}`), "explodes", ""},
		{"allOf, twice each", double(60, `{"allOf":[NEXT,NEXT]}`), "explodes", ""},
		{"oneOf in properties", double(60, `{"oneOf":[{"properties":{"y":NEXT}},{"properties":{"y":NEXT}}]}`),
			"explodes", ""},
		{"a few of them", double(8, `{"anyOf":[NEXT,NEXT]}`), "", ""},
		{"anyOf of thousands", object(`{"anyOf":[` +
			strings.TrimSuffix(strings.Repeat(`{"const":1},`, 5000), ",") + `]}`), "", ""},
		{"a reference to itself", `{"type":"object","properties":{"x":{"$ref":"#/properties/x"}}}`,
			"refers to itself", ""},
		{"references in a ring", `{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "refers to itself", ""},
		{"a reference to all of itself", `{"type":"object","properties":{"x":{"$ref":"#"}}}`, "", ""},
		{"a document of the network", object(`{"$ref":"http://127.0.0.1:1/schema.json"}`), "refer", ""},
		{"a document of the disk", object(`{"$ref":"file:///etc/passwd"}`), "refer", ""},
		{"deep nesting", object(strings.Repeat(`{"not":`, 2000) + "{}" + strings.Repeat("}", 2000)),
			"exceeded max depth", ""},
		{"a pattern that backtracks", object(`{"type":"string","pattern":"^(a+)+(b+)+$"}`), "", ""},
		{"a pattern that grows", object(`{"type":"string","pattern":"(((a{100}){100}){100}){100}"}`),
			"pattern", ""},
		{"recursion on two ways", twice, "", nested(60)},
		{"recursion on two ways, as deep as may be", twice, "", nested(10)},
		{"recursion on one way, deeper", `{"type":"object","properties":{"x":{"$ref":"#"}}}`, "",
			nested(9000)},
		{"recursion on one way", `{"type":"object","properties":{"x":{"$ref":"#"},"y":{"$ref":"#"}}}`, "",
			nested(500)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			flags := writeConfig(t, "tools:\n  t: {shell: 'echo well', input: "+c.schema+"}")
			if c.refused != "" {
				out, code := runToEnd(t, append([]string{"config", "check"}, flags[1])...)
				if code != exitUsage || !strings.Contains(out, c.refused) {
					t.Errorf("exit code %d: %.500s, want %q", code, out, c.refused)
				}
				return
			}
			s := hostileClient(t, flags...)
			goesOn := s.goesOn(t)
			_, _ = io.WriteString(s.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":`+cmp.Or(c.x, `"`+strings.Repeat("a", 100_000)+`"`)+`}}}`+"\n")
			if line := s.response(); !bytes.Contains(line, []byte(`"result"`)) {
				t.Errorf("answer %s", clipLine(line))
			} else {
				t.Logf("%s", clipLine(line))
			}
			goesOn()
		})
	}
	t.Run("aliases that grow", func(t *testing.T) {
		t.Parallel()
		config := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
		for i := 'b'; i < 'k'; i++ {
			config += fmt.Sprintf("%c: &%c [%s]\n", i, i,
				strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", i-1), 10), ","))
		}
		if out, code := runToEnd(t, "config", "check", writeConfig(t, config)[1]); code != exitUsage {
			t.Errorf("exit code %d: %.500s", code, out)
		}
	})
}

// runToEnd runs the program until it ends and returns what it said.
func runToEnd(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	built := programCommand(t, args...)
	cmd := exec.CommandContext(ctx, built.Path, args...)
	cmd.Env = built.Env
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// dir is where a command starts, whatever stands in it: ".." is taken from the config file's directory, a
// symlink leads where it leads when the command starts, and nothing that a caller says gets into it. What is
// not a directory fails the call and says so.
func TestHostileDirs(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `
tools:
  up: {command: [pwd], dir: sub/../..}
  link: {command: [pwd, -P], dir: link}
  beyond: {command: [pwd, -P], dir: link/..}
  dangling: {command: [pwd], dir: dangling}
  loop: {command: [pwd], dir: loop}
  file: {command: [pwd], dir: runnel.yaml}
  named: {shell: pwd, dir: "{{where}}", input: {where: {type: string}}}
  read: {command: [cat, --, "{{file}}"], dir: sub, input: {file: {type: string}}}
`)
	root, err := filepath.EvalSymlinks(filepath.Dir(config[1]))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for link, to := range map[string]string{"link": elsewhere, "dangling": "nowhere", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWitness(t, programCommand(t, config...))
	for _, c := range []struct{ tool, arguments, says string }{
		{"up", `{}`, filepath.Dir(root)},
		{"link", `{}`, elsewhere},
		{"beyond", `{}`, root}, // not beside what the link leads to
		{"dangling", `{}`, "dangling"},
		{"loop", `{}`, "loop"},
		{"file", `{}`, "runnel.yaml"},
		{"named", `{"where":"/"}`, "{{where}}"},
		{"read", `{"file":"../../nothing"}`, "../../nothing"},
		{"up", `{"dir":"/etc"}`, "not allowed"},
	} {
		var result mcp.CallToolResult
		w.must(&result, "tools/call", map[string]any{"name": c.tool,
			"arguments": json.RawMessage(c.arguments)})
		text, _ := mcp.TextOf(result.Content[0])
		if path := strings.HasPrefix(c.says, "/"); path && text != c.says+"\n" ||
			!path && (!result.IsError || !strings.Contains(text, c.says)) {
			t.Errorf("%s %s: isError %v, %q, want %q", c.tool, c.arguments, result.IsError, text, c.says)
		}
	}
	w.end()
}

// A client that asks with very many ids, as fast as it can, in both eras, costs no memory: none that grows
// with them.
func TestManyIDs(t *testing.T) {
	t.Parallel()
	const (
		many     = 150_000
		mostMore = 8 << 20 // bytes for the second half of them: less than a record of each would take
	)
	s := hostileClient(t, "--selftest", "--state", "memory")
	goesOn := s.goesOn(t)
	// A client that leaves 32 MiB of refusals unread does not get all of them.
	unread := make(chan struct{}, 100_000)
	go func() {
		out := bufio.NewWriterSize(s.in, 64<<10)
		for i := range many {
			unread <- struct{}{}
			params := fmt.Sprintf(`{"taskId":"task-%d"}`, i)
			if i%2 == 0 {
				params = inEra(takes, fmt.Sprintf(`"progressToken":"token-%d"`, i), params[1:len(params)-1])
			}
			if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"id-%d","method":"tasks/get","params":%s}`+
				"\n", i, params); err != nil {
				return
			}
		}
		_ = out.Flush()
	}()
	var half int64
	for i := range many {
		if i == many/2 {
			half, _ = peakRSS(s.pid)
		}
		if line := s.response(); !bytes.Contains(line, []byte(`"error"`)) {
			t.Fatalf("answer %s", clipLine(line))
		}
		<-unread
	}
	end, known := peakRSS(s.pid)
	t.Logf("%d MiB more for the second half", (end-half)>>20)
	if known && end-half > mostMore {
		t.Errorf("%d MiB more for the second half, want at most %d", (end-half)>>20, mostMore>>20)
	}
	goesOn()
}

// endless is a text without an end.
type endless byte

func (b endless) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte{byte(b)}, len(p))), nil
}

// A client that calls and cancels, again and again, a command that takes its time to end cannot have any
// number of them.
func TestManyDyingCommands(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
tools:
  stubborn: {shell: "trap '' TERM; echo up; sleep 600 & wait; wait; sleep 600", grace: 10m, output: lines}
`), "--state", "memory")...))
	refused := 0
	for range 200 {
		id, got := w.send("tools/call",
			map[string]any{"name": "stubborn", "arguments": map[string]any{}, "task": map[string]any{}})
		select {
		case a := <-got:
			var created mcp.CreateTaskResult
			if err := json.Unmarshal(a.Result, &created); err != nil {
				t.Fatalf("call %d: %s %+v", id, a.Result, a.Error)
			}
			task := created.Task.TaskID
			for deadline := time.Now().Add(watchdog); w.partialsOf(task) == 0 &&
				w.endOf(task) == ""; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nothing of the command")
				}
			}
			if end := w.endOf(task); end != "" {
				if !strings.Contains(end, "have not ended yet") {
					t.Fatalf("ended: %s", end)
				}
				refused++
				continue
			}
			w.must(&mcp.Task{}, "tasks/cancel", map[string]any{"taskId": task})
		case <-time.After(watchdog):
			t.Fatal("no answer")
		}
	}
	if refused < 200-128-10 { // some may be under way to their TERM
		t.Errorf("%d of 200 are refused", refused)
	}
	w.must(&struct{}{}, "ping", map[string]any{})
	w.kill()
}

// A command may write what it likes: its output costs bounded memory, whatever has to be looked for in it.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	const much = "head -c 70000000 /dev/zero" // bytes: more than maxAboveIdle
	for name, tool := range map[string]string{
		"zero bytes":                 `{shell: '` + much + `'}`,
		"one line":                   `{shell: '` + much + ` | tr "\\0" x', output: lines}`,
		"one line, for a percentage": `{shell: '` + much + ` | tr "\\0" 9', progress: '(\d+)/(\d+)'}`,
		"an escape sequence, no end": `{shell: 'printf "\033]0;"; ` + much + ` | tr "\\0" x'}`,
		"escape sequences":           `{shell: 'yes "$(printf "\033[31m")" | head -c 70000000'}`,
		"half characters":            `{shell: '` + much + ` | tr "\\0" "\\303"'}`,
		"carriage returns":           `{shell: '` + much + ` | tr "\\0" "\\r"', output: lines}`,
		"one line, beside the output": `{shell: '` + much +
			` | tr "\\0" x >&2', stderr: separate, output: lines}`,
		"one line, kept as it is": `{shell: '` + much +
			` | tr "\\0" "\\033"', ansi: keep, output: lines}`,
		// Each of which takes more than a byte if it is kept.
		"very many lines":              `{shell: 'yes "" | head -c 20000000', output: lines}`,
		"variables that never end":     `{shell: '` + much + ` > "$RUNNEL_VARIABLES"'}`,
		"a terminal without a newline": `{shell: 'head -c 20000000 /dev/zero | tr "\\0" x', pty: true}`,
	} {
		t.Run(name, func(t *testing.T) { // one after the other: each keeps a processor busy
			s := hostileClient(t, append(writeConfig(t, "tools:\n  t: "+tool), "--state", t.TempDir())...)
			goesOn := s.goesOn(t)
			_, _ = io.WriteString(s.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`+"\n")
			line := s.response()
			if !bytes.Contains(line, []byte(`"result"`)) || len(line) > maxOutgoing {
				t.Errorf("%d bytes: %s", len(line), clipLine(line))
			}
			goesOn()
		})
	}
}
