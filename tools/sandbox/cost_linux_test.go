//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// The cost of a sandbox is the difference between the start of a command without one and in one. With
// RUNNEL_SHIM=bin/runnel the shim is that program, which is larger than this test. cpu-ms is the processor
// time of the shim and the command, which counts on a machine that does other things, too.
func BenchmarkStart(b *testing.B) {
	policy := &Policy{Write: []string{b.TempDir()}, Hide: Secrets("/root")}
	program := cmp.Or(os.Getenv("RUNNEL_SHIM"), "/proc/self/exe")
	for _, way := range []struct {
		name       string
		policy     *Policy
		namespaces bool
	}{{"none", nil, false}, {"landlock", policy, false}, {"namespaces", policy, true}} {
		b.Run(way.name, func(b *testing.B) {
			var used time.Duration
			for b.Loop() {
				cmd := exec.Command("/bin/true")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				var err error
				if way.policy == nil {
					err = cmd.Start()
				} else {
					var s *Shim
					o := &order{Policy: policy, Path: "/bin/true", Argv: []string{"true"},
						Namespaces: way.namespaces}
					if s, err = o.wrap(cmd, program); err == nil {
						err = s.Started(cmd.Start())
						s.Close()
					}
				}
				if err != nil {
					b.Fatal(err)
				}
				_ = cmd.Wait()
				used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
