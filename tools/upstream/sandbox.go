package upstream

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"runnel/tools/process"
)

// confined returns how a server is started in its sandbox, with a temporary directory of its own, and how it
// is guarded: when it is gone, so is the directory.
func (l *link) confined() (start func(*exec.Cmd) (func(), error), guard func(pgid int) (release func())) {
	folder := "" // of the start that comes before guard
	remove := func(folder string) {
		_ = os.RemoveAll(folder)
		process.ReleaseFolder(folder)
	}
	start = func(cmd *exec.Cmd) (ended func(), err error) {
		folder, err = filepath.Abs(filepath.Join(os.TempDir(), "runnel-"+rand.Text()))
		if err == nil {
			err = process.GuardFolder(folder)
		}
		if err == nil {
			err = os.Mkdir(folder, 0o700)
		}
		if err != nil {
			return nil, fmt.Errorf("its temporary directory cannot be made: %w; set TMPDIR to a directory "+
				"that can be written", err)
		}
		cmd.Env = append(slices.Clip(cmd.Env), "TMPDIR="+folder)
		policy := *l.sandbox
		policy.Write = append(slices.Clip(policy.Write), folder)
		end := func() {}
		if p, vars, _ := l.config.Sandbox.Proxy(); p != nil {
			cmd.Env = append(cmd.Env, vars...)
			serve, stop := p.Begin(l.ended)
			policy.Listening = serve
			end = func() {
				stop()
				if list := p.Refused(); len(list) > 0 {
					l.log.Warn().Strs("refused", list).
						Msg("the sandbox of an upstream has refused connections")
				}
			}
		}
		gone, err := process.StartConfined(cmd, &policy)
		if err != nil {
			end()
			remove(folder)
		}
		return func() { gone(); end() }, err
	}
	guard = func(pgid int) (release func()) {
		own, unguard := folder, l.guard(pgid)
		return func() {
			unguard()
			remove(own)
		}
	}
	return start, guard
}

// Sandboxed reports whether the server runs in a sandbox.
func (d *definition) Sandboxed() bool { return d.sandbox != nil }
