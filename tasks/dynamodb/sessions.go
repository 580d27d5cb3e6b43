package dynamodb

import (
	"bytes"
	"context"

	"runnel/tasks"
)

// Session implements engine.Driver.
func (sp *space) Session(ctx context.Context, id string) (session []byte, version uint64, err error) {
	i, err := sp.get(ctx, sp.key("session", id))
	if err != nil {
		return nil, 0, err
	}
	expires, _ := numberOf(i, "expires")
	stored, _ := numberOf(i, "version")
	if expires <= sp.of.Now().Unix() { // DynamoDB deletes it within some days
		return nil, 0, nil
	}
	return dataOf(i, "data"), uint64(stored), nil
}

// PutSession implements engine.Driver.
func (sp *space) PutSession(ctx context.Context, id string, session []byte, version uint64) (uint64, error) {
	now := sp.of.Now()
	values := item{
		":data": data(session), ":before": number(int64(version)), ":version": number(int64(version) + 1),
		":expires": number(now.Add(tasks.SessionTTL).Unix()),
	}
	condition := "#version = :before"
	if version == 0 {
		condition = "attribute_not_exists(#pk) OR #expires <= :now"
		delete(values, ":before")
		values[":now"] = number(now.Unix())
	}
	const set = "SET #data = :data, #version = :version, #expires = :expires"
	err := sp.write(ctx, sp.update(sp.key("session", id), set, condition, values))
	if there, refused := found(err); refused { // perhaps by itself: the answer to the first request was lost
		stored, _ := numberOf(there, "version")
		if uint64(stored) != version+1 || !bytes.Equal(dataOf(there, "data"), session) {
			return 0, nil
		}
		err = nil
	}
	return version + 1, err
}

// DeleteSession implements engine.Driver.
func (sp *space) DeleteSession(ctx context.Context, id string) error {
	return sp.write(ctx, sp.remove(sp.key("session", id)))
}
