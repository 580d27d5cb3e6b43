package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"runnel/internal/cli"
)

// runClient runs a command of the client with some input.
func runClient(t *testing.T, input string, args ...string) outcome {
	t.Helper()
	var stdout, stderr syncBuffer
	code := cli.Run(t.Context(), args, append(environ(t), noConfig), strings.NewReader(input),
		&stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// itself is the command line of the program as a server, behind "--".
func itself(t *testing.T, flags ...string) []string {
	return append([]string{"--", "env", noSleepAtExit, racedProgram(t), "--log-level=warn"}, flags...)
}

// A call that its --timeout ended is found later with the reason, in both eras.
func TestTimeoutIsTold(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"2025-11-25", "2026-07-28"} {
		state := filepath.Join(t.TempDir(), "state")
		runClient(t, "", "call", "sleep", "ms=60000", "--timeout=5s", "--protocol="+protocol,
			"--immediate-wait=1ms", "--selftest", "--state", state)
		if got := runClient(t, "", "tasks", "list", "--state", state); !strings.Contains(got.stdout,
			"cancelled by the client: timed out after 5s") {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
}

// Whatever the version and the way of the call, the same comes out: in process and from a server of its own.
func TestCallInEveryDialect(t *testing.T) {
	t.Parallel()
	chunks := ""
	for n := range 5 {
		chunks += fmt.Sprintf("chunk %06d xx\n", n)
	}
	want := chunks + "streamed 5 chunks"
	for _, flags := range []string{
		"--protocol=2024-11-05", "--protocol=2025-03-26", "--protocol=2025-06-18",
		"--protocol=2025-06-18 --no-task",
		"", "--no-task", "--task", "--mode=task", "--mode=streaming", "--mode=immediate",
		"--protocol=2026-07-28", "--protocol=2026-07-28 --no-task",
	} {
		for _, remote := range []bool{false, true} {
			args := append([]string{"call", "stream", "count=5", "bytes=16", "--summary"},
				strings.Fields(flags)...)
			if remote {
				args = append(args, itself(t, "--selftest", "--pace=0", "--immediate-wait=0")...)
			} else {
				args = append(args, "--selftest", "--pace=0", "--immediate-wait=1ms")
			}
			got := runClient(t, "", args...)
			if got.code != exitFine || got.stdout != want &&
				(flags != "--mode=immediate" || got.stdout != "streamed 5 chunks") ||
				!strings.Contains(got.stderr, "gaps 0") || !strings.Contains(got.stderr, "completed after") {
				t.Errorf("%q: exit code %d\n%q\n%s", args, got.code, got.stdout, got.stderr)
			}
		}
	}
}

// A slow reader gets everything in every version, even when the task has ended long ago.
func TestCallWithSlowReader(t *testing.T) {
	t.Parallel()
	const size = 12 << 20
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(builtProgram(t), "call", "big", "--protocol", version, "--config",
				"/dev/null", "--state", filepath.Join(t.TempDir(), "state"),
				"--tool", fmt.Sprintf("big=sh -c 'yes 0123456789abcdef | head -c %d'", size))
			cmd.Env = environ(t)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr syncBuffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			got := int64(0)
			// Some 3 MiB/s: longer than the task is polled.
			for buf := make([]byte, 64<<10); err == nil; time.Sleep(20 * time.Millisecond) {
				var n int
				n, err = out.Read(buf)
				got += int64(n)
			}
			if err := cmd.Wait(); err != nil || got != size {
				t.Errorf("%d bytes of %d have come (%v)\n%s", got, size, err, stderr.String())
			}
		})
	}
}

