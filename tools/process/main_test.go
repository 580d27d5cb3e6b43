//go:build unix

package process

import (
	"bufio"
	"context"
	"io"
	"os"
	"testing"

	"runnel/internal/processtest"
)

const watchdog = processtest.Watchdog

// hold opens the lifeline, says so, and goes on for longer than any test.
const hold = `exec 9>"$LINE"; echo ready; sleep 600; sleep 600`

const childVar = processtest.ChildVar

var children = map[string]func(args []string){} // filled by the files of each system

func TestMain(m *testing.M) {
	processtest.Main(m, children)
}

// shell is a script that can be started.
func shell(script string, vars ...string) *Spec {
	env := append(os.Environ(), childVar+"=")
	return &Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: "/", Env: append(env, vars...),
		Stderr: "merge"}
}

// holds starts hold, and returns when the lifeline is open. stop returns when nothing of it is left.
func holds(t *testing.T, line *processtest.Lifeline) (stop func()) {
	t.Helper()
	child, err := Start(shell(hold, "LINE="+line.Path))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, to := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		child.Run(ctx, to, io.Discard, Limits{})
		_ = to.Close()
	}()
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "ready\n" {
		t.Errorf("it says %q, %v", said, err)
	}
	_ = out.Close()
	return func() { cancel(); <-ended }
}
