package upstream

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"runnel/tools/secrets"
	"runnel/tools/text"
)

// lastWords takes a server's stderr: each line is logged at level debug, all of it goes to the diary, and the
// last lines are kept.
type lastWords struct {
	log   zerolog.Logger
	diary *diary // nil = there is none

	mu     sync.Mutex
	utf8   text.Decoder
	hidden *secrets.Stream // nil = nothing is secret
	line   []byte          // the beginning of a line
	kept   []byte
}

const (
	// lastKeptWords is how many bytes of the end of a server's stderr are kept, for the error that says why
	// it ended.
	lastKeptWords = 1 << 10
	// maxLogLine is the longest line of stderr that is logged whole.
	maxLogLine = 1 << 10
)

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(w.hidden.Write(w.utf8.Decode(p)))
	return len(p), nil
}

// put keeps a line. mu is held.
func (w *lastWords) put(p []byte) {
	if w.diary != nil {
		_, _ = w.diary.Write(p)
	}
	w.kept = append(w.kept, p[max(0, len(p)-lastKeptWords):]...)
	w.kept = w.kept[max(0, len(w.kept)-lastKeptWords):]
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		w.line = append(w.line, line[:min(len(line), maxLogLine-len(w.line))]...)
		if rest = after; whole {
			w.log.Debug().Str("stderr", strings.ToValidUTF8(string(w.line), "\uFFFD")).Msg("upstream")
			w.line = w.line[:0]
		}
	}
}

// forget forgets what another start of the server wrote.
func (w *lastWords) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.utf8.Flush()
	w.hidden.Flush()
	w.line, w.kept = nil, nil
}

// explain adds to an error what the server wrote last.
func (w *lastWords) explain(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(w.hidden.Write(w.utf8.Flush()))
	w.put(w.hidden.Flush())
	if last := text.LastLines(w.kept, lastKeptWords); last != "" {
		return fmt.Errorf("%w; it wrote last:\n%s", err, last)
	}
	return err
}
