//go:build unix

package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/processtest"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/config"
)

// A server that dies is reported with its exit code and its last words, and started again: the next call
// works.
func TestUpstreamDies(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", nil, "die", "pid"))
	first := b.mustCall("pid")
	_, _, err := b.call("die", &tools.Call{})
	if err == nil || err.Error() != "upstream fake: the server ended with exit status 3; it wrote last:\nfirst words\nlast words" {
		t.Errorf("got %v", err)
	}
	if second := b.mustCall("pid"); second == first {
		t.Errorf("the same process as before: %s", second)
	}
}

// The policy says whether a server is started again. One that is not takes its tools out of the list.
func TestUpstreamRestarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy config.RestartPolicy
		end    string
		again  bool
	}{
		{"on-failure", "die", true}, {"on-failure", "leave", false}, {"always", "die", true},
		{"always", "leave", true}, {"never", "die", false}, {"never", "leave", false},
	} {
		t.Run(string(c.policy)+" "+c.end, func(t *testing.T) {
			t.Parallel()
			b := newBehind(t, fake(t, "fake", func(u *config.Upstream) { u.Restart = c.policy },
				c.end, "pid"))
			b.mustCall("pid")
			if _, _, err := b.call(c.end, &tools.Call{}); err == nil {
				t.Error("no error")
			}
			if c.again {
				b.mustCall("pid")
				return
			}
			b.await("")
			_, err := b.servers[0].connected(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(),
				"it is not started again (restart: "+string(c.policy)+")") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A server that cannot be started is tried again after pauses that grow up to a limit; nothing else suffers.
func TestUpstreamBackoff(t *testing.T) {
	t.Parallel()
	bad := fake(t, "bad", func(u *config.Upstream) {
		u.Command = []string{"sh", "-c",
			"echo no licence >&2; exit 7"}
	})
	bad.times.longest = 40 * time.Millisecond
	b := newBehind(t, bad, fake(t, "good", nil, "pid"))
	if got := b.names(); got != "pid" {
		t.Errorf("the list is %q", got)
	}
	pauses := regexp.MustCompile(`"pause":"(\w+)"`)
	late := time.Now().Add(watchdog)
	for len(pauses.FindAllString(b.logs.String(), -1)) < 4 && time.Now().Before(late) {
		time.Sleep(time.Millisecond)
	}
	var got []string
	for _, m := range pauses.FindAllStringSubmatch(b.logs.String(), 4) {
		got = append(got, m[1])
	}
	if want := "10ms 20ms 40ms 40ms"; strings.Join(got, " ") != want {
		t.Errorf("pauses %q, want %s", got, want)
	}
	// Once, though it is started twice.
	if !strings.Contains(b.logs.String(),
		`cannot start: initialize: the server ended with exit status 7; it wrote last:\nno licence",`) {
		t.Errorf("the log does not tell why:\n%s", b.logs)
	}
	missing := fake(t, "missing", func(u *config.Upstream) { u.Command = []string{"no-such-program"} })
	missing.times.down = time.Millisecond
	newBehind(t, missing).Need(t.Context(), nil)
	if _, err := missing.connected(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "upstream missing: cannot start no-such-program: not found in PATH=") {
		t.Errorf("got %v", err)
	}
}

// A server that computes for long answers pings: it is slow, and waited for. One that answers nothing hangs:
// its call fails, and it is started again.
func TestUpstreamHangs(t *testing.T) {
	t.Parallel()
	impatient := func(u *Server) *Server {
		u.times.pingAfter, u.hungAfter = 50*time.Millisecond, 4*time.Second
		return u
	}
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		b := newBehind(t, impatient(fake(t, "fake", nil, "slow")))
		if got := b.mustCall("slow"); got != "slow" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("hung", func(t *testing.T) {
		t.Parallel()
		b := newBehind(t, impatient(fake(t, "fake", nil, "hang", "pid")))
		first := b.mustCall("pid")
		began := time.Now()
		_, _, err := b.call("hang", &tools.Call{})
		if !errors.Is(err, errHung) ||
			!strings.Contains(err.Error(),
				"upstream fake: the server hangs: while a call was silent it left a ping unanswered for 4s") {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if second := b.mustCall("pid"); second == first {
			t.Errorf("the same process as before: %s", second)
		}
	})
}

// A server that hangs is taken out before its calls end: who calls again at once gets the next one.
func TestHungUpstreamIsTakenOutFirst(t *testing.T) {
	t.Parallel()
	u := fake(t, "fake", nil, "hang")
	u.times.pingAfter, u.hungAfter = 50*time.Millisecond, 50*time.Millisecond
	b := newBehind(t, u)
	b.Need(t.Context(), nil)
	l, err := u.connected(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, _, err := b.call("hang", &tools.Call{})
		ended <- err
	}()
	for late := time.Now().Add(watchdog); l.silence.owed.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the server is not called")
		}
	}
	u.mu.Lock() // so that it cannot be taken out
	<-l.client.Context().Done()
	select {
	case <-l.ended.Done():
		t.Error("the call ends while others still get this server")
	case <-time.After(50 * time.Millisecond):
	}
	u.mu.Unlock()
	if err := <-ended; !errors.Is(err, errHung) {
		t.Errorf("the call ended with %v", err)
	}
}

// A server's messages while it works are output: progress messages as text, log lines as what a command
// writes to stderr.
func TestUpstreamTalks(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", nil, "talk", "chunks"))
	result, output, err := b.call("talk", &tools.Call{})
	if err != nil || firstText(result) != "done" {
		t.Errorf("%+v, %v", result, err)
	}
	if want := "step 1\n<info: l: {\"n\":1}\n>step 2\n<info: l: {\"n\":2}\n>step 3\n<info: l: {\"n\":3}\n>"; output != want {
		t.Errorf("output %q, want %q", output, want)
	}
	// A result whose content was streamed (PR #383) is whole here.
	in := &tools.Call{}
	result, output, err = b.call("chunks", in)
	if err != nil || firstText(result) != "chunk 0\nchunk 1\nchunk 2\n" || output != firstText(result) ||
		string(result.StructuredContent) != `{"n":1}` || in.Said.Rest == nil || len(*in.Said.Rest) > 0 {
		t.Errorf("%+v, %v, output %q", result, err, output)
	}
}

// A server's progress reaches the client as the server sent it: number and message together, the last one,
// too.
func TestUpstreamProgress(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", nil, "talk"))
	b.Need(t.Context(), nil)
	progress := partials.NewProgress([]byte(`{"jsonrpc":"2.0"`), json.RawMessage(`"t"`), "", true)
	log := partials.NewLog(nil)
	var got []byte
	out := tools.NewOutput(t.Context(), log,
		func(done, total float64, message string) { got = progress.Report(got, done, total, message) })
	if _, err := b.Tools.Lookup("talk").
		Call(t.Context(), &tools.Call{Arguments: json.RawMessage(`{}`)}, out); err != nil {
		t.Fatal(err)
	}
	batch, _, _ := log.ReadAt(t.Context(), 0, 1<<20)
	for _, c := range batch.Chunks() {
		if c.Stream == partials.Stdout {
			got = progress.Encode(got, partials.NewBatch(0, c))
		}
	}
	want := ""
	for i := 1; i <= 3; i++ {
		want += fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":%d,"total":3,"message":"step %d"}}`+"\n", i, i)
	}
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestUpstreamAsks(t *testing.T) {
	t.Parallel()
	set := NewSet(&tools.Registry{})
	if err := set.Add(fake(t, "fake", nil, "ask", "askAtLength")); err != nil {
		t.Fatal(err)
	}
	c := serveSet(t, set)
	t.Cleanup(set.Close)
	c.ask(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}`)
	c.send(1, "tools/call", `{"name":"ask"}`)
	question := c.await(`"method":"elicitation/create"`)
	if !strings.Contains(question, `"Who?"`) || !strings.Contains(question, `"name"`) {
		t.Errorf("question %s", question)
	}
	c.answer(question, `{"action":"accept","content":{"name":"Ada"}}`)
	if got := c.await(`"id":1,`); !strings.Contains(got,
		`got {\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}`) {
		t.Errorf("the answer becomes %s", got)
	}
	c.send(2, "tools/call", `{"name":"askAtLength"}`)
	c.answer(c.await(`"method":"elicitation/create"`), `{"action":"decline"}`)
	if got := c.await(`"id":2,`); !strings.Contains(got, `got {\"action\":\"decline\"}`) {
		t.Errorf("the answer to a long question becomes %.300s", got)
	}
	b := newBehind(t, fake(t, "other", nil, "ask"))
	result, _, err := b.call("ask", &tools.Call{})
	if err != nil || !strings.Contains(firstText(result), "the client does not support it") {
		t.Errorf("%+v, %v", result, err)
	}
}

// A question that names no task is put in the newest call, but not where it may be another client's.
func TestWhoseQuestionIsIt(t *testing.T) {
	callers := make(chan *rpc.Caller, 2)
	srv := rpc.NewServer(nil)
	srv.Handle(rpc.Stateless, "hello", func(_ context.Context, c *rpc.Caller,
		_ json.RawMessage) (any, error) {
		callers <- c
		return nil, nil
	})
	const hello = `{"jsonrpc":"2.0","id":%[1]d,"sessionId":%[1]d,"method":"hello","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	if err := srv.Serve(t.Context(), strings.NewReader(fmt.Sprintf(hello, 1)+fmt.Sprintf(hello, 2)),
		io.Discard); err != nil {
		t.Fatal(err)
	}
	one, other := <-callers, <-callers
	for _, test := range []struct {
		callers   []*rpc.Caller
		asked     int // which call, from 1
		complaint string
	}{
		{nil, 0, ""},
		{[]*rpc.Caller{one}, 1, ""},
		{[]*rpc.Caller{one, one}, 2, ""},
		{[]*rpc.Caller{one, other}, 0, "the question names no task, and 2 calls of several clients"},
		{[]*rpc.Caller{one, other, one}, 0, "the question names no task, and 3 calls of several clients"},
	} {
		l := &link{}
		for _, caller := range test.callers {
			l.calls = append(l.calls, &call{caller: caller})
		}
		c, err := l.asks()
		if asked := slices.Index(l.calls, c) + 1; asked != test.asked ||
			(err == nil) != (test.complaint == "") ||
			err != nil && !strings.Contains(err.Error(), test.complaint) {
			t.Errorf("of %d calls %d is asked, %v; want %d, %q", len(test.callers), asked, err, test.asked,
				test.complaint)
		}
	}
}

// Messages that make no sense are passed over.
func TestUpstreamTalksRubbish(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", nil, "rubbish"))
	if got := b.mustCall("rubbish"); got != "fine" && !strings.HasPrefix(got, "got ") {
		t.Errorf("got %q", got)
	}
}

// Content that is not an object is left out of the output and told of; a result with it is none. SEP-1905
// spells an item with a member of its own, and a null would end the process there.
func TestUpstreamContentIsObjects(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", nil, "no-objects", "no-result"))
	result, output, err := b.call("no-objects", &tools.Call{})
	if err != nil || firstText(result) != "good" || output != "good" {
		t.Errorf("got %+v, %v, output %q", result, err, output)
	}
	if logs := b.logs.String(); !strings.Contains(logs, `"count":4`) ||
		!strings.Contains(logs, "it is left out") {
		t.Errorf("the log does not tell of it:\n%s", logs)
	}
	if _, _, err = b.call("no-result", &tools.Call{}); err == nil ||
		err.Error() != "upstream fake: its result cannot be read: content[1] is not an object" {
		t.Errorf("got %v", err)
	}
}

// An error of the server's stays what it is.
func TestUpstreamRefuses(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", nil, "wrong"))
	_, _, err := b.call("wrong", &tools.Call{})
	var wire *rpc.Error
	if !errors.As(err, &wire) || wire.Code != mcp.CodeInvalidParams || wire.Message != "no such thing" ||
		wire.Data == nil {
		t.Errorf("got %+v", err)
	}
}

// Every error is passed with its code and its data.
func TestUpstreamCodes(t *testing.T) {
	t.Parallel()
	codes := []string{"-32001", "-32002", "-32020", "-32022", "-32042", "-32099"}
	b := newBehind(t, fake(t, "fake", nil, codes...))
	for _, code := range slices.Concat(codes, codes) {
		_, _, err := b.call(code, &tools.Call{})
		var wire *rpc.Error
		if !errors.As(err, &wire) || fmt.Sprint(wire.Code) != code || wire.Message != "no" ||
			string(rawjson.Encode(wire.Data)) != `{"x":1}` {
			t.Errorf("%s comes as %+v", code, err)
		}
	}
}

// The list follows the server's.
func TestUpstreamListChanges(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", func(u *config.Upstream) { u.Prefix = "f." }, "grow"))
	b.await("f.grow")
	b.mustCall("f.grow")
	b.await("f.grow f.grown")
}

// A tool's description is passed on unchanged, but for its name and how it can be called.
func TestUpstreamDescribes(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", func(u *config.Upstream) { u.Prefix = "f_" }, "pid"))
	b.Need(t.Context(), nil)
	got, _ := json.Marshal(b.Tools.Lookup("f_pid").Describe())
	want := `{"name":"f_pid","title":"T","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":false},` +
		`"execution":{"taskSupport":"optional","streamPartial":true},"icons":[{"src":"data:,"}],"_meta":{"x":1}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Tools that clients could not take, that config does not want, or whose names are taken are left out, each
// with a line in the log.
func TestUpstreamLeavesOut(t *testing.T) {
	t.Parallel()
	odd := fake(t, "a", func(u *config.Upstream) {
		u.Env["ODD"] = "1"
		u.Allow = []string{"x", "two words", "text", "none", "missing", "odd-output", "odd-icons",
			"odd-meta", "nulls"}
		u.Prefix = "p."
	}, "x", "y")
	b := newBehind(t, fake(t, "c", nil, "p.x", "z", "own"), odd,
		fake(t, "b", func(u *config.Upstream) { u.Deny = []string{"secret"} }, "z", "secret", "w"))
	own := tools.Func("own", "", func(context.Context, struct{}, *tools.Output) (*mcp.CallToolResult, error) {
		return mcp.Result("mine"), nil
	})
	if err := b.Tools.Add(own); err != nil {
		t.Fatal(err)
	}
	b.await("own p.none p.nulls p.two_words p.x w z")
	if got, _, err := b.call("p.two_words", &tools.Call{}); err != nil ||
		!strings.HasPrefix(firstText(got), "two words ") {
		t.Errorf("the server is asked for %v, %v", got, err)
	}
	if nulls, _ := json.Marshal(b.Tools.Lookup("p.nulls").Describe()); bytes.Contains(nulls,
		[]byte("null,")) || bytes.Contains(nulls, []byte("null}")) {
		t.Errorf("the list has %s", nulls)
	}
	if got := b.mustCall("own"); got != "mine" {
		t.Errorf("own says %q", got)
	}
	if from := b.Tools.Lookup("z").(*servedTool).u.name; from != "b" {
		t.Errorf("z is of %s", from)
	}
	for _, want := range []string{
		`"tool":"text","message":"a tool of an upstream is left out"`,
		`"tool":"odd-output","message":"a tool of an upstream is left out"`,
		`"tool":"odd-icons","message":"a tool of an upstream is left out"`,
		`"tool":"odd-meta","message":"a tool of an upstream is left out"`,
		`"tool":"missing","message":"allow or deny name a tool that the upstream does not have"`,
		`"upstream":"a","entry":"{\"name\":5}","message":"a tool of an upstream is left out: it cannot be read"`, `"entry":"7"`,
		`"upstream":"c","tool":"p.x","message":"a tool of an upstream is left out: there is another one of its name`, `"upstream":"c","tool":"z"`, `"upstream":"c","tool":"own"`,
	} {
		if !strings.Contains(b.logs.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, b.logs)
		}
	}
}

// A wrapped server's tools are listed as they are, whatever their names are and whether their schemas have a
// type, and are called by these names.
func TestWrappedToolsAreListedAsTheyAre(t *testing.T) {
	t.Parallel()
	names := []string{"files/read", "git:log", "plain", "two words", "größe"}
	b := newBehind(t, fake(t, WrappedName, func(u *config.Upstream) { u.Env["ODD"] = "1" }, names...))
	b.Need(t.Context(), nil)
	for range 2 {
		for _, name := range names {
			if got := b.mustCall(name); !strings.HasPrefix(got, name+" ") {
				t.Errorf("%s: the server is asked for %q", name, got)
			}
		}
	}
	for name, schema := range map[string]string{"none": `{}`, "text": `{"type":"string"}`} {
		if got := string(b.Tools.Lookup(name).Describe().InputSchema); got != schema {
			t.Errorf("%s has the schema %s", name, got)
		}
	}
}

// A name that is in no list may be that of a tool whose server is down, and is not blamed on the caller alone.
func TestWhyAToolIsMissing(t *testing.T) {
	t.Parallel()
	gone := fake(t, "gone", func(u *config.Upstream) { u.Command = []string{"no-such-program"} })
	other := fake(t, "other", func(u *config.Upstream) { u.Command, u.Prefix = []string{"no-such-one"}, "z_" })
	b := newBehind(t, gone, other, fake(t, "here", nil, "pid"))
	for range 2 {
		b.NeedTool(t.Context(), nil, "pids")
		if got := b.WhyMissing("pids"); !strings.HasPrefix(got, "upstream gone: cannot start no-such-program: ") ||
			strings.Contains(got, "no-such-one") || strings.Contains(got, "here") || len(got) > maxWhyMissing {
			t.Error(got)
		}
	}
}

// A list waits for one server among others that is slow to start, but not for ever; when it is there the list
// changes. A call waits for it.
func TestUpstreamStartsSlowly(t *testing.T) {
	t.Parallel()
	gate := processtest.NewGate(t)
	slow := fake(t, "slow", func(u *config.Upstream) { u.Env["GATE"] = gate }, "pid")
	slow.times.list, slow.times.down = 10*time.Millisecond, 10*time.Millisecond
	b := newBehind(t, slow)
	if got := b.names(); got != "" {
		t.Errorf("the list is %q", got)
	}
	if want := `"upstream":"slow","after":"10ms","message":"upstream has not answered initialize and tools/list yet: its tools are missing until it does"`; !strings.Contains(b.logs.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, b.logs)
	}
	called := make(chan error)
	for range 2 {
		go func() { // also one by a name that has been in no list yet
			b.NeedTool(t.Context(), nil, "pid")
			if b.Tools.Lookup("pid") == nil {
				called <- errors.New("unknown tool")
				return
			}
			_, err := slow.connected(t.Context(), nil)
			called <- err
		}()
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	b.await("pid")
	for range 2 {
		if err := <-called; err != nil {
			t.Errorf("a call gets %v", err)
		}
	}
}

// No server is started before it is needed, and none that the config does not change is started again.
func TestUpstreamsAreReplaced(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	count := func(u *config.Upstream) { u.Env["STARTS"] = starts }
	dir := t.TempDir()
	same := func(u *Server) *Server {
		u.dir, u.env = dir, nil
		u.env = append(os.Environ(), "STARTS="+starts, childVar+"=upstream")
		return u
	}
	b := newBehind(t, same(fake(t, "kept", count, "pid")), fake(t, "gone", nil, "die", "leave"))
	if _, err := os.Stat(starts); err == nil {
		t.Error("started before it was needed")
	}
	b.await("die leave pid")
	first := b.mustCall("pid")
	gone := b.servers[0]

	next := NewSet(&tools.Registry{})
	for _, u := range []*Server{same(fake(t, "kept", count, "pid")), fake(t, "new", nil, "env")} {
		if err := next.Add(u); err != nil {
			t.Fatal(err)
		}
	}
	b.Replace(next)
	b.await("env pid")
	if second := b.mustCall("pid"); second != first {
		t.Errorf("%s, then %s", first, second)
	}
	if n, _ := os.ReadFile(starts); len(n) != 1 {
		t.Errorf("%d starts", len(n))
	}
	select {
	case <-gone.ctx.Done():
	case <-time.After(watchdog):
		t.Error("what was taken out goes on")
	}
	if _, err := b.enter(t.Context(), gone, func(*link) (bool, error) { return true, nil }); err == nil {
		t.Error("what was taken out can be called")
	}
}

// A server inherits what a command inherits: the environment of runnel, and what config adds.
func TestUpstreamEnvironment(t *testing.T) {
	t.Parallel()
	b := newBehind(t, fake(t, "fake", func(u *config.Upstream) { u.Env["ADDED"] = "yes" }, "env"))
	got := "\n" + b.mustCall("env") + "\n"
	for _, want := range []string{"\nADDED=yes\n", "\nPATH=" + os.Getenv("PATH") + "\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// A runnel that is its own upstream does not start itself for ever.
func TestUpstreamOfItself(t *testing.T) {
	t.Parallel()
	_, err := New("self", config.Upstream{Command: []string{"runnel"}},
		config.Base{Vars: []string{"RUNNEL_HOPS=8"}}, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "there are 8 runnels before this one") {
		t.Errorf("got %v", err)
	}
	b := newBehind(t, fake(t, "fake", nil, "env"))
	if got := "\n" + b.mustCall("env") + "\n"; !strings.Contains(got, "\nRUNNEL_HOPS=1\n") {
		t.Errorf("the hops are not told: %s", got)
	}
	told := make(chan string, 10)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get("Runnel-Hops")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer far.Close()
	u, err := New("far", config.Upstream{URL: far.URL}, config.Base{Vars: []string{"RUNNEL_HOPS=1"}},
		zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	set := NewSet(&tools.Registry{})
	if err := errors.Join(set.Add(u), set.Came(5), set.Came(2)); err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if _, err := u.Probe(t.Context(), watchdog); err == nil || <-told != "6" {
		t.Errorf("the hops are not told: %v", err)
	}
	if err := set.Came(9); err == nil ||
		!strings.Contains(err.Error(), "there are 9 runnels before this one") {
		t.Errorf("got %v", err)
	}
}

// When the registry is closed nothing is left of a server, nor of what it started.
func TestUpstreamLeavesNothing(t *testing.T) {
	t.Parallel()
	line := processtest.NewLifeline(t)
	script := `exec 9>"$LINE"; sleep 600 & exec "$PROGRAM" pid`
	u := fake(t, "fake", func(u *config.Upstream) {
		u.Env["LINE"], u.Env["PROGRAM"] = line.Path, u.Command[0]
		u.Command = []string{"sh", "-c", script}
	})
	b := newBehind(t, u)
	b.mustCall("pid")
	b.Close()
	line.Gone()
}

// A server that is stopped in the pause before a start is not started any more.
func TestUpstreamIsStoppedInAPause(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	bad := fake(t, "bad", func(u *config.Upstream) {
		u.Command, u.Env["STARTS"] = []string{"sh", "-c", `printf x >> "$STARTS"; exit 1`}, starts
	})
	bad.times.pause = time.Hour
	b := newBehind(t, bad)
	b.Need(t.Context(), nil)
	before, err := os.ReadFile(starts)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if after, _ := os.ReadFile(starts); len(after) != len(before) {
		t.Errorf("%d starts, then %d", len(before), len(after))
	}
}
