//go:build unix

package rpc

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	// "stopped" has no terminal, and can be stopped as the system stops a program that reads from one in the background.
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
