package text

import (
	"strconv"
	"strings"
	"time"
)

// Seconds returns a duration for a model to read: 0.012 s, 3.2 s, 12 s, 1800 s; at least 0.001 s.
func Seconds(d time.Duration) string {
	digits := 1
	if ms := d.Round(time.Millisecond); d >= 100*time.Second {
		digits = 0
	} else if ms < 100*time.Millisecond {
		d, digits = max(ms, time.Millisecond), 3
	}
	return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', digits, 64), ".0") + " s"
}

// Age returns the duration of something that has not ended, in whole seconds, at least 1 s.
func Age(d time.Duration) string { return Seconds(max(d.Round(time.Second), time.Second)) }
