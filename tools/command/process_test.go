//go:build unix

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/internal/processtest"
	"runnel/partials"
	"runnel/tools"
	"runnel/tools/config"
)

func duration(d time.Duration) *config.Duration {
	v := config.Duration(d)
	return &v
}

// Each call reads its output in the encoding of the tool, from its first byte.
func TestEncoding(t *testing.T) {
	for _, test := range []struct {
		config config.Command
		want   string
	}{
		// \r erased the line of a lone NUL.
		{config.Command{Shell: `printf 'a\000\r\000\n\000b\000\r\000\n\000'`}, "a\r\nb\r\n"},
		{config.Command{Shell: `printf '\377\376\060\004'`}, "а"},
		{config.Command{Shell: `printf '\357\273\277ok'`}, "ok"},
		{config.Command{Shell: `printf 'caf\351'; printf '\200' >&2`, Encoding: "windows-1252"}, "café€"},
		{config.Command{Shell: `printf '\326\320'; printf '\316'; sleep 0.1; printf '\304'`, Encoding: "gbk",
			Pty: true}, "中文"},
		{config.Command{Shell: `printf '\377\376{\000}\000'`, Structured: config.StructuredJSON}, "{}"},
	} {
		c := mustCommand(t, test.config)
		for range 2 {
			result, _, _ := call(t, c, `{}`)
			if got := contentText(t, result.Content[0]); got != test.want || result.IsError {
				t.Errorf("%s: %q, want %q", test.config.Shell, got, test.want)
			}
		}
	}
	_, err := New("x", config.Command{Command: []string{"x"}, Encoding: "klingon"}, config.Base{})
	if err == nil || !strings.Contains(err.Error(),
		`encoding: "klingon" is not an encoding (allowed: auto, utf-8`) {
		t.Errorf("error %v", err)
	}
}

// hold opens the lifeline, says so, and goes on for longer than any test.
const hold = `exec 9>"$LINE"; echo ready; sleep 600; sleep 600`

func TestCancelStopsTheGroup(t *testing.T) {
	line := processtest.NewLifeline(t)
	c := mustCommand(t, config.Command{Shell: `trap 'echo bye; exit 3' TERM; exec 9>"$LINE"; echo ready; sleep 600 & wait`, Env: map[string]string{"LINE": line.Path}})
	r := start(t, c, `{}`)
	r.waitFor("ready\n")
	r.cancel()
	_, o := r.end()
	line.Gone()
	if o.ExitCode == nil || *o.ExitCode != 3 || o.TimedOut {
		t.Errorf("outcome %+v, want exit code 3", o)
	}
}

func TestChildThatIgnoresTermIsKilled(t *testing.T) {
	line := processtest.NewLifeline(t)
	c := mustCommand(t, config.Command{Shell: `trap '' TERM; ` + hold,
		Env: map[string]string{"LINE": line.Path}, Grace: duration(50 * time.Millisecond)})
	r := start(t, c, `{}`)
	r.waitFor("ready\n")
	r.cancel()
	_, o := r.end()
	line.Gone()
	if o.Signal != "SIGKILL" || o.ExitCode != nil {
		t.Errorf("outcome %+v, want SIGKILL", o)
	}
}

func TestTimeout(t *testing.T) {
	line := processtest.NewLifeline(t)
	c := mustCommand(t, config.Command{Shell: hold, Env: map[string]string{"LINE": line.Path},
		Timeout: config.Duration(time.Second)})
	result, o, r := call(t, c, `{}`)
	line.Gone()
	if !o.TimedOut || !result.IsError || o.Signal != "SIGTERM" || o.ExitCode != nil {
		t.Errorf("outcome %+v, isError %v", o, result.IsError)
	}
	if want := "timed out after 1s\nready"; r.in.Said.Status != want {
		t.Errorf("status message %q, want %q", r.in.Said.Status, want)
	}
}

func TestIdleTimeoutCountsFromTheLastOutput(t *testing.T) {
	began := time.Now()
	c := mustCommand(t, config.Command{Shell: `for i in 1 2 3 4; do echo $i; sleep 0.2; done; sleep 600`,
		IdleTimeout: config.Duration(600 * time.Millisecond)})
	_, o, r := call(t, c, `{}`)
	if !o.TimedOut || r.text() != "1\n2\n3\n4\n" {
		t.Errorf("outcome %+v, output %q", o, r.text())
	}
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("stopped after %v", took)
	}
	if !strings.HasPrefix(r.in.Said.Status, "no output for 600ms\n") {
		t.Errorf("status message %q", r.in.Said.Status)
	}
}

