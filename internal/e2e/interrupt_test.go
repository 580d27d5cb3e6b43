package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deafGrace is how long a command that ignores TERM may go on.
const deafGrace = 5 * time.Minute

// Ctrl-C pressed twice leaves at once with 130, however quickly: no command, server or pipe is waited for,
// and no signal kills runnel before its last words.
func TestDoubleInterrupt(t *testing.T) {
	t.Parallel()
	deaf := writeConfig(t, `tools: {deaf: {shell: "trap '' TERM; echo begun; sleep 1000 & wait; wait", grace: `+deafGrace.String()+`}}`)
	slow := []string{"--", "sh", "-c",
		"echo begun >&2; trap '' TERM; while kill -0 $PPID; do sleep 0.1; done"}
	for n := range 60 {
		args := append([]string{"call", "deaf"}, deaf...)
		if n%3 == 2 { // it does not even answer
			args = append([]string{"call", "deaf"}, slow...)
		}
		gap := time.Duration(n%20) * time.Millisecond
		t.Run(fmt.Sprint(gap, " ", n), func(t *testing.T) {
			cmd := programCommand(t, args...)
			pressed := make(chan time.Time, 1)
			begun := &trigger{text: "begun", do: func() {
				pressed <- time.Now()
				for range 2 {
					_ = cmd.Process.Signal(syscall.SIGINT)
					time.Sleep(gap)
				}
				// Two signals at the same time are one to the kernel: then it takes a third.
				time.AfterFunc(time.Second, func() { _ = cmd.Process.Signal(syscall.SIGINT) }) // none if it has left
			}}
			cmd.Stdout, cmd.Stderr = begun, begun
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() }).Stop()
			cmd.WaitDelay = 100 * time.Millisecond // a child that is left may hold the pipes
			_ = cmd.Wait()
			select {
			case at := <-pressed:
				if took := time.Since(at); took > deafGrace {
					t.Errorf("left after %v", took)
				}
			default:
				t.Fatalf("ended before it had begun: %v; %s", cmd.ProcessState, begun.String())
			}
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() ||
				status.ExitStatus() != exitInterrupted {
				t.Errorf("%v; %s", cmd.ProcessState, strings.TrimSpace(begun.String()))
			}
		})
	}
}

// A command that a signal ends exits as shells show it, 128 and the signal's number, and its words name no
// other signal.
func TestExitCodeOfASignal(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	config := append(writeConfig(t, `tools: {work: {shell: "echo begun; sleep 1000"}}`), "--state", state)
	id := strings.TrimSpace(people(t, append([]string{"call", "work", "--detach"}, config...)...).stdout)
	for _, test := range []struct {
		args  []string
		shows string
		words map[syscall.Signal]string
	}{
		{append([]string{"call", "work"}, config...), "begun", map[syscall.Signal]string{
			syscall.SIGINT:  "runnel: cancelling; press Ctrl-C again to leave without waiting\n",
			syscall.SIGTERM: "runnel: cancelling: terminated signal received\n",
		}},
		{[]string{"tasks", "tail", "-f", id, "--state", state}, "begun", nil},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			cmd := programCommand(t, test.args...)
			stderr := &syncBuffer{}
			cmd.Stdout, cmd.Stderr = &trigger{text: test.shows,
				do: func() { _ = cmd.Process.Signal(signal) }}, stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			watch := time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			watch.Stop()
			if code := cmd.ProcessState.ExitCode(); code != 128+int(signal) ||
				stderr.String() != test.words[signal] {
				t.Errorf("%s %v: %v, stderr %q", test.args[0], signal, cmd.ProcessState, stderr)
			}
		}
	}
	people(t, "tasks", "cancel", id, "--state", state).is(t, exitFine, id+" cancelled\n", "")
}

// A SIGTERM that comes twice within a moment, as timeout(1) sends it, leaves the command time to end by itself.
func TestASignalThatComesTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := append(writeConfig(t,
		`tools: {work: {shell: "trap 'echo ended >> `+dir+
			`/ended; exit' TERM; echo begun; while :; do sleep 0.05; done"}}`),
		"--state", t.TempDir())
	const rounds = 6 // the system may make one signal of two
	for range rounds {
		cmd := programCommand(t, append([]string{"call", "work"}, config...)...)
		cmd.Stdout = &trigger{text: "begun", do: func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(time.Millisecond)
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		watch := time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		watch.Stop()
		if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
			t.Errorf("%v", cmd.ProcessState)
		}
	}
	if text, err := os.ReadFile(dir + "/ended"); strings.Count(string(text), "ended\n") != rounds {
		t.Errorf("%q, %v", text, err)
	}
}
