package redis

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/redis/rueidis"

	"runnel/tasks"
)

// badReplies are replies that would end a process, or fill its memory, with what the error says of each.
var badReplies = map[string]struct{ reply, says string }{
	"long array":           {"*1000000000\r\n", "an array of"},
	"long map":             {"%1000000000\r\n", "an array of"},
	"long set":             {"~4194305\r\n", "an array of"},
	"long push":            {">1000000000\r\n", "an array of"},
	"number that is none":  {"*18446744073709551617\r\n", "an array of"},
	"negative array":       {"*-5\r\n", "an array of"},
	"negative map":         {"%-1\r\n", "an array of"},
	"many arrays":          {"*4194304\r\n*1\r\n", "a reply of more than"},
	"deep":                 {strings.Repeat("*1\r\n", 100_000), "deep"},
	"deep maps":            {strings.Repeat("%1\r\n+key\r\n", 100_000), "deep"},
	"long string":          {"$9000000000\r\n", "a string of"},
	"longest string":       {"$9223372036854775807\r\n", "a string of"},
	"negative string":      {"$-7\r\n", "a string of"},
	"many strings":         {"*2\r\n$5\r\nhello\r\n$134217728\r\n", "a reply of more than"},
	"no end":               {"+" + strings.Repeat("x", 1<<20), "a line of more than"},
	"no end of a number":   {"*" + strings.Repeat("0", 1<<20), "a line of more than"},
	"no length":            {"*?\r\n", "an array of"},
	"string of no length":  {"$?\r\n", "a string of"},
	"attribute":            {"|1000000000\r\n", "the line"},
	"null that has more":   {"_xx*1000000000\r\n", "the line"},
	"bool that has more":   {"#txx*1000000000\r\n", "the line"},
	"LF alone":             {"*10\n", "the line"},
	"empty line":           {"\r\n", "the line"},
	"what is not Redis":    {"HTTP/1.1 400 Bad Request\r\n", "the line"},
	"after a good element": {"*3\r\n+OK\r\n$3\r\n*9\n\r\n%1000000000\r\n", "an array of"},
}

// A server whose replies are none of Redis ends no process: each is an error that says so, when connecting
// and later.
func TestBadReplies(t *testing.T) {
	for name, bad := range badReplies {
		for _, when := range []string{"first", "later"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = listener.Close() }()
				go func() {
					for {
						conn, err := listener.Accept()
						if err != nil {
							return
						}
						go answer(conn, when == "later", bad.reply)
					}
				}()
				state := New(Options{Server: listener.Addr().String()})
				for range 2 {
					_, err := state.Open("local").Get(t.Context(), "a")
					if !errors.As(err, new(tasks.Trouble)) ||
						!strings.Contains(err.Error(), "name a Redis server") ||
						!strings.Contains(err.Error(), bad.says) {
						t.Errorf("%v, want one that says %q", err, bad.says)
					}
				}
				_ = state.Close() // does not wait for the reply
			})
		}
	}
}

// A client that does not close keeps no runnel from ending.
func TestClientThatDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing := make(chan struct{})
		s := &connection{client: hungClient{closing: closing}}
		for range 2 {
			s.Disconnect()
		}
		close(closing)
	})
}

type hungClient struct {
	rueidis.Client
	closing chan struct{}
}

func (c hungClient) Close() { <-c.closing }

// answer is a server that greets as Redis does, or not, and says the same to everything else.
func answer(conn net.Conn, greets bool, reply string) {
	defer func() { _ = conn.Close() }()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		switch text := lines.Text(); {
		case greets && text == "HELLO":
			_, _ = io.WriteString(conn, "%2\r\n+proto\r\n:3\r\n+version\r\n+7.0.0\r\n")
		case text == "HELLO" || text == "EVALSHA" || text == "EVAL" || text == "SUBSCRIBE":
			_, _ = io.WriteString(conn, reply)
		}
	}
}

// Every reply within the limits passes as it is, however it is cut.
func TestGoodReplies(t *testing.T) {
	replies := "+OK\r\n-ERR no\r\n:12\r\n$5\r\nhe\r\no\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n_\r\n#t\r\n,1.5\r\n(123\r\n=7\r\ntxt:one\r\n!3\r\nERR\r\n" +
		"%1\r\n+a\r\n*2\r\n%0\r\n~1\r\n$-1\r\n>2\r\n+message\r\n+x\r\n" +
		strings.Repeat("*1\r\n", maxReplyDepth) + ":1\r\n" +
		"*4194304\r\n" + strings.Repeat(":1\r\n", maxReplyElements) + "*2\r\n+OK\r\n+OK\r\n"
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader,
		"bytes": iotest.OneByteReader,
	} {
		conn := &boundedConn{Conn: readsFrom{Reader: cut(strings.NewReader(replies))}}
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != replies ||
			len(conn.open)+len(conn.line)+conn.skip+conn.size+conn.elements != 0 {
			t.Errorf("%s: %d of %d bytes, %v, left %d %q %d", name, len(got), len(replies), err, conn.open,
				conn.line, conn.skip)
		}
	}
}

// readsFrom is a connection that is only read.
type readsFrom struct {
	net.Conn
	io.Reader
}

func (r readsFrom) Read(b []byte) (int, error) { return r.Reader.Read(b) }
func (r readsFrom) Close() error               { return nil }

// Whatever comes, what passes is what came, or the connection ends with an error that says why.
func FuzzReplies(f *testing.F) {
	for _, bad := range badReplies {
		if len(bad.reply) < 1000 {
			f.Add([]byte(bad.reply))
		}
	}
	f.Add([]byte("%1\r\n+a\r\n*2\r\n$3\r\nabc\r\n_\r\n"))
	f.Fuzz(func(t *testing.T, replies []byte) {
		whole, err := io.ReadAll(&boundedConn{Conn: readsFrom{Reader: bytes.NewReader(replies)}})
		cut, cutErr := io.ReadAll(&boundedConn{Conn: readsFrom{Reader: iotest.OneByteReader(bytes.NewReader(replies))}})
		if fmt.Sprint(err) != fmt.Sprint(cutErr) || !bytes.HasPrefix(cut, whole) ||
			err == nil && !bytes.Equal(whole, replies) {
			t.Errorf("%q: whole %q, %v; cut %q, %v", replies, whole, err, cut, cutErr)
		}
	})
}
