//go:build unix

package nats

import (
	"os"
	"testing"

	"runnel/tasks/nats/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main()
	os.Exit(m.Run())
}
