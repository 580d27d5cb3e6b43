//go:build unix

package upstream

import (
	"os"
	"testing"

	"runnel/internal/processtest"
	"runnel/tools/config"
)

const watchdog = processtest.Watchdog

const childVar = processtest.ChildVar

// children are servers, which the test binary is too.
var children = map[string]func(args []string){"upstream": upstreamMain, "full": fullMain,
	"mirror": mirrorMain}

func TestMain(m *testing.M) {
	processtest.Main(m, children)
}

// child is a server that the test binary is.
func child(name string, args ...string) config.Upstream {
	return config.Upstream{Command: append([]string{os.Args[0]}, args...), Env: processtest.Env(name)}
}
