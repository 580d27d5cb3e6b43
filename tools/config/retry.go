package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Retry says how often a call is begun again, and after which failures. Instead of the mapping, a number
// stands for how often it is after the death of its worker alone.
type Retry struct {
	Times   int       `yaml:"times"`   // after the first attempt
	Backoff *Duration `yaml:"backoff"` // before the second attempt, and doubled for each later one; default 1 s
	On      []int     `yaml:"on"`      // exit codes; nil = all that are failures, and signals
	Timeout bool      `yaml:"timeout"` // also after a timeout
}

const (
	// limitRetry is more often than anybody needs.
	limitRetry = 100
	// maxBackoff bounds the pause before an attempt, however often it was doubled.
	maxBackoff = time.Hour
)

// SetShort reads the number that may replace the mapping.
func (r *Retry) SetShort(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return Wrong("such as 2, or {times: 2, backoff: 5s, on: [1]}", "%q is not a whole number", text)
	}
	*r = Retry{Times: n, On: []int{}}
	return nil
}

// After reports whether a call is begun again after an exit code; nil means that a signal has ended the
// command.
func (r *Retry) After(code *int) bool {
	return r.On == nil || code != nil && slices.Contains(r.On, *code)
}

// Pause returns how long a call waits before an attempt, of which the first is 1.
func (r *Retry) Pause(attempt int) time.Duration {
	wait := time.Second
	if r.Backoff != nil {
		wait = time.Duration(*r.Backoff)
	}
	for ; attempt > 2 && wait < maxBackoff; attempt-- {
		wait *= 2
	}
	return min(wait, maxBackoff)
}

// complete checks the values.
func (r *Retry) complete() *Error {
	if r.Times < 0 || r.Times > limitRetry {
		return &Error{Key: "times", Problem: fmt.Sprintf("%d is out of range", r.Times),
			Allowed: fmt.Sprintf("0 to %d", limitRetry)}
	}
	if r.Backoff != nil && (*r.Backoff < 0 || *r.Backoff > Duration(maxBackoff)) {
		return &Error{Key: "backoff", Problem: r.Backoff.String() + " is out of range", Allowed: "0 to 1h"}
	}
	for i, code := range r.On {
		if code < 0 || code > 255 {
			return &Error{Key: fmt.Sprintf("on[%d]", i), Problem: fmt.Sprintf("%d is not an exit code", code),
				Allowed: "0 to 255"}
		}
	}
	return nil
}
