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
	Dir      string       // made with mode 0700 if it is not there
	MaxState int64        // bytes of the database; 0 = tasks.DefaultMaxState
	Limits   tasks.Limits // for each owner, over all processes
	Calls    bool         // finds calls without a handle that run, too: for people, never for clients
	Log      zerolog.Logger

	Now func() time.Time // nil = time.Now
}

const (
	// busyTimeout is how long a write waits for another process: far longer than any transaction takes.
	busyTimeout = 10 * time.Second
	readers     = 4 // connections that read
	// cacheKiB of pages are kept by each connection, which take half as much again. Twice as many buy nothing: what is read again is
	// in the system's memory, too.
	cacheKiB     = 1024
	databaseFile = "runnel.db"
	leaseDir     = "alive"
)

// visible is the condition for a task that can be seen at a time, as Task.Expired has it, and is not hidden, unless that is wanted.
func (o *Options) visible() string {
	if o.Calls {
		return "(expires > ? OR keeper IS NOT NULL)"
	}
	return "(expires > ? OR keeper IS NOT NULL AND expires >= 0)"
}

// dsn names a database file and what holds for every connection.
func dsn(file string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		fmt.Sprintf("cache_size(-%d)", cacheKiB),
	}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: q.Encode()}).String()
}
