//go:build unix

package nats

import (
	"os"
	"testing"

	"runnel/tasks/nats/natstest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	natstest.CleanUp()
	os.Exit(code)
}