// A runnel that was stopped itself reads what its command has printed meanwhile before it says that there was
// nothing.
func TestStoppedRunnelIsNoSilence(t *testing.T) {
	runnel := exec.Command(os.Args[0], "1s", `while :; do echo; sleep 0.01; done`)
	runnel.Env = append(os.Environ(), childVar+"=impatient")
	stdin, err := runnel.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := runnel.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := runnel.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runnel.Wait() }()
	defer stdin.Close()
	said := bufio.NewReader(out)
	if _, err := said.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_ = runnel.Process.Signal(syscall.SIGSTOP)
		time.Sleep(1200 * time.Millisecond) // longer than the command may be silent
		_ = runnel.Process.Signal(syscall.SIGCONT)
		time.Sleep(50 * time.Millisecond)
	}
	_ = stdin.Close()
	if line, err := said.ReadString('\n'); err != nil || line != "runs\n" {
		t.Errorf("the command: %s%v", line, err)
	}
}

func TestGrandchildDoesNotKeepTheCallOpen(t *testing.T) {
	for name, trap := range map[string]string{"plain": "", "ignores TERM": "trap '' TERM; "} {
		t.Run(name, func(t *testing.T) {
			line := processtest.NewLifeline(t)
			c := mustCommand(t, config.Command{Shell: `(` + trap + hold +
				`) & read x < "$GATE"; echo done; exit 4`,
				Env: map[string]string{"LINE": line.Path, "GATE": processtest.NewGate(t)}})
			r := start(t, c, `{}`)
			r.waitFor("ready\n")
			openGate(t, c)
			_, o := r.end()
			line.Gone()
			if o.ExitCode == nil || *o.ExitCode != 4 || r.text() != "ready\ndone\n" {
				t.Errorf("outcome %+v, output %q", o, r.text())
			}
		})
	}
}

func TestProcessThatLeftTheGroupDoesNotKeepTheCallOpen(t *testing.T) {
	line := processtest.NewLifeline(t)
	conf := child("escape", `exec 9>"$LINE"; echo ready; while echo noise; do :; done`)
	conf.Env["LINE"] = line.Path
	_, o, r := call(t, mustCommand(t, conf), `{}`)
	if runtime.GOOS == "linux" {
		line.Gone()
	}
	var pid int
	at := strings.Index(r.text(), "escaped ")
	if _, err := fmt.Sscanf(r.text()[max(0, at):], "escaped %d", &pid); err != nil {
		t.Fatalf("output %.200q: %v", r.text(), err)
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	if *o.ExitCode != 0 {
		t.Errorf("outcome %+v", o)
	}
}

func TestOutputBeforeTheEndIsNotLost(t *testing.T) {
	conf := child("flood", "100000")
	_, o, r := call(t, mustCommand(t, conf), `{}`)
	if want := 100000 * 64; len(r.text()) != want || o.StdoutBytes != int64(want) {
		t.Errorf("%d bytes streamed, %d counted, want %d", len(r.text()), o.StdoutBytes, want)
	}
}

func TestStdoutClosedEarly(t *testing.T) {
	c := mustCommand(t, config.Command{Shell: `echo last; exec >&- 2>&-; read x < "$GATE"; exit 5`,
		Env: map[string]string{"GATE": processtest.NewGate(t)}})
	r := start(t, c, `{}`)
	r.waitFor("last\n")
	openGate(t, c)
	if _, o := r.end(); *o.ExitCode != 5 {
		t.Errorf("outcome %+v, want exit code 5", o)
	}
}

func TestChildHasNoFilesOfRunnel(t *testing.T) {
	result, _, _ := call(t, mustCommand(t, child("files")), `{}`)
	if got := contentText(t, result.Content[0]); got != "0\n1\n2\n" {
		t.Errorf("open files: %q, want 0, 1 and 2", got)
	}
}

func TestStdin(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<14)
	for _, test := range []struct{ name, stdin, shell, args, want string }{
		{"null device", "", "cat; echo end", `{}`, "end\n"},
		{"template", "<{{text}}>", "cat", `{"text":"a $(b) \u00e9"}`, "<a $(b) é>"},
		{"array", "{{list}}", "cat", `{"list":["a","b"]}`, "a\nb"},
		{"no value", "x{{text}}", "cat", `{}`, "x"},
		{"big", "{{text}}", "wc -c | tr -d ' '", `{"text":"` + big + `"}`, "262144\n"},
		{"not read", "{{text}}", "echo bye", `{"text":"` + big + `"}`, "bye\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := mustCommand(t, config.Command{Command: []string{"sh", "-c", test.shell}, Stdin: test.stdin,
				Input: config.Object(`{"text":{},"list":{}}`)})
			result, _, _ := call(t, c, test.args)
			if got := contentText(t, result.Content[0]); got != test.want {
				t.Errorf("output %q, want %q", got, test.want)
			}
		})
	}
}

