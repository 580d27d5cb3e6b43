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

// lastWords takes what a server writes to stderr: each line goes to the log at level debug, the last of them are kept.
type lastWords struct {
	log zerolog.Logger

	mu     sync.Mutex
	utf8   text.Decoder
	hidden *secrets.Stream // nil = there are no secrets
	line   []byte          // the beginning of a line
	kept   []byte
}

const (
	// lastKeptWords is how much of the end of a server's stderr is kept, to tell why it ended.
	lastKeptWords = 1 << 10
	// maxLogLine is how much of a line of stderr is logged.
	maxLogLine = 1 << 10
)

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(w.hidden.Write(w.utf8.Decode(p)))
	return len(p), nil
}

// put takes what is to be kept. mu is held.
func (w *lastWords) put(p []byte) {
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