// A call's stdout, stderr and exit code.
func TestCall(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "binary")
	if err := os.WriteFile(binary, []byte("a\xffb"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "runnel.yaml")
	err := os.WriteFile(config, []byte(`
tools:
  fails:
    shell: "echo out; echo bad >&2; exit 7"
    stderr: separate
  long:
    shell: seq 100000
  half:
    shell: printf half; exit 3
  silent: {command: ["true"]}
  bar: {command: [printf, '1%%\r2%%\r3%%\n']}
  bars:
    shell: "echo [1/4] one; echo [4/4] four"
    progress: '\[(\d+)/(\d+)\]'
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		input  string
		code   int
		stdout string // a regular expression of all of it
		stderr string
	}{
		{args: "call echo text=hello --selftest", stdout: "hello"},
		{args: "call echo text=@" + file + " --selftest", stdout: "from a file\n"},
		{args: "call echo text=\xff --selftest", code: 2,
			stderr: "^the arguments are not UTF-8, as JSON must be; base64"},
		{args: "call echo \xff=hello --selftest", code: 2, stderr: `^the arguments are not UTF-8`},
		{args: "call echo --input {\"text\":\"\xff\"} --selftest", code: 2,
			stderr: "^the arguments are not UTF-8"},
		{args: "call echo text=@" + binary + " --selftest", code: 2,
			stderr: "^text: " + binary + " is not UTF-8, as JSON must be; base64"},
		{args: "call echo text=@@home --selftest", stdout: "@home"},
		{args: `call --selftest echo --input {"text":"hello"}`, stdout: "hello"},
		{args: `call --selftest echo --input {"text":"hello"} text=bye`, stdout: "bye"},
		{args: "call echo text=hello --selftest --output=json",
			stdout: `\{"content":\[\{"type":"text","text":"hello"\}\].*\}\n`},
		{args: "call stream count=2 --selftest --output=ndjson",
			stdout: `(?s)(\{"jsonrpc":"2\.0",[^\n]*\}\n)*.*"notifications/tasks/partial".*"streamed 2 chunks".*\n`},
		{args: "call blob bytes=20 --selftest", stdout: `\[image image/png 20 bytes\]\n`},

		{args: "call fails --config " + config, code: 7, stdout: `out\n`,
			stderr: `^bad\nexit code 7 after [0-9.]+ s\n$`},
		{args: "call fails --no-task --config " + config, code: 7, stdout: `out\n`,
			stderr: `^bad\nexit code 7 after [0-9.]+ s\n$`},
		{args: "call fails --mode streaming --config " + config, code: 7, stdout: `out\n`,
			stderr: `^bad\nexit code 7 after [0-9.]+ s\n$`},
		{args: "call fails --protocol=2026-07-28 --config " + config, code: 7, stdout: `out\n`,
			stderr: `^bad\nexit code 7 after [0-9.]+ s\n$`},
		{args: "call half --no-task -o json --config " + config, code: 3,
			stdout: `\{"content":\[\{"type":"text","text":"half\\nexit code 3 .*\n`},
		{args: "call half --config " + config, code: 3, stdout: `half`,
			stderr: `exit code 3 after [0-9.]+ s\n$`},
		{args: "call silent --config " + config, stderr: `^no output, exit code 0\n$`},
		{args: "call silent --no-task --config " + config, stderr: `^no output, exit code 0\n$`},
		{args: "call silent --mode streaming --config " + config, stderr: `^no output, exit code 0\n$`},
		{args: "call silent --protocol=2026-07-28 --config " + config, stderr: `^no output, exit code 0\n$`},
		{args: "call bar --config " + config, stdout: `1%\r2%\r3%\n`},
		{args: "call bar --no-task --config " + config, stdout: `(1%\r2%\r)?3%\n`},
		{args: "call long --summary --config " + config, stdout: `(?s)1\n2\n.*99999\n100000\n`,
			stderr: `588895 bytes, the result shows its head and tail; exit code 0, completed after \d+ ms\n`},
		{args: "call bars --progress=always --config " + config, stdout: "(?s).*four\n",
			stderr: `(?s).*100%`},
		{args: "call fail message=why afterChunks=1 --selftest", code: 1, stdout: `chunk 000000 x*\n`,
			stderr: `^why\n$`},
		{args: "call fail message=why protocol=true --selftest", code: 1,
			stderr: `^runnel: fail: why \(code -32603\)\n$`},
		{args: "call sleep ms=60000 --timeout=50ms --selftest", code: 124,
			stderr: `^runnel: (\S+: )?timed out after 50ms\n$`},
		{args: "call sleep --timeout=50ms -- sleep 60", code: 124,
			stderr: `^runnel: sleep: server/discover: timed out after 50ms\n$`},
		{args: "call sleep ms=60000 --timeout=50ms --no-task --selftest", code: 124,
			stderr: `^runnel: (\S+: )?timed out after 50ms\n$`},
		{args: "call sleep ms=60000 --timeout=200ms --protocol=2026-07-28 --selftest --immediate-wait=1ms",
			code: 124, stderr: `^runnel: timed out after 200ms\n$`},

		{args: "call ask message=who? --yes --selftest", stdout: "accepted: yes"},
		{args: "call ask message=who? --yes --protocol=2026-07-28 --selftest", stdout: "accepted: yes"},
		{args: "call ask message=who? --yes --protocol=2026-07-28 --no-task --selftest",
			stdout: "accepted: yes"},
		{args: "call ask message=who? --ask --selftest", input: "me\n", stdout: "accepted: me",
			stderr: `\? who\?\n  answer.*: $`},
		{args: "call ask message=who? --ask --protocol=2026-07-28 --immediate-wait=0 delayMs=50 --selftest",
			input: "me\n", stdout: "accepted: me", stderr: `\? who\?\n`},
		{args: "call ask message=who? --ask --selftest", input: "\n", stdout: "declined", stderr: "decline"},
		{args: "call ask message=who? --ask --selftest", input: "", stdout: "cancelled", stderr: "who"},
		{args: "call ask message=who? --selftest", code: 1,
			stderr: `^this client cannot ask .*\nrunnel: .*--yes confirms`},
		{args: "call ask message=who? --protocol=2026-07-28 --no-task --selftest", code: 1,
			stderr: `^runnel: .*--yes confirms.*\nrunnel: .*elicitation`},

		{args: "call", code: 2, stderr: `name a tool; runnel tools lists them\nsee runnel call --help\n$`},
		{args: "call echo --task --no-task", code: 2, stderr: "does not go with"},
		{args: "call echo --mode=fast", code: 2,
			stderr: `^--mode: "fast" is unknown \(allowed: immediate, streaming, task\)`},
		{args: "call echo --", code: 2, stderr: "no server after --"},
		{args: "call echo --selftest -- true", code: 2, stderr: "--selftest says what runnel itself serves"},
		{args: "call sleep ms=x --selftest", code: 2,
			stderr: `^ms: "x" is not of type integer\nthe arguments of sleep are: ms=INTEGER\n$`},
		{args: "call sleep ms=1 ms=2 --selftest", code: 2, stderr: "ms: given twice"},
		{args: "call sleep --selftest --input [1]", code: 2, stderr: "is not a JSON object"},
		{args: "call sleep ms --selftest", code: 2, stderr: `"ms" is not an argument`},
		{args: "call sleep --selftest", code: 2,
			stderr: `^invalid arguments: .*"ms".*\nthe arguments of sleep are: ms=INTEGER\n$`},
		{args: "call sleep ms=1 y=1 --selftest", code: 2,
			stderr: `^invalid arguments: .*y.*\nthe arguments of sleep are: ms=INTEGER\n$`},
		{args: "call slep --selftest", code: 1,
			stderr: `there is no tool "slep" \(did you mean sleep\?\); there are: .*sleep`},
		{args: "call x", code: 1, stderr: `^runnel: there is no tool "x", nor any other: name one with --tool, or let runnel init propose a runnel.yaml\n$`},
		{args: "call x -- /no/such/server", code: 1, stderr: "^runnel: /no/such/server: cannot start"},
		{args: "call x -- true", code: 1, stderr: "^runnel: true: initialize: .*closed"},

		{args: "tools --tool hello=echo\x00{{who}}", stdout: `hello  Run echo \{\{who\}\}\n`},
		{args: "tools --tool now=date", stdout: `now +Run date\n`},
		{args: "tools --selftest --output=json", stdout: `(?s)\{"tools":\[.*\{"name":"stream",.*\]\}\n`},
		{args: "tools", stderr: "^no tools: name one with --tool, or let runnel init propose a runnel.yaml\n$"},
		{args: "tools x", code: 1, stderr: `^runnel: there is no tool "x", nor any other: name one with --tool, or let runnel init propose a runnel.yaml\n$`},
		{args: "tools x y", code: 2, stderr: `unknown argument "y"`},
		{args: "tools hello --tool hello=echo\x00{{who}}",
			stdout: `hello\n\nRun echo \{\{who\}\}\n\nCall it:\n  runnel call hello who=STRING\n\nArguments:\n  who=STRING +\(required\)\n`},
		{args: "call stream --help --selftest",
			stdout: `(?s)stream\n\n.*runnel call stream count=INTEGER \[bytes=INTEGER\] .*  count=INTEGER +how many chunks \(required\)\n.*see runnel call --help\n`},
		{args: "call strem --selftest --help", code: 1,
			stderr: `^runnel: there is no tool "strem" \(did you mean stream\?\)`},
		{args: "tools stream -o ndjson --selftest", stdout: `\{"name":"stream",.*\}\n`},
		{args: "__complete tools --selftest st", stdout: `(?s).*\nstream\t.*`, stderr: "Completion"},
		{args: "__complete call --selftest st", stdout: `(?s).*\nstream\t.*`, stderr: "Completion"},
		{args: "__complete call --tool=now=date n", stdout: `now\tRun date\n:4\n`, stderr: "Completion"},
		{args: "__complete call --selftest stream count=1 b", stdout: `(?s)bytes=\t.*`, stderr: "Completion"},
		{args: "__complete call --mode s", stdout: "immediate\nstreaming\ntask\n:4\n", stderr: "Completion"},
		{args: "__complete tasks t", stdout: "tail\t.*\n:4\n", stderr: "Completion"},
		{args: "__complete --log-level w", stdout: "debug\ninfo\nwarn\nerror\n:4\n", stderr: "Completion"},
		{args: "__complete call echo -- ./ser", stdout: ":0\n", stderr: "Completion"},
		{args: "__complete call --selftest fail protocol=", stdout: `protocol=true\nprotocol=false\n:4\n`,
			stderr: "Completion"},
	} {
		var args []string
		for word := range strings.FieldsSeq(c.args) {
			args = append(args, strings.ReplaceAll(word, "\x00", " "))
		}
		got := runClient(t, c.input, args...)
		if got.code != c.code || !regexp.MustCompile("^"+c.stdout+"$").MatchString(got.stdout) ||
			!regexp.MustCompile(c.stderr).MatchString(got.stderr) || c.stderr == "" && got.stderr != "" {
			t.Errorf("%s: exit code %d, want %d\nstdout %.300q\n  want %q\nstderr %.300q\n  want %q", c.args,
				got.code, c.code, got.stdout, c.stdout, got.stderr, c.stderr)
		}
	}
}

// A completion is of the tools that the call itself would find, with what the environment says.
func TestCompletionReadsTheEnvironment(t *testing.T) {
	config := writeConfig(t, "tools: {configured: {command: [date]}}")[1]
	for variable, want := range map[string]string{"RUNNEL_CONFIG=" + config: "configured\tdate\n",
		"RUNNEL_TOOL=now=date": "now\tRun date\n", "RUNNEL_SELFTEST=1": "stream\t"} {
		var stdout, stderr syncBuffer
		code := cli.Run(t.Context(), []string{"__complete", "call", ""}, append(environ(t), variable),
			strings.NewReader(""), &stdout, &stderr)
		if code != exitFine || !strings.Contains(stdout.String(), want) {
			t.Errorf("%s: exit code %d, %q", variable, code, stdout.String())
		}
	}
}

// trigger does something once, when what is written has a text in it.
type trigger struct {
	syncBuffer
	text string
	do   func()
	once sync.Once
}

func (w *trigger) Write(p []byte) (int, error) {
	n, err := w.syncBuffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.once.Do(w.do)
	}
	return n, err
}

// An interrupt cancels the call, waits for its end, and gives 130; nothing of the command is left.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "ended")
	tool := fmt.Sprintf(`
tools:
  work:
    shell: "trap 'sleep 0.1; echo yes > %s; exit 1' TERM; echo begun; sleep 1000 & wait"
`, mark)
	for _, flags := range []string{"", "--no-task", "--protocol=2026-07-28", "--mode=streaming"} {
		ctx, cancel := context.WithCancel(t.Context())
		stdout := &trigger{text: "begun", do: cancel}
		var stderr syncBuffer
		args := append(append([]string{"call", "work"}, strings.Fields(flags)...), writeConfig(t, tool)...)
		code := cli.Run(ctx, args, append(environ(t), noConfig), strings.NewReader(""), stdout, &stderr)
		if code != exitInterrupted || stderr.String() != "runnel: cancelling; press Ctrl-C again to leave without waiting\n" || !strings.HasPrefix(stdout.String(), "begun\n") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", flags, code, stdout, &stderr)
		}
		if _, err := os.Stat(mark); err != nil {
			t.Errorf("%s: the command had not ended: %v", flags, err)
		}
		_ = os.Remove(mark)
		cancel()
	}
}

// A terminal that is closed cancels the call as Ctrl-C does: the command may end in its own way.
func TestHangup(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "ended")
	tool := fmt.Sprintf("tools: {work: {shell: \"trap 'echo yes > %s; exit 1' TERM; echo begun; sleep 1000 & wait\"}}", mark)
	cmd := programCommand(t, append([]string{"call", "work"}, writeConfig(t, tool)...)...)
	stdout := &trigger{text: "begun", do: func() { _ = cmd.Process.Signal(syscall.SIGHUP) }}
	cmd.Stdout = stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() }).Stop()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGHUP) {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the command was not asked to end: %v", err)
	}
}

