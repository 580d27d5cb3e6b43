package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration in Go's notation (300ms, 30m, 1h30m), or a number of days (7d).
type Duration time.Duration

// UnmarshalText reads a duration. A bare number other than 0 is refused, because it has no unit.
func (d *Duration) UnmarshalText(text []byte) error {
	if days, ok := strings.CutSuffix(string(text), "d"); ok && len(days) <= 5 {
		if n, err := strconv.ParseUint(days, 10, 32); err == nil {
			*d = Duration(n) * Duration(24*time.Hour)
			return nil
		}
	}
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return Wrong("a number and its unit, such as 300ms, 5s, 30m, 1h30m", "%q is not a duration", text)
	}
	*d = Duration(v)
	return nil
}

// Kind implements strict.Kind.
func (*Duration) Kind() string { return "a duration" }

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the duration without the zero units that time.Duration appends: 30m, not 30m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// Size is a number of bytes, written as 65536, 64KiB, 16MiB or 1GiB.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(strings.TrimSpace(string(text)), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		*s = Size(n * unit.bytes)
		return nil
	}
	return Wrong("a number of bytes, or one with KiB, MiB or GiB, such as 64KiB", "%q is not a size", text)
}

// Kind implements strict.Kind.
func (*Size) Kind() string { return "a size" }

// MarshalText writes the size as String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the size in the largest unit that divides it.
func (s Size) String() string {
	for i := 3; i >= 0 && s > 0; i-- {
		if unit := sizeUnits[i]; int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// oneOf reads one of the allowed words.
func oneOf(to *string, text string, allowed ...string) error {
	if !slices.Contains(allowed, text) {
		return Wrong(strings.Join(allowed, ", "), "%q is unknown", text)
	}
	*to = text
	return nil
}
