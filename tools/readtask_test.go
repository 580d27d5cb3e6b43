package tools

import (
	"fmt"
	"testing"
)

// A session remembers what it has read of the last so many tasks.
func TestReadsAreBounded(t *testing.T) {
	r := &reads{places: map[string]taskPlace{}}
	for n := range 2 * maxReads {
		r.set(fmt.Sprint(n), taskPlace{next: 1})
		r.set(fmt.Sprint(n), taskPlace{next: int64(n)})
	}
	if len(r.places) != maxReads || len(r.oldest) != maxReads || r.place("0").next != 0 ||
		r.place(fmt.Sprint(2*maxReads-1)).next != 2*maxReads-1 {
		t.Errorf("%d places, %d in order", len(r.places), len(r.oldest))
	}
}
