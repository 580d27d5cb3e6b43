package secrets

import (
	"bytes"
	"io"
	"sync/atomic"
)

// Current holds the current Set, which a changed config replaces. A nil Current has none. Use it where
// secrets must stay masked after the config was read again.
type Current struct{ set atomic.Pointer[Set] }

// Set returns the current Set, nil if there is none.
func (c *Current) Set() *Set {
	if c == nil {
		return nil
	}
	return c.set.Load()
}

// Replace makes s the current Set.
func (c *Current) Replace(s *Set) { c.set.Store(s) }

// Writer returns a writer that masks secrets on their way to a log. Each Write is one line, of JSON or of
// text.
func (c *Current) Writer(to io.Writer) io.Writer { return &lines{c, to} }

type lines struct {
	c  *Current
	to io.Writer
}

func (l *lines) Write(line []byte) (int, error) {
	masked := line
	if s := l.c.Set(); s != nil {
		body, end := bytes.CutSuffix(line, []byte("\n"))
		if masked = s.JSON(body); end {
			masked = append(bytes.Clone(masked), '\n')
		}
	}
	if _, err := l.to.Write(masked); err != nil {
		return 0, err
	}
	return len(line), nil
}
