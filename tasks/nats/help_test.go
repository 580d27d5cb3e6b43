package nats

import (
	"net/url"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func purge(subject string) jetstream.StreamPurgeOpt { return jetstream.WithPurgeSubject(subject) }

func portOf(t *testing.T, address string) int {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