// A user who waits for a server that does not answer is told so, and what it wrote instead; tools gives up
// when told to.
func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	got := runClient(t, "", "tools", "--timeout", "5500ms", "--", "sh", "-c", "echo rubbish; exec sleep 500")
	got.is(t, exitFailure, "", `^runnel: sh has not answered server/discover or initialize yet; the last line that it wrote is not a message: rubbish\n`+
		`runnel: sh: server/discover: timed out after 5.5s\n$`)
}

// script is a server that a shell plays: it answers each request that contains a word with lines.
func script(t *testing.T, answers ...string) []string {
	program := "while read -r line; do case $line in\n" +
		`*'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}},"responses":{"modes":["streaming","immediate"]}}},"serverInfo":{"name":"s","version":"1"}}}';;` + "\n" +
		`*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}}';;` + "\n"
	for n := 0; n < len(answers); n += 2 {
		program += "*'" + answers[n] + "'*) "
		for line := range strings.Lines(answers[n+1]) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "{") {
				line = `printf '%s\n' '` + line + "'"
			}
			program += line + "; "
		}
		program += ";;\n"
	}
	return []string{"--", "sh", "-c", program + "esac; done"}
}

const (
	aHandle  = `{"jsonrpc":"2.0","id":3,"result":{"task":{"taskId":"x","status":"working","ttl":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","pollInterval":100}}}`
	anEnd    = `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"x","status":"completed"}}`
	aPartial = `{"jsonrpc":"2.0","method":"notifications/tasks/partial","params":{"taskId":"x","seq":%d,"content":[{"type":"text","text":"%d\n"}]}}`
)

