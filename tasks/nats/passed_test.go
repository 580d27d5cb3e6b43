package nats

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
)

// A task whose message was acknowledged and stays in the stream reaches a worker all the same. A stream of
// the other kind of retention is such a server.
func TestPassedMessage(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	sp := spaceOf(t, front)
	if _, err := front.c.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: sp.queueName, Subjects: []string{sp.work + ">"}, AllowDirect: true, AllowMsgTTL: true,
		Metadata: map[string]string{schemaMember: schema, ownerMember: "local"},
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		task := offer(t, front, tasks.Offer{})
		consumer, err := sp.consumer(t.Context(), "builds")
		if err != nil {
			t.Fatal(err)
		}
		batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if err := (<-batch.Messages()).DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := sp.Reach(t.Context()); err != nil {
			t.Fatal(err)
		}
		if info, err := consumer.Info(t.Context()); err != nil || info.AckFloor.Consumer == 0 {
			t.Fatalf("one look has made the consumer again: %+v, %v", info, err)
		}
		if err := sp.Reach(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		o, err := worker.Next(ctx, []string{"local"}, []string{"builds"})
		stop()
		if err != nil || o.Task.ID != task.ID() {
			t.Fatalf("%+v, %v", o, err)
		}
		record, err := sp.Lookup(t.Context(), task.ID())
		if err != nil {
			t.Fatal(err)
		}
		sp.Unshow(t.Context(), record)
	}
}
