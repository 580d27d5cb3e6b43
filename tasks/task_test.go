package tasks

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"runnel/rpc/mcp"
)

// Ids of one moment stand beside each other, and have all else to chance.
func TestIDsOfOneMoment(t *testing.T) {
	now := time.UnixMilli(0x0123_4567_89ab)
	const ids = 1000
	seen := map[string]bool{}
	var ones, zeros uuid.UUID // bits that were 1 in any, or 0
	for range ids {
		id := NewID(now)
		if id[:4] != "89ab" || seen[id] {
			t.Fatalf("the id is %s", id)
		}
		seen[id] = true
		u := uuid.MustParse(id)
		if u.Version() != 4 || u.Variant() != uuid.RFC4122 {
			t.Fatalf("%s is of version %d, %v", id, u.Version(), u.Variant())
		}
		for i, b := range u {
			ones[i] |= b
			zeros[i] |= ^b
		}
	}
	if want := (uuid.UUID{2: 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff}); and(ones, zeros) != want {
		t.Errorf("the random bits are %x, want %x", and(ones, zeros), want)
	}
}

func and(a, b uuid.UUID) uuid.UUID {
	for i := range a {
		a[i] &= b[i]
	}
	return a
}

func TestTransitions(t *testing.T) {
	all := []mcp.TaskStatus{mcp.TaskWorking, mcp.TaskInputRequired, mcp.TaskCompleted, mcp.TaskFailed,
		mcp.TaskCancelled}
	for _, from := range all {
		for _, to := range all {
			want := !from.Terminal() && from != to
			if got := CheckMove(from, to) == nil; got != want {
				t.Errorf("%s to %s: allowed %v, want %v", from, to, got, want)
			}
		}
	}
}