// Each piece of a broken server's output is shown once; stderr says what is missing, and where.
func TestCallOfBrokenServers(t *testing.T) {
	t.Parallel()
	partial := func(n int) string { return fmt.Sprintf(aPartial, n, n) + "\n" }
	result := `{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"0\n1\n2\n3\n"}]}}`
	for _, c := range []struct {
		name           string
		answers        []string
		code           int
		stdout, stderr string
	}{
		{"repeated, reordered, before the handle",
			[]string{"tools/call", partial(1) + partial(0) + aHandle + "\n" + partial(1) + partial(3) +
				partial(2) + anEnd, "tasks/result", result},
			0, "0\n1\n2\n3\n", ""},
		{"a gap", []string{"tools/call", aHandle + "\n" + partial(0) + partial(3) + anEnd,
			"tasks/result", result},
			0, "0\n3\n", "gap: numbers 1 to 2 of the output did not come (after 2 bytes)"},
		{"a gap is read from the log",
			[]string{"tools/call", aHandle + "\n" + partial(0) + partial(3) + anEnd,
				"resources/read", `n=$((${n:-3}+1)); printf '%s\n' '{"jsonrpc":"2.0","id":'$n',"result":{"contents":[{"uri":"u","text":"0\n1\n2\n3\n","_meta":{"runnel/next":8}}]}}'`,
				"tasks/result", strings.Replace(result, `"id":4`, `"id":6`, 1)},
			0, "0\n1\n2\n3\n", ""},
		{"a gap cannot be read from the log",
			[]string{"tools/call", aHandle + "\n" + partial(0) + partial(3) + anEnd,
				"resources/read", `{"jsonrpc":"2.0","id":4,"error":{"code":-32002,"message":"resource not found"}}`,
				"tasks/result", strings.Replace(result, `"id":4`, `"id":5`, 1)},
			0, "0\n3\n", "gap: numbers 1 to 2 of the output did not come (after 2 bytes)"},
		{"an image behind text without an end of line", []string{"tools/call", aHandle + "\n" + anEnd,
			"tasks/result", `{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"text","text":"b"}]}}`},
			0, "a\n[image image/png 3 bytes]\nb", ""},
		{"dies", []string{"tools/call", aHandle + "\n" + partial(0) + "exit 3"},
			1, "0\n", "connection lost: the server closed its output"},
		{"dies, but a helper holds its output",
			[]string{"tools/call", aHandle + "\n" + partial(0) + "sleep 1000 & exit 3"},
			1, "0\n", "connection lost: the server has ended, but a process that it started holds its output open"},
		{"no notification of the end, only tasks/get", []string{"tools/call", aHandle + "\n" + partial(0),
			"tasks/get", `{"jsonrpc":"2.0","id":4,"result":{"taskId":"x","status":"completed"}}`,
			"tasks/result", strings.Replace(result, `"id":4`, `"id":5`, 1)},
			0, "0\n1\n2\n3\n", ""},
		{"expired", []string{"tools/call", aHandle, "tasks/get",
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"task not found"}}`},
			1, "", "expired"},
		{"hangs", []string{"tools/call", aHandle + "\n" + partial(0)}, 124, "0\n", "timed out after 2s"},
		{"a segment is fetched", []string{"tools/call",
			`{"jsonrpc":"2.0","id":3,"result":{"task":{"taskId":"x","status":"working"},"partial-content":[{"seqNr":1,"type":"text","text":"a"}],"isComplete":false}}
			{"jsonrpc":"2.0","id":3,"result":{"partial-content":[{"seqNr":3,"type":"text","text":"c"}],"isComplete":true}}`,
			`"lastSeqNr":1`, `{"jsonrpc":"2.0","id":4,"result":{"partial-content":[{"seqNr":2,"type":"text","text":"b"},{"seqNr":3,"type":"text","text":"c"}],"isComplete":true}}
			` + anEnd,
			`tasks/result`, `{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"abc"}]}}`},
			0, "abc", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"call", "t"}
			if strings.Contains(c.name, "segment") {
				args = append(args, "--mode=streaming")
			}
			if c.name == "hangs" {
				args = append(args, "--timeout=2s")
			}
			args = append(args, "--protocol=2025-11-25")
			server := script(t, c.answers...)
			if strings.Contains(c.name, "the log") {
				server[3] = strings.Replace(server[3], `"capabilities":{`,
					`"capabilities":{"resources":{},`, 1)
			}
			got := runClient(t, "", append(args, server...)...)
			if got.code != c.code || got.stdout != c.stdout || !strings.Contains(got.stderr, c.stderr) ||
				c.stderr == "" && got.stderr != "" {
				t.Errorf("exit code %d, want %d\nstdout %q\n  want %q\nstderr %q\n  want %q", got.code,
					c.code, got.stdout, c.stdout, got.stderr, c.stderr)
			}
		})
	}
}

// A server that speaks only the newest version is found, also where a task or a mode is asked for: those
// belong to an older one.
func TestCallOfAStatelessServer(t *testing.T) {
	server := script(t,
		"server/discover", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`,
		"tools/call", `{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","content":[{"type":"text","text":"fine"}]}}`)
	modern := regexp.MustCompile(`"initialize"'\*\) .*`).ReplaceAllString(server[3],
		`"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}';;`)
	bare := strings.Replace(modern, `"io.modelcontextprotocol/tasks":{}`, "", 1)
	for _, c := range []struct{ flag, server, stdout, stderr string }{
		{"--progress=never", modern, "fine", "^$"},
		{"--task", modern, "fine", "^$"},
		{"--task", bare, "", "^runnel: t cannot be called as a task: the server or the tool does not take it\n$"},
		{"--mode=streaming", modern, "",
			"^runnel: t cannot be called with --mode: the server speaks 2026-07-28 only, which has no response modes\n$"},
	} {
		code := exitFine
		if c.stdout == "" {
			code = exitFailure
		}
		runClient(t, "", "call", "t", c.flag, "--", "sh", "-c", c.server).is(t, code, c.stdout, c.stderr)
	}
}

