package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Ask implements tasks.Shared.
func (sp *Space) Ask(ctx context.Context, id string) error {
	r, err := sp.Lookup(ctx, id)
	if errors.Is(err, tasks.ErrNotFound) || err == nil && r.Terminal() {
		return nil
	} else if err != nil {
		return err
	}
	if r.Waits() {
		if err := sp.endUnkept(ctx, r, mcp.TaskCancelled, "cancelled by the client"); err != nil {
			return err
		}
		return sp.Ask(ctx, id) // a worker may have been faster
	}
	if r.Stored.Keeper == sp.Keeper {
		sp.Want(id)
		return nil
	}
	if r.resumes() {
		// A keeper without a lease that lives all the same is fenced off: its task was to end anyway.
		alive, err := sp.Alive(ctx)
		if err == nil && !slices.Contains(alive, r.Stored.Keeper) {
			ended, err := sp.conclude(ctx, r, func(t *tasks.Task) {
				t.EndUnkept(ctx, mcp.TaskCancelled, "cancelled while no runnel ran it")
			})
			if err != nil || ended {
				return err
			}
			return sp.Ask(ctx, id) // another process was faster, and runs it now
		} else if err != nil {
			return err
		}
	}
	return sp.Driver.Ask(ctx, r)
}

const (
	// lookInterval is how often a task of another process is read even without news.
	lookInterval = time.Second
	// waitingLooks is how many such intervals pass between two reads of a waiting task's record: its place in
	// line says almost everything.
	waitingLooks = 10
)

// following is how a task of another process is followed from one Watch to the next: what is stored between
// them is heard, so that a Watch need not look first.
type following struct {
	Hearing
	record *Record     // as it was stored last; nil if it must be read
	news   *News       // not looked at yet
	read   time.Time   // when the record was last read
	idle   *time.Timer // ends it if there is no other Watch
}

// followIdle is how long it waits for the next Watch, which comes immediately if the task is followed at all.
const followIdle = 10 * time.Second

// Watch implements tasks.Shared.
func (sp *Space) Watch(ctx context.Context, t *tasks.Task) (err error) {
	if err = sp.Ready(ctx); err != nil {
		return err
	}
	log := t.Log
	sp.mu.Lock()
	f := sp.following[log]
	delete(sp.following, log)
	sp.mu.Unlock()
	if f == nil || !f.idle.Stop() {
		f = &following{}
		if f.Hearing, err = sp.Hear(sp.ctx, t.ID); err != nil {
			return err
		}
	}
	if err = sp.watch(ctx, f, t); err != nil || t.Status.Terminal() {
		f.Close()
		return err
	}
	f.Found()
	sp.follow(log, f)
	return nil
}

// follow keeps a following for the next Watch of the task with a log.
func (sp *Space) follow(log *partials.Log, f *following) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.following[log] = f
	f.idle = time.AfterFunc(followIdle, func() {
		sp.mu.Lock()
		if sp.following[log] == f {
			delete(sp.following, log)
		}
		sp.mu.Unlock()
		f.Close()
	})
}

// watch is Watch with a following.
func (sp *Space) watch(ctx context.Context, f *following, t *tasks.Task) error {
	for {
		if f.record == nil || f.news != nil {
			changed, err := sp.look(ctx, f, t)
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if changed || err != nil {
				return err
			}
		}
		for looks := 1; ; looks++ {
			wait, cancel := context.WithTimeout(ctx, lookInterval)
			news, err := f.Wait(wait)
			silent := wait.Err() != nil
			cancel()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil && !silent {
				return err
			}
			if f.record == nil || !silent || looks == waitingLooks || !sp.waitsOn(ctx, f.record, t) {
				f.news = &news
				break
			}
		}
	}
}

