package cli

import (
	"testing"
	"time"

	"runnel/tasks"
)

// An id is shown as short as it can be.
func TestShortIDs(t *testing.T) {
	var list []tasks.Task
	for _, id := range []string{"aaaaaaaa-1", "aaaaaaaa-2", "bbbbbbbb-12", "bbbbbbbb-13", "bbbbbbbb-2", "cccccccc-1", "dddd", "dddd"} {
		list = append(list, tasks.Task{ID: id})
	}
	short := shortIDs(list)
	for id, want := range map[string]string{"aaaaaaaa-1": "aaaaaaaa-1", "bbbbbbbb-13": "bbbbbbbb-13", "bbbbbbbb-2": "bbbbbbbb-2", "cccccccc-1": "cccccccc", "dddd": "dddd"} {
		if short[id] != want {
			t.Errorf("%s: %q, want %q", id, short[id], want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 1510 * time.Millisecond: "1.5s", 10 * time.Second: "10s", 20 * time.Second: "20s",
		time.Minute: "1m", 10 * time.Minute: "10m", 10*time.Minute + 10*time.Second: "10m10s",
		time.Hour: "1h0m", 20*time.Hour + 10*time.Minute + 20*time.Second: "20h10m", 72 * time.Hour: "3d",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
