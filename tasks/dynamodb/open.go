package dynamodb

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"runnel/tasks/engine"
)

// schema is the version of the items in the table.
const schema = 1

// Open implements engine.Engine.
func (s *server) Open(ctx context.Context, of *engine.Space) (engine.Driver, engine.Queue, error) {
	sp := &space{of: of, server: s, root: s.o.Prefix + ":" + of.Name + ":", last: rand.Uint64N(placeStep)}
	found, err := sp.version(ctx)
	if err == nil && found == "" {
		first := with(sp.key("schema", "schema"), item{"version": number(schema)})
		// Another process was quicker.
		if err = sp.write(ctx, sp.putNew(first)); err == nil || isCondition(err) {
			found, err = sp.version(ctx)
		}
	}
	if err == nil {
		err = engine.CheckSchema(sp.where(), found, strconv.Itoa(schema))
	}
	if err != nil {
		return nil, nil, err
	}
	return sp, nil, nil
}

// version returns the version of the items in the table; "" for a new one.
func (sp *space) version(ctx context.Context) (string, error) {
	i, err := sp.get(ctx, sp.key("schema", "schema"))
	if err != nil || i == nil {
		return "", err
	}
	if n, ok := i["version"].(*types.AttributeValueMemberN); ok {
		return n.Value, nil
	}
	return "unknown", nil
}

// check finds out whether the table still has the version that this runnel knows.
func (sp *space) check(ctx context.Context) error {
	found, err := sp.version(ctx)
	if err != nil {
		return err
	}
	switch found {
	case strconv.Itoa(schema):
		err = nil
	case "":
		err = engine.Removed(sp.where())
	default:
		err = engine.Newer(sp.where())
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.unusable = err
	return err
}
