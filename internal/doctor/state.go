package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"runnel/internal/serve"
	"runnel/internal/system"
	"runnel/internal/term"
	"runnel/tasks/sqlite"
	"runnel/tools/config"
)

// state checks the place where tasks live. It leaves nothing there.
func (d *Doctor) state(ctx context.Context, conf *config.Config) {
	if conf.State.InMemory() {
		d.fine("state", "memory: tasks end with their process")
		return
	}
	if conf.State.IsURL() {
		d.remoteState(ctx, conf)
		return
	}
	dir, err := conf.StateDir(d.Getenv)
	if err != nil {
		d.bad("state", "%v: name a directory with --state", err)
		return
	}
	there := system.NearestDir(dir)
	if err := tryWriting(there); err != nil {
		d.bad("state", "%s cannot be written: %v", there, err)
		return
	}
	if room := system.FreeRoom(there); room < littleRoom {
		d.bad("disk", "%.1f MiB are free for %s, and new tasks are refused when it is full: free some of "+
			"it, or name a directory on another one with --state",
			float64(room)/(1<<20), there)
	}
	ctx, cancel := checking(ctx)
	defer cancel()
	r, err := sqlite.Check(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.fine("state", "%s: not there yet, the first task makes it", dir)
	case err != nil:
		d.bad("state", "%s: %v", dir, err)
	case r.Damage != nil:
		d.bad("state", "%s is damaged; move it away:\n%s", dir, strings.Join(r.Damage, "\n"))
	case r.Unsound != nil:
		d.bad("state", "some tasks in %s are damaged; the others are not. Forget each with runnel tasks "+
			"rm ID:\n%s", dir, strings.Join(r.Unsound, "\n"))
	case r.Open != nil:
		d.bad("state", "other users may read these files; take their rights with %s:\n%s", system.KeepPrivate,
			strings.Join(r.Open, "\n"))
	default:
		d.fine("state", "%s: %s, %d not ended, in use by %s, %.1f MiB", dir, term.Count(r.Tasks, "task"),
			r.Working, term.Count(r.Processes, "runnel"), float64(r.Bytes)/(1<<20))
	}
}

// remoteState checks whether the servers of a state answer.
func (d *Doctor) remoteState(ctx context.Context, conf *config.Config) {
	store, err := serve.OpenURL(conf, d.Getenv, true, d.Notices.Tell, d.Logger())
	if err != nil {
		d.bad("state", "%v", err)
		return
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := checking(ctx)
	defer cancel()
	servers := store.Open(conf.Server.Owner).(interface {
		Check(ctx context.Context) (string, error)
	})
	report, err := servers.Check(ctx)
	d.check("state", err, "%s: %s", conf.State.Dir, report)
}

// littleRoom is the number of free bytes below which doctor warns: a few logs of builds.
const littleRoom = 100 << 20

// tryWriting writes a file into a directory and removes it: on a full disk a file can be made, but not
// written.
func tryWriting(dir string) error {
	f, err := os.CreateTemp(dir, ".runnel-doctor-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10)) // about the size of an empty state
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// limits compares what the system allows with what the config allows.
func (d *Doctor) limits(conf *config.Config) {
	calls := conf.Tasks.MaxLive + conf.Limits.MaxInFlight
	fine := true
	files, processes := system.Limits()
	for _, l := range []struct {
		what    string
		allowed uint64
		flag    string // ulimit's
		need    int
	}{
		// A command's pipes, and what watches it.
		{"open files", files, "-n", 64 + 4*calls + 4*len(conf.Upstreams)},
		{"processes", processes, "-u", 32 + 2*calls + len(conf.Upstreams)}, // a shell, and what it runs
	} {
		if l.allowed < uint64(l.need) {
			fine = false
			d.bad("limits", "%d %s are allowed, and %d calls at once (tasks.maxLive and "+
				"limits.maxInFlight together) may need %d: allow more (ulimit %s %[4]d), or fewer calls",
				l.allowed, l.what, calls, l.need, l.flag)
		}
	}
	if fine {
		d.fine("limits", "enough files and processes for %d calls at once", calls)
	}
}