// look brings a task of another process up to date. It reads what the news do not say. Now and then it reads
// everything, since news may have been missed.
func (sp *Space) look(ctx context.Context, f *following, t *tasks.Task) (changed bool, err error) {
	r, news := f.record, f.news
	f.record, f.news = nil, nil // if this look fails, the next one reads everything
	all := r == nil || news == nil || news.none() || time.Since(f.read) > lookInterval
	if all {
		f.read, news = time.Now(), &News{}
		if r, err = sp.Read(ctx, t.ID); err != nil {
			return false, err
		}
		news.Record = r
	} else if newer := news.Record; newer == nil || newer.Revision <= r.Revision {
		news.Record = nil
	} else {
		if !newer.Terminal() {
			newer.Variables, newer.Seen = r.Variables, r.Seen
			newer.End = r.End
		}
		r = newer
	}
	if news.Record != nil {
		if r.Expired(sp.Now()) {
			return false, tasks.ErrNotFound
		}
		if over, err := sp.Expire(ctx, r); err != nil {
			return false, err
		} else if over {
			return sp.look(ctx, f, t)
		}
		sp.describe(ctx, r)
		if err := sp.outcome(ctx, r, news.Outcome); err != nil {
			return false, err
		}
	}
	r.Partly, r.End = false, max(r.End, news.End)
	size := t.Log.Size()
	follows := t.Log.Follows(r.End)
	if r.Ahead = news.Output; len(r.Ahead) > 0 && r.Ahead[0].Start > size {
		r.Ahead = nil
	}
	if all || len(r.Ahead) == 0 && r.End > size && follows {
		if !follows {
			size = NoOutput
		}
		if err := sp.Extent(ctx, r, size); err != nil {
			return false, err
		}
	}
	changed, err = t.Update(ctx, tasks.Newer{Task: r.Task, Ending: r.Ending, End: r.End, Output: sp.output(r),
		Ends: func(ctx context.Context, n int, last int64) ([]int64, error) {
			known := r.Numbers(n, last)
			for _, row := range news.Numbers {
				if more, err := known.Add(row.First, row.Row); err != nil || !more {
					break
				}
			}
			if known.Last == r.End {
				return known.Ends()
			}
			return sp.Ends(ctx, r, n, last)
		}})
	if r.Ahead = nil; err == nil && !r.Partly {
		f.record = r
	}
	return changed, err
}

// waitsOn reports whether a task still waits, from its place in line alone.
func (sp *Space) waitsOn(ctx context.Context, r *Record, t *tasks.Task) bool {
	if !r.Waits() || r.overdue(sp.Now()) {
		return false
	}
	line, err := sp.lineUp(ctx, false)
	return err == nil && line.shows(r) && waitingMessage(r, line) == t.StatusMessage
}

const (
	// heedInterval is how often Heed repeats what it has returned.
	heedInterval = 250 * time.Millisecond
	// heedMost is how long it waits before it looks by itself, so that a runner with nothing left to watch
	// can stop.
	heedMost = time.Second
)

// Notice wakes everyone who waits in Heed, or the next caller.
func (sp *Space) Notice() { sp.news.send() }

// Heed implements tasks.Shared. It opens nothing: a space that is not open runs no task.
func (sp *Space) Heed(ctx context.Context) (asked, fenced []string, err error) {
	sent, unread := sp.news.read()
	wait := heedMost
	if asked, fenced, err = sp.heard(ctx); err == nil && len(asked)+len(fenced) > 0 {
		if wait = heedInterval; unread {
			return asked, fenced, nil
		}
	}
	select {
	case <-sent:
		sp.news.read()
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	return sp.heard(ctx)
}

// heard returns the tasks of this process that others ask to cancel, and those that others have ended.
func (sp *Space) heard(ctx context.Context) (asked, fenced []string, err error) {
	sp.mu.Lock()
	asked, fenced = slices.Collect(maps.Keys(sp.wanted)), slices.Collect(maps.Keys(sp.fenced))
	runs := len(sp.live)
	sp.mu.Unlock()
	if runs == 0 {
		return asked, fenced, nil
	}
	stored, err := sp.Asked(ctx)
	return append(asked, slices.DeleteFunc(stored, func(id string) bool { return sp.kept(id) == nil })...),
		fenced, err
}

// news announces that there is something for Heed, to all calls of it that wait, or to the next one.
type news struct {
	mu     sync.Mutex
	sent   chan struct{} // closed by send
	unread bool          // send was called since read
}

func (n *news) send() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unread = true
	close(n.sent)
	n.sent = make(chan struct{})
}

// read returns a channel that the next send closes, and reports whether there was one since the last read.
func (n *news) read() (sent <-chan struct{}, unread bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	unread = n.unread
	n.unread = false
	return n.sent, unread
}

var _ tasks.Sessions = (*Space)(nil)

// Session implements tasks.Sessions.
func (sp *Space) Session(ctx context.Context, id string) (session []byte, version uint64, err error) {
	if !IsToken(id) { // a client has made it up
		return nil, 0, nil
	}
	if err := sp.Ready(ctx); err != nil {
		return nil, 0, err
	}
	return sp.Driver.Session(ctx, id)
}

// PutSession implements tasks.Sessions.
func (sp *Space) PutSession(ctx context.Context, id string, session []byte,
	version uint64) (uint64, error) {
	if err := sp.Ready(ctx); err != nil {
		return 0, err
	}
	return sp.Driver.PutSession(ctx, id, session, version)
}

// DeleteSession implements tasks.Sessions.
func (sp *Space) DeleteSession(ctx context.Context, id string) error {
	if err := sp.Ready(ctx); err != nil {
		return err
	}
	return sp.Driver.DeleteSession(ctx, id)
}
