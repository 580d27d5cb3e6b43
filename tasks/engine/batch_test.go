package engine

import "testing"

// A log of many short extents is cut in scripts of a bounded length: a server may wait for none, and take so
// many in one request.
func TestShortStretches(t *testing.T) {
	const limit, short = 2 << 20, 20
	var w written
	for end := int64(short); end <= limit; end += short {
		w.grow(end, limit)
	}
	longest := 0
	for range 2 * limit / short / mostExtents {
		for range mostExtents {
			w.grow(w.end+short, limit)
		}
		longest = max(longest, len(w.cut(limit)))
		if w.kept() > limit {
			t.Fatalf("%d bytes are kept at %d", w.kept(), w.end)
		}
	}
	if longest == 0 || longest > 10_000 {
		t.Errorf("%d extents are cut at once", longest)
	}
}