// A response mode that a server does not have is refused: it would be left out silently.
func TestCallRefusesModes(t *testing.T) {
	got := runClient(t, "", append([]string{"call", "t", "--mode=task", "--protocol=2025-11-25"},
		script(t)...)...)
	got.is(t, exitFailure, "", `^runnel: --mode task does not go with this server, which does not declare that response mode \(SEP-1905\): leave --mode out\n$`)
}

// A server's words move no cursor, wherever they are shown: only the output of a tool is passed on as it is.
func TestWordsArePrintable(t *testing.T) {
	t.Parallel()
	const evil = `\u001b]52;c;eA==\u0007\u001b[31m\u009b2J\u202eseen`
	state := []string{"--state", t.TempDir()}
	shown := map[string]string{}
	show := func(args ...string) {
		got := runClient(t, "", args...)
		shown[strings.Join(args, " ")] = got.stdout + got.stderr
	}
	show(append([]string{"call", "t", "--protocol=2025-11-25", "--"},
		script(t, "tools/call", `{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"`+evil+
			`"}}`)[1:]...)...)
	show(append([]string{"call", "t", "--protocol=2025-11-25", "--progress=always", "--"},
		script(t, "tools/call",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"runnel-call","progress":1,"message":"`+evil+`"}}
		{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"`+evil+`"},{"type":"resource_link","uri":"`+
				evil+`","mimeType":"`+evil+`"}]}}`)[1:]...)...)
	show(append([]string{"call", "fail", "--selftest", "--task", "--input",
		`{"protocol":true,"message":"x ` + evil + `"}`}, state...)...)
	list := runClient(t, "", append([]string{"tasks", "list", "-o", "ndjson"}, state...)...).stdout
	var task struct{ TaskID string }
	if err := json.Unmarshal([]byte(list), &task); err != nil {
		t.Fatalf("%v: %s", err, list)
	}
	show(append([]string{"tasks", "list"}, state...)...)
	show(append([]string{"tasks", "get", task.TaskID}, state...)...)
	show(append([]string{"tasks", "result", task.TaskID}, state...)...)
	for args, text := range shown {
		if !strings.Contains(text, "seen") && !strings.Contains(args, "list") {
			t.Errorf("%.40s: nothing of it is shown: %q", args, text)
		}
		if strings.ContainsAny(text, "\x1b\x07\u009b\u202e") {
			t.Errorf("%.40s: %q", args, text)
		}
	}
}
