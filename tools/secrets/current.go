package secrets

import (
	"bytes"
	"io"
	"sync/atomic"
)

// Current is the Set of now, which another config may replace. A nil Current has none.
type Current struct{ set atomic.Pointer[Set] }

// Set is the Set of now, nil if there is none.
func (c *Current) Set() *Set {
	if c == nil {
		return nil
	}
	return c.set.Load()
}

// Replace makes s the Set of now.
func (c *Current) Replace(s *Set) { c.set.Store(s) }

// Writer masks what is written to a log, a line of JSON or of text at a time.
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
