package redis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"runnel/tasks"
)

// session is the key of an HTTP client's session.
func (sp *space) session(id string) string { return sp.root + "session:" + id }

// Session implements engine.Driver.
func (sp *space) Session(ctx context.Context, id string) (session []byte, version uint64, err error) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Hgetall().Key(sp.session(id)).Build()
	})
	if err != nil {
		return nil, 0, err
	}
	fields, err := answer.AsStrMap()
	if err != nil || fields["data"] == "" {
		return nil, 0, err
	}
	version, err = strconv.ParseUint(fields["version"], 10, 64)
	return []byte(fields["data"]), version, err
}

// PutSession implements engine.Driver.
func (sp *space) PutSession(ctx context.Context, id string, session []byte, version uint64) (uint64, error) {
	said, err := sp.call(ctx, "session", id, tasks.SessionTTL, strconv.FormatUint(version, 10),
		string(session))
	if err != nil || said == "changed" {
		return 0, err
	}
	return strconv.ParseUint(said, 10, 64)
}

// DeleteSession implements engine.Driver.
func (sp *space) DeleteSession(ctx context.Context, id string) error {
	_, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Del().Key(sp.session(id)).Build()
	})
	return err
}
