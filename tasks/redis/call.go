package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"runnel/internal/pause"
	"runnel/tasks"
	"runnel/tasks/engine"
)

//go:embed *.lua
var files embed.FS

// scripts are the Lua scripts by name, made when the first is used: most processes use none.
var scripts = sync.OnceValue(func() map[string]*rueidis.Lua {
	text := func(name string) string {
		b, err := files.ReadFile(name)
		if err != nil {
			panic("internal error: " + err.Error())
		}
		return string(b)
	}
	all := map[string]*rueidis.Lua{}
	common := text("common.lua")
	check := text("check.lua")
	for _, name := range []string{"open", "load"} {
		all[name] = rueidis.NewLuaScript(common + text(name+".lua"))
	}
	for _, name := range []string{"lease", "put", "append", "finish", "take", "set", "ask", "fetched",
		"delete", "unmark", "sweep", "session"} {
		all[name] = rueidis.NewLuaScript(common + check + text(name+".lua"))
	}
	return all
})

const (
	// writeTimeout is how long a write waits for the server, which may be restarting, before it is refused
	// with tasks.ErrBusy.
	writeTimeout = 10 * time.Second
	readTimeout  = 5 * time.Second
	// tryAgain is the pause before an unanswered request is sent again.
	tryAgain = 100 * time.Millisecond
)

// call runs a script, and sends it again until it is answered or ctx ends: then the error is tasks.ErrBusy.
// left is how long what belongs to the task is kept. It returns the script's answer.
func (sp *space) call(ctx context.Context, script, id string, left time.Duration,
	args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answer, err := sp.try(ctx, func() rueidis.RedisResult { return sp.exec(ctx, script, id, left, args) })
	if err != nil {
		return "", err
	}
	said, err := answer.ToString()
	switch {
	case err != nil:
		return "", refused(err)
	case said == "removed":
		sp.Log.Error().Str("owner", sp.Owner).
			Msg("the server of the state has lost what it had stored: " + sp.root +
				"* begins again, and its tasks are lost")
		if _, err := sp.call(ctx, "open", "", 0); err != nil {
			return "", err
		}
		return sp.call(ctx, script, id, left, args...)
	case said == "newer":
		return "", engine.Newer(sp.root + "*")
	case said == "fenced":
		return "", tasks.ErrFenced
	}
	return said, nil
}

func (sp *space) exec(ctx context.Context, script, id string, left time.Duration,
	args []string) rueidis.RedisResult {
	all := slices.Concat([]string{schema, sp.Keeper, id, strconv.FormatInt(left.Milliseconds(), 10)}, args)
	return scripts()[script].Exec(ctx, sp.server.client, []string{sp.root}, all)
}

// try sends a request until it is answered, and words refusals for people.
func (sp *space) try(ctx context.Context, ask func() rueidis.RedisResult) (rueidis.RedisMessage, error) {
	for {
		answer := ask()
		err := answer.Error()
		refusal, said := rueidis.IsRedisErr(err)
		switch {
		case err == nil || rueidis.IsRedisNil(err):
			message, _ := answer.ToMessage() // nil for a key that is not there
			return message, nil
		case said && !passes(refusal.Error()):
			return rueidis.RedisMessage{}, refused(err)
		case errors.Is(err, rueidis.ErrClosing):
			return rueidis.RedisMessage{}, err
		case errors.As(err, new(badReply)):
			return rueidis.RedisMessage{}, sp.unreachable(err)
		}
		if !pause.For(ctx, tryAgain) {
			return rueidis.RedisMessage{}, sp.unreachable(err)
		}
	}
}

// passes reports whether a refusal is temporary: the server starts, or another one is about to take its
// place.
func passes(refusal string) bool {
	code, _, _ := strings.Cut(refusal, " ")
	return slices.Contains([]string{"LOADING", "MASTERDOWN", "READONLY", "BUSY", "TRYAGAIN", "CLUSTERDOWN"},
		code)
}

// read is try for one command, with the time limit of reads.
func (sp *space) read(ctx context.Context,
	command func(b rueidis.Builder) rueidis.Completed) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c := sp.server.client
	return sp.try(ctx, func() rueidis.RedisResult { return c.Do(ctx, command(c.B())) })
}

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

// These errors tell people why a server cannot store or answer.

// inScript is what an error in a script says about the script: its line comes before the reason, its hash
// after it.
var inScript = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`@?user_script:\d+:\s*| script: [0-9a-f]+, on @user_script:\d+\.?|Error running script.*?: `)
})

// refused turns a refusal into an error that says what the user can do.
func refused(refusal error) error {
	said := refusal.Error()
	scripted := inScript().MatchString(said)
	said = inScript().ReplaceAllString(said, "")
	var err error
	switch {
	case strings.Contains(said, "OOM "):
		err = fmt.Errorf("%w: wait for tasks to expire, prune some (runnel tasks prune), or give the "+
			"server more memory (maxmemory): %s", engine.ErrNoRoom, said)
	case strings.Contains(said, "MISCONF"):
		err = fmt.Errorf("the server cannot save the state to its disk, and takes nothing more: make room "+
			"there: %s", said)
	case strings.Contains(said, "NOPERM") || strings.Contains(said, "ACL failure") ||
		strings.Contains(said, "user executing the script can't"):
		err = fmt.Errorf("the state refuses it to this user: \"runnel help states\" says what its ACL "+
			"must allow: %s", said)
	case strings.HasPrefix(said, "NOAUTH") || strings.HasPrefix(said, "WRONGPASS"):
		err = fmt.Errorf("the state asks for other credentials: name a file with USER PASSWORD by "+
			"?creds=FILE or RUNNEL_REDIS_CREDS: %s", said)
	case scripted:
		err = fmt.Errorf("something other than runnel has changed the keys of the state: delete the "+
			"damaged one, or use another prefix (?prefix=NAME): %s", said)
	default:
		err = fmt.Errorf("the state refuses it: %s", said)
	}
	return tasks.Trouble{Err: err}
}

// unconnected explains why the connection failed.
func unconnected(err error) error {
	if _, said := rueidis.IsRedisErr(err); said {
		return refused(err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(badReply)) {
		return fmt.Errorf("it does not answer as Redis does: name a Redis server, with rediss:// if it "+
			"speaks TLS, otherwise with redis://: %w", err)
	}
	return err
}

// unreachable explains why no answer has come.
func (sp *space) unreachable(err error) error {
	if errors.As(err, new(badReply)) {
		return tasks.Trouble{Err: unconnected(err)}
	}
	return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("the state at %s has not answered: %w",
		sp.server.o.Server, err)}}
}
