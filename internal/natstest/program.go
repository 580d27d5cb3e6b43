//go:build unix

package natstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

var built struct {
	once sync.Once
	dir  string
	err  error
}

// program builds what a node runs, once, without the race detector: NATS is not what is tested, and takes
// several times as long with it.
func program() (file string, err error) {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "runnel-nats"); built.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", built.dir, "runnel/internal/natstest/node").
			CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	return filepath.Join(built.dir, "node"), built.err
}

// CleanUp removes what was built. A TestMain calls it last.
func CleanUp() { _ = os.RemoveAll(built.dir) }
