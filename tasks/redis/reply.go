package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
)

// The client makes an array of any length and goes down to any depth that a reply names, so that a few bytes
// of another server can end this process. No reply to runnel comes near these limits: the longest are a
// result and the numbers of a task's segments.
const (
	maxReplyBytes    = 128 << 20
	maxReplyElements = 4 << 20 // of 40 bytes each
	maxReplyDepth    = 16
	maxReplyLine     = 32 << 10 // the client's reader takes a number of bufferBytes at most
)

// badReply says what is wrong with a reply.
type badReply string

func (b badReply) Error() string { return string(b) }

// boundedConn is a connection to the server. What it reads are replies within the limits: the first that is
// none ends the connection. It follows the RESP specification
// (https://redis.io/docs/latest/develop/reference/protocol-spec/), without what Redis sends to none:
// attributes, and strings and arrays without a length.
type boundedConn struct {
	net.Conn

	line     []byte // the start of a line, whose rest has not been read yet
	skip     int    // bytes of a string that come next
	open     []int  // how many elements each array that has begun still needs, outermost first
	elements int    // of the reply
	size     int    // of the reply
}

// dialBounded connects as the client does by itself.
func dialBounded(ctx context.Context, address string, dialer *net.Dialer,
	config *tls.Config) (net.Conn, error) {
	var conn net.Conn
	var err error
	if config != nil {
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = dialer.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	return &boundedConn{Conn: conn}, nil
}

func (c *boundedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		if c.skip > 0 {
			passed := min(c.skip, len(rest))
			rest, c.skip = rest[passed:], c.skip-passed
			if c.skip == 0 {
				c.end()
			}
			continue
		}
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if c.line = append(c.line, line...); len(c.line) > maxReplyLine {
			return 0, c.refuse(fmt.Sprintf("a line of more than %d bytes", maxReplyLine))
		}
		if !whole {
			break
		}
		if wrong := c.take(c.line); wrong != "" {
			return 0, c.refuse(wrong)
		}
		c.line = c.line[:0]
	}
	return n, err
}

func (c *boundedConn) refuse(wrong string) error {
	_ = c.Close()
	return badReply(wrong)
}

// take follows a line without its LF: a whole value, or the head of a string or an array. It returns what is
// wrong with it.
func (c *boundedConn) take(line []byte) (wrong string) {
	if len(line) < 2 || line[len(line)-1] != '\r' {
		return fmt.Sprintf("the line %.40q", line)
	}
	kind, text := line[0], line[1:len(line)-1]
	c.size += len(line)
	switch kind {
	case '+', '-', ':', ',', '(':
		c.end()
	case '_', '#': // the client takes what is too much in them for the next line
		if kind == '_' && len(text) != 0 || kind == '#' && len(text) != 1 {
			return fmt.Sprintf("the line %.40q", line)
		}
		c.end()
	case '$', '!', '=':
		length, err := strconv.Atoi(string(text))
		if err != nil || length < -1 || length > maxReplyBytes {
			return fmt.Sprintf("a string of %.40q bytes", text)
		}
		if length == -1 { // null
			c.end()
			break
		}
		c.size += length
		c.skip = length + len("\r\n")
	case '*', '~', '>', '%':
		length, err := strconv.Atoi(string(text))
		if err != nil || length < -1 || length > maxReplyElements || kind == '%' && length < 0 {
			return fmt.Sprintf("an array of %.40q elements", text)
		}
		if kind == '%' {
			length *= 2
		}
		c.elements += max(0, length)
		if length <= 0 {
			c.end()
			break
		}
		if c.open = append(c.open, length); len(c.open) > maxReplyDepth {
			return fmt.Sprintf("arrays in arrays, more than %d deep", maxReplyDepth)
		}
	default:
		return fmt.Sprintf("the line %.40q", line)
	}
	if c.size > maxReplyBytes || c.elements > maxReplyElements {
		return fmt.Sprintf("a reply of more than %d bytes or %d elements", maxReplyBytes, maxReplyElements)
	}
	return ""
}

// end counts a value that has ended, and the arrays that end with it.
func (c *boundedConn) end() {
	for len(c.open) > 0 {
		last := len(c.open) - 1
		if c.open[last]--; c.open[last] > 0 {
			return
		}
		c.open = c.open[:last]
	}
	c.elements, c.size = 0, 0
}
