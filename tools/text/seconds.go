package text

import (
	"strconv"
	"strings"
	"time"
)

// Seconds writes how long something took as a model reads it: 3.2 s, 12 s, 1800 s.
func Seconds(d time.Duration) string {
	if d >= 100*time.Second {
		d = d.Round(time.Second)
	}
	return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
}
