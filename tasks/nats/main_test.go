//go:build unix

package nats

import (
	"os"
	"testing"

	"runnel/internal/natstest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	natstest.CleanUp()
	os.Exit(code)
}