func TestFirstOutputComesAtOnce(t *testing.T) {
	for _, output := range []string{"text", "lines"} {
		c := mustCommand(t, config.Command{Shell: `echo first; read x < "$GATE"; echo last`, Output: output,
			Env: map[string]string{"GATE": processtest.NewGate(t)}})
		r := start(t, c, `{}`)
		r.waitFor("first\n")
		openGate(t, c)
		r.end()
	}
}

func TestPty(t *testing.T) {
	shell := `test -t 1 && test -t 2 && echo terminal; test -t 0 || echo no input; stty size <&1; printf 'a\rb\033[1mc\033[0m\n' >&2; echo "$TERM"`
	for ansi, end := range map[string]string{
		"strip": "terminal\nno input\n24 80\nbc\nxterm-256color\n",
		"keep":  "terminal\r\nno input\r\n24 80\r\na\rb\033[1mc\033[0m\r\nxterm-256color\r\n",
	} {
		c, err := New("test", config.Command{Shell: shell, Pty: true, ANSI: ansi},
			config.Base{Vars: []string{"PATH=" + os.Getenv("PATH")}})
		if err != nil {
			t.Fatal(err)
		}
		result, o, _ := call(t, c, `{}`)
		if got := contentText(t, result.Content[0]); got != end {
			t.Errorf("%s: output %q, want %q", ansi, got, end)
		}
		if *o.ExitCode != 0 {
			t.Errorf("%s: outcome %+v", ansi, o)
		}
	}
}

func TestPtyIsStopped(t *testing.T) {
	line := processtest.NewLifeline(t)
	c := mustCommand(t, config.Command{Shell: hold, Pty: true, Env: map[string]string{"LINE": line.Path}})
	r := start(t, c, `{}`)
	r.waitFor("ready\n")
	r.cancel()
	r.end()
	line.Gone()
}

func TestPtyOutputIsNotLost(t *testing.T) {
	conf := child("flood", "5000")
	conf.Pty = true
	_, _, r := call(t, mustCommand(t, conf), `{}`)
	if want := 5000 * 64; len(r.text()) != want {
		t.Errorf("%d bytes streamed, want %d", len(r.text()), want)
	}
}

// A child that inherits an ignored SIGPIPE gets errors where it should end.
func TestChildHasDefaultSIGPIPE(t *testing.T) {
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	c := mustCommand(t, config.Command{Shell: `(yes; echo "yes: $?" >&2) | head -n 1`})
	result, _, _ := call(t, c, `{}`)
	if got := contentText(t, result.Content[0]); !strings.Contains(got, "yes: 141\n") ||
		strings.Contains(got, "roken") {
		t.Errorf("output %q, want yes to end with SIGPIPE", got)
	}
}

// Nothing that a command started outlives runnel, also if runnel had no time to do anything about it.
func TestNothingOutlivesAKilledRunnel(t *testing.T) {
	line := processtest.NewLifeline(t)
	runnel := exec.Command(os.Args[0],
		`trap '' TERM HUP; (exec 9>"$LINE"; echo grandchild; sleep 600) & (exec 9>"$LINE"; setsid sh -c : ; sleep 600) & `+hold)
	folder := t.TempDir()
	runnel.Env = append(os.Environ(), childVar+"=runnel", "LINE="+line.Path, "TMPDIR="+folder)
	out, err := runnel.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := runnel.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for seen := 0; seen < 2 && lines.Scan(); {
		if s := lines.Text(); s == "ready" || s == "grandchild" {
			seen++
		}
	}
	if err := runnel.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = runnel.Wait()
	line.Gone()
	isEmptied(t, folder)
}

