package httpclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"runnel/internal/pause"
)

// event is an event of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type event struct {
	name, id string
	data     []byte
	retry    time.Duration // how long to wait before connecting again; negative = not given
}

var errEventTooLong = errors.New("an event is too long")

// readEvents calls hand with each complete event of a stream. It returns nil at the end of the stream, or the
// reason why it was lost.
func readEvents(stream io.Reader, most int, hand func(event)) error {
	in := bufio.NewReaderSize(stream, 64<<10)
	next := event{retry: -1}
	for begun := false; ; begun = true {
		line, err := readLine(in, most)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !begun {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			hand(next)
			next = event{retry: -1}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			next.name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				next.id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				next.retry = time.Duration(ms) * time.Millisecond
			}
		case "data":
			if len(next.data)+len(value) > most {
				return errEventTooLong
			}
			if next.data != nil {
				next.data = append(next.data, '\n')
			}
			next.data = append(next.data, value...)
		}
	}
}

// readLine reads a line. A line without an end does not count.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var long []byte
	for {
		piece, err := in.ReadSlice('\n')
		if len(long)+len(piece) > most+len("data: \r\n") {
			return nil, errEventTooLong
		}
		switch {
		case err == bufio.ErrBufferFull:
			long = append(long, piece...)
			continue
		case err != nil:
			return nil, err
		case long != nil:
			piece = append(long, piece...)
		}
		return bytes.TrimSuffix(piece[:len(piece)-1], []byte("\r")), nil
	}
}

const (
	// patience is how long a server may be unreachable before requests to it fail.
	patience = 30 * time.Second
	// firstPause and longestPause bound the pauses between attempts to reach it.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// leastStanding is the least pause after the server has ended the standing stream: some end it at once,
	// each time.
	leastStanding = 500 * time.Millisecond
)

// tries paces the attempts to connect again after a connection was lost. The zero value is ready for use.
type tries struct {
	since time.Time     // the first loss in a row; zero = none
	pause time.Duration // before the next attempt
	least time.Duration // the server's own pause: "The client MUST respect the retry field"
	begun bool          // there was an attempt
}

// connected notes that the server can be reached.
func (r *tries) connected() { r.since = time.Time{} }

// received notes that an event has arrived.
func (r *tries) received() { r.since, r.pause = time.Time{}, 0 }

// wait waits until the next attempt. It reports false if there should be none.
func (r *tries) wait(ctx context.Context) bool {
	r.begun = true
	if r.since.IsZero() {
		r.since = time.Now()
	} else if time.Since(r.since) > patience {
		return false
	}
	r.pause = max(r.pause, firstPause)
	// The pause is random, so that the clients of a server do not connect at the same moment.
	rest := max(r.least, r.pause/2+rand.N(r.pause/2))
	r.pause = min(2*r.pause, longestPause)
	return pause.For(ctx, rest)
}
