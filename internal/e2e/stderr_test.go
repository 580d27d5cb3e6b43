package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A stderr that nobody reads holds nobody up who serves, the end of the program included; what it has is
// whole lines, and says what is missing.
func TestNobodyReadsStderr(t *testing.T) {
	for tool, args := range map[string][]string{"fail": {"--selftest", "--state", "memory"}} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := racedCommand(t, args...)
			cmd.Stderr = w
			in, out := pipes(t, cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			defer time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() }).Stop()
			const tasks = 1000 // two lines each: several pipes full
			go func() {
				_, _ = io.WriteString(in, initialize+"\n"+
					`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
				for id := range tasks {
					_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":"task %d","method":"tools/call","params":{"name":"%s","arguments":{},"task":{"ttl":1000}}}`+"\n", id, tool)
				}
			}()
			answers := 0
			for lines := bufio.NewScanner(out); answers < tasks && lines.Scan(); {
				if bytes.Contains(lines.Bytes(), []byte(`"id":"task `)) {
					answers++
				}
			}
			_ = in.Close()
			if _, _ = io.Copy(io.Discard, out); cmd.Wait() != nil || answers < tasks {
				t.Fatalf("%d answers of %d, %v", answers, tasks, cmd.ProcessState)
			}
			for lines := bufio.NewScanner(r); lines.Scan(); {
				if !json.Valid(lines.Bytes()) {
					t.Errorf("no whole line: %q", lines.Text())
				}
			}
		})
	}
}

// Messages on stderr are not lost where it is the same pipe as stdout, and full (runnel call ... 2>&1 |
// less).
func TestStderrIsStdout(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := w.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	before, err := w.Write(make([]byte, 1<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	cmd := racedCommand(t, "call", "--selftest", "--state", "memory", "nope")
	cmd.Stdout, cmd.Stderr = w, w // in the child it blocks: exec makes it so
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() }).Stop()
	_ = w.Close()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	select { // it has no room, and waits for it
	case <-ended:
	case <-time.After(time.Second):
	}
	all, err := io.ReadAll(r)
	if err != nil || !strings.HasPrefix(string(all[before:]), `runnel: there is no tool "nope"`) {
		t.Errorf("%q, %v", all[before:], err)
	}
}