// isEmptied waits until the guard has removed the folders of commands from TMPDIR.
func isEmptied(t *testing.T, folder string) {
	t.Helper()
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		left, err := os.ReadDir(folder)
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left in TMPDIR: %v, %v", left, err)
		}
	}
}

// Nor does what a command starts at once, if runnel is killed before it has so much as heard of the command's
// start.
func TestNothingOutlivesARunnelThatIsKilledAtOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells whose a process is")
	}
	line := processtest.NewLifeline(t)
	folder := t.TempDir()
	for range 25 {
		runnel := exec.Command(os.Args[0], `exec 9>"$LINE"; (sleep 600 &); sleep 600`)
		runnel.Env = append(os.Environ(), childVar+"=runnels", "LINE="+line.Path, "TMPDIR="+folder)
		out, err := runnel.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := runnel.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(10 * time.Millisecond)) // the moment is what is tested
		if err := runnel.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = runnel.Wait()
	}
	line.Gone()
	isEmptied(t, folder)
}

// A command that cannot be guarded is not started, and says so.
func TestCommandThatCannotBeGuarded(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVar+"=unguarded")
	out, err := c.Output()
	if want := "cannot start the command: starting the guard: pipe2: too many open files\n"; err != nil ||
		string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestManyAtOnce(t *testing.T) {
	c := mustCommand(t, config.Command{Shell: `echo "$n"; echo "$n"`,
		Input: config.Object(`{"n":{"type":"integer"}}`)})
	var runs []*running
	for i := range 40 {
		runs = append(runs, start(t, c, fmt.Sprintf(`{"n":%d}`, i)))
	}
	for i, r := range runs {
		result, _ := r.end()
		if want := fmt.Sprintf("%d\n%d\n", i, i); contentText(t, result.Content[0]) != want ||
			r.text() != want {
			t.Errorf("call %d: result %s, streamed %q", i, result.Content[0], r.text())
		}
	}
}

func TestMaxConcurrent(t *testing.T) {
	c := mustCommand(t, config.Command{Shell: `echo in; read x < "$GATE"`, MaxConcurrent: 1,
		Env: map[string]string{"GATE": processtest.NewGate(t)}})
	first := start(t, c, `{}`)
	first.waitFor("in\n")

	third := start(t, c, `{}`) // gives up while it waits
	third.cancel()
	<-third.done
	if third.err == nil || third.result != nil {
		t.Errorf("result %v, error %v, want an error", third.result, third.err)
	}

	second := start(t, c, `{}`)
	select {
	case <-second.done:
		t.Error("the second call did not wait")
	default:
	}
	openGate(t, c)
	first.end()
	second.waitFor("in\n")
	openGate(t, c)
	second.end()
}

// Calls that run when the config is read again count on.
func TestMaxConcurrentIsKept(t *testing.T) {
	conf := config.Command{Shell: `echo in; read x < "$GATE"`, MaxConcurrent: 1,
		Env: map[string]string{"GATE": processtest.NewGate(t)}}
	before, after := mustCommand(t, conf), mustCommand(t, conf)
	var registry, next tools.Registry
	if err := errors.Join(registry.Add(before), next.Add(after)); err != nil {
		t.Fatal(err)
	}
	first := start(t, before, `{}`)
	first.waitFor("in\n")
	registry.Replace(&next)

	ctx, cancel := context.WithCancel(t.Context())
	waits, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		out := tools.NewOutput(ctx, partials.NewLog(nil),
			func(_, _ float64, message string) { waits <- message })
		_, err := after.Call(ctx, &tools.Call{Arguments: json.RawMessage(`{}`)}, out)
		ended <- err
	}()
	select {
	case message := <-waits:
		if message != "waiting: test runs at most 1 at once" {
			t.Errorf("it says %q", message)
		}
	case <-time.After(watchdog):
		t.Error("the second call does not wait")
	}
	cancel()
	<-ended
	openGate(t, before)
	first.end()
}
