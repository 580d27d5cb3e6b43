package sqlite

import (
	"fmt"
	"net/url"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
)

// Options of a State.
type Options struct {
	Dir      string       // made with mode 0700 if it is missing
	MaxState int64        // bytes of the database; 0 = tasks.DefaultMaxState
	Limits   tasks.Limits // for each owner, over all processes
	// Calls has calls without a handle found, too, running ones and the history: for people, never for
	// clients.
	Calls   bool
	History tasks.History
	Log     zerolog.Logger
	// Recovered, if set, gets each task that this process has ended because its keeper is gone. It must not
	// block.
	Recovered func(t *tasks.Task)

	Now func() time.Time // nil = time.Now
}

const (
	// busyTimeout is how long a write waits for another process: far longer than any transaction takes.
	busyTimeout = 10 * time.Second
	readers     = 4 // connections that read
	// cacheKiB is the size of each connection's page cache, which takes half as much again. Twice the size
	// gains nothing, since the system caches the file, too.
	cacheKiB     = 1024
	databaseFile = "runnel.db"
	leaseDir     = "alive"
)

// visible is the condition for a task that has not expired at a time (see Task.Expired) and, unless wanted,
// has a handle.
func (o *Options) visible() string {
	if o.Calls && o.History.Calls > 0 { // what has expired is soon in the history
		return "(expires > 0 OR -expires > ? OR keeper IS NOT NULL)"
	}
	if o.Calls {
		return "(abs(expires) > ? OR keeper IS NOT NULL)"
	}
	return "(expires > ? OR keeper IS NOT NULL AND expires >= 0)"
}

// dsn returns the name of a database file, with the settings of every connection.
func dsn(file string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		fmt.Sprintf("cache_size(-%d)", cacheKiB),
	}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: q.Encode()}).String()
}
