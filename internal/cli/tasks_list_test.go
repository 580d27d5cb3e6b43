package cli

import (
	"testing"

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
