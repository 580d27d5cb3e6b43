package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A stderr that nobody reads holds nobody up who serves, the end of the program included; what it has is whole lines, and says what is missing.
func TestNobodyReadsStderr(t *testing.T) {
	for tool, args := range map[string][]string{
		"fail":   {"--selftest", "--state", "memory"},
		"doctor": {"doctor", "--host"},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := reexec(t, args...)
			cmd.Stderr = w
			in, out := pipes(t, cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			defer time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() }).Stop()
			const tasks = 1000 // two lines each: several pipes full
			go func() {
				_, _ = io.WriteString(in, initialize+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
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
				if !json.Valid(lines.Bytes()) && !strings.HasPrefix(lines.Text(), "runnel doctor: the host: ") {
					t.Errorf("no whole line: %q", lines.Text())
				}
			}
		})
	}
}

// What is said on stderr is not lost where it is the pipe that stdout is, and that is full (runnel call ... 2>&1 | less).
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
	cmd := reexec(t, "call", "--selftest", "--state", "memory", "nope")
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

// Who reads stderr late is told what is missing; a line of which a part had room ends there.
func TestPatientStderr(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	i := &invocation{stderr: w}
	i.options.logLevel.word, i.options.logFormat.word = "info", "auto"
	stderr := i.patientStderr().(*patient)
	long := strings.Repeat("x", 3*pipeRoom) + "\n"
	lines := 0
	write := func(line string) {
		lines++
		if n, err := stderr.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	for range 200 { // several pipes full
		write(long)
	}
	var all []byte
	for some := make([]byte, len(long)); stderr.left > 0; {
		n, err := r.Read(some)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some[:n]...)
		write("again\n")
	}
	_ = w.Close()
	rest, _ := io.ReadAll(r)
	for line := range strings.Lines(string(all) + string(rest)) {
		var note struct{ Lines int }
		switch {
		case line == long || line == "again\n":
			lines--
		case strings.Contains(line, "nobody read stderr") && json.Unmarshal([]byte(line), &note) == nil:
			lines -= note.Lines
		case strings.Trim(line, "x") != "\n":
			t.Errorf("no whole line, and no part of one: %q", line)
		}
	}
	if lines != 0 {
		t.Errorf("%d lines are missing, and not told", lines)
	}
}

// A line that fits is written in one piece: another process may write to the same pipe.
func TestPatientStderrWritesWholeLines(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere fewer lines fit")
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0) // what is written in one piece is read in one piece
	if err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(ends[0]), "read"), os.NewFile(uintptr(ends[1]), "written")
	defer r.Close()
	defer w.Close()
	line := strings.Repeat("x", 4095) + "\n"
	if _, err := (&patient{f: w}).Write([]byte(line)); err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 2*len(line))
	if n, err := r.Read(piece); err != nil || string(piece[:n]) != line {
		t.Errorf("%d bytes in one piece, %v", n, err)
	}
}
