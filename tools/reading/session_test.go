package reading

import (
	"fmt"
	"testing"
)

// A session remembers what it has read of the last so many tasks.
func TestPlacesAreBounded(t *testing.T) {
	r := &Session{places: map[string]Place{}}
	for n := range 2 * maxPlaces {
		r.Set(fmt.Sprint(n), Place{Next: 1})
		r.Set(fmt.Sprint(n), Place{Next: int64(n)})
	}
	if len(r.places) != maxPlaces || len(r.oldest) != maxPlaces || r.Place("0").Next != 0 ||
		r.Place(fmt.Sprint(2*maxPlaces-1)).Next != 2*maxPlaces-1 {
		t.Errorf("%d places, %d in order", len(r.places), len(r.oldest))
	}
}
