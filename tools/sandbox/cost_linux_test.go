//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os/exec"
	"syscall"
	"testing"
)

// The cost of a sandbox is the difference between the start of a command without one and in one.
func BenchmarkStart(b *testing.B) {
	policy := &Policy{Write: []string{b.TempDir()}, Hide: Secrets("/root")}
	for _, way := range []struct {
		name       string
		policy     *Policy
		namespaces bool
	}{{"none", nil, false}, {"landlock", policy, false}, {"namespaces", policy, true}} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command("/bin/true")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				var err error
				if way.policy == nil {
					err = cmd.Start()
				} else {
					var started func(error) error
					o := &order{Policy: policy, Path: "/bin/true", Argv: []string{"true"}, Namespaces: way.namespaces}
					if started, err = policy.wrap(cmd, "/proc/self/exe", o); err == nil {
						err = started(cmd.Start())
					}
				}
				if err != nil {
					b.Fatal(err)
				}
				_ = cmd.Wait()
			}
		})
	}
}
