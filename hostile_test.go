package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// maxAboveIdle is how much memory hostile input may make the server take, above what it takes when idle.
const maxAboveIdle = 64 << 20

// Hostile input, and what it gets: a clear error or safe treatment, little memory, and the session goes on.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	call := func(name, arguments, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"X","method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, name, arguments, more)
	}
	for _, c := range []struct {
		name  string
		input io.Reader // lines, the last newline is added
		want  string    // in the answer
	}{
		{"200,000 levels", strings.NewReader(call("echo", strings.Repeat("[", 200_000)+strings.Repeat("]", 200_000), "")), `"code":-32700`},
		{"200,000 levels of objects", strings.NewReader(strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)), `"code":-32700`},
		{"1 GiB without a newline", io.LimitReader(endless('x'), 1<<30), `"code":-32600`},
		{"1 GiB of a string", io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"`), io.LimitReader(endless('x'), 1<<30)), `"code":-32600`},
		{"a number beyond all bounds as id", strings.NewReader(`{"jsonrpc":"2.0","id":1e999999,"method":"ping"}`), `"code":-32600`},
		{"a number beyond all bounds as ttl", strings.NewReader(call("echo", `{"text":"x"}`, `,"task":{"ttl":1e999999}`)), `"code":-32602`},
		{"a number beyond all bounds as argument", strings.NewReader(call("sleep", `{"ms":1e999999}`, "")), `"isError":true`},
		{"a long number", strings.NewReader(call("sleep", `{"ms":`+strings.Repeat("9", 1<<20)+`}`, "")), `"isError":true`},
		{"invalid UTF-8", strings.NewReader("{\"jsonrpc\":\"2.0\",\"id\":\"X\",\"method\":\"\xff\xfe\"}"), `"code":-32700`},
		{"half a surrogate", strings.NewReader(call("echo", `{"text":"\ud800"}`, "")), `"result":`},
		{"a zero byte", strings.NewReader("{\"jsonrpc\":\"2.0\",\"id\":\"X\",\"method\":\"a\x00b\"}"), `"code":-32700`},
		{"duplicate members", strings.NewReader(`{"jsonrpc":"2.0","id":"X","id":"Y","method":"ping"}`), `"code":-32600`},
		{"a huge _meta", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"ping","params":{"_meta":{"x":"` + strings.Repeat("x", 8<<20) + `"}}}`), `"result":{}`},
		{"a huge progress token", strings.NewReader(call("echo", `{"text":"x"}`, `,"_meta":{"progressToken":{"a":[1]}}`)), `"text":"x"`},
		{"a path as a tool", strings.NewReader(call("../../bin/sh", `{}`, "")), `"code":-32602`},
		{"an option as an argument", strings.NewReader(call("say", `{"what":"--version; id"}`, "")), `--version; id`},
		{"a newline and a message as an argument", strings.NewReader(call("say", `{"what":"a\n{\"jsonrpc\":\"2.0\",\"id\":\"X\",\"result\":{}}"}`, "")), `a\n{\"jsonrpc\"`},
		{"a command that writes messages", strings.NewReader(call("forge", `{}`, "")), `forged`},
		{"control characters and ANSI in output", strings.NewReader(call("paint", `{}`, "")), `"red\u0007`},
		{"an environment variable as an argument", strings.NewReader(call("env", `{"PATH":"/evil","LD_PRELOAD":"/evil.so","BASH_ENV":"/evil"}`, "")), `not allowed`},
		{"a log outside", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"resources/read","params":{"uri":"runnel://tasks/../../../etc/passwd/log"}}`), `"code":-32002`},
		{"SQL as a task", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tasks/get","params":{"taskId":"' OR 1=1 --"}}`), `"code":-32602`},
		{"a cursor of somebody's own", strings.NewReader(`{"jsonrpc":"2.0","id":"X","method":"tasks/list","params":{"cursor":"-1' OR 1=1"}}`), `"code":-32602`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newRaw(t, append(writeConfig(t, `
tools:
  say: {command: [echo, "{{what}}"], input: {what: {type: string}}}
  forge: {shell: 'printf "\n{\"jsonrpc\":\"2.0\",\"id\":\"X\",\"result\":{\"forged\":true}}\n"'}
  paint: {shell: 'printf "\033[31mred\007\033[0m\033]0;title\007"'}
  env: {shell: 'case "$PATH$LD_PRELOAD$BASH_ENV" in *evil*) echo evil;; *) echo clean;; esac'}
`), "--selftest", "--state", t.TempDir())...)
			before, ok := peakRSS(s.pid)
			if _, err := io.Copy(s.in, io.MultiReader(c.input, strings.NewReader("\n"))); err != nil {
				t.Fatal(err)
			}
			line := s.take(t)
			if !bytes.Contains(line, []byte(c.want)) || bytes.Contains(line, []byte("evil\\n")) {
				t.Errorf("answer %s, want %s", clipLine(line), c.want)
			}
			// One answer, and the session goes on.
			_, _ = io.WriteString(s.in, `{"jsonrpc":"2.0","id":"after","method":"ping"}`+"\n")
			if line := s.take(t); !bytes.Contains(line, []byte(`"id":"after","result":{}`)) {
				t.Errorf("then: %s", clipLine(line))
			}
			if after, _ := peakRSS(s.pid); ok && after-before > maxAboveIdle {
				t.Errorf("%d MiB above idle", (after-before)>>20)
			}
		})
	}
}

// A client that asks with ever new ids, as fast as it can, costs no memory.
func TestManyIDs(t *testing.T) {
	t.Parallel()
	const many = 100_000
	s := newRaw(t, "--selftest", "--state", "memory")
	before, ok := peakRSS(s.pid)
	go func() {
		for i := range many {
			if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":"id-%d","method":"tasks/get","params":{"taskId":"task-%d"}}`+"\n", i, i); err != nil {
				return
			}
		}
	}()
	for range many {
		if line := s.take(t); !bytes.Contains(line, []byte(`"error"`)) {
			t.Fatalf("answer %s", clipLine(line))
		}
	}
	if after, _ := peakRSS(s.pid); ok && after-before > maxAboveIdle {
		t.Errorf("%d MiB above idle", (after-before)>>20)
	}
}

type endless byte

func (b endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}
