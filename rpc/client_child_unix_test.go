//go:build unix

package rpc

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	// "stopped" has no terminal, and can be stopped as the system stops a program that reads from one in the
	// background.
	if os.Getenv(asServer) != "stopped" {
		return
	}
	if session, err := unix.Getsid(0); err != nil || session != os.Getpid() {
		os.Exit(4) // it has its parent's terminal, if there is one
	}
	srv := echoServer(nil)
	srv.Handle(Handshake, "stop", func(context.Context, *Caller, json.RawMessage) (any, error) {
		return nil, syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	})
	_ = srv.Serve(context.Background(), os.Stdin, os.Stdout)
	os.Exit(0)
}

// A server that was stopped ends as another one does, when its input ends: it is not killed after the grace.
func TestStoppedServerIsContinued(t *testing.T) {
	for range 2 {
		o := serverProcess(t, "stopped")
		o.Version = "2025-11-25"
		client, err := Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = client.Call(t.Context(), "stop", nil, nil) }()
		for stopped := false; !stopped; {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(client.child.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
			if err != nil || pid == 0 {
				t.Fatalf("waiting until it is stopped: %d, %v", pid, err)
			}
			if stopped = status.Stopped(); !stopped {
				t.Fatalf("it ended: %v", status)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The pipe of a server that writes faster than it is read is widened, where the system can do that.
func TestPipeOfServerIsWidened(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has pipes that can be widened")
	}
	for _, test := range []struct{ writes, holds int }{{fullPipe, readSize}, {100, fullPipe}} {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		defer in.Close()
		server := &childOutput{File: out}
		for range 2 {
			if _, err := in.Write(make([]byte, test.writes)); err != nil {
				t.Fatal(err)
			}
			if n, err := server.Read(make([]byte, readSize)); n != test.writes || err != nil {
				t.Errorf("%d bytes were read (%v), want %d", n, err, test.writes)
			}
		}
		raw, err := in.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, 1032, 0); n != test.holds || err != nil { // F_GETPIPE_SZ
				t.Errorf("after %d bytes the pipe holds %d (%v), want %d", test.writes, n, err, test.holds)
			}
		})
	}
}
