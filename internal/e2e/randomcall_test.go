package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// randomCall is one call of a self-test tool with random arguments: what was asked, what the tool writes and
// returns, and what the client has got of it.
type randomCall struct {
	// The request.
	id        string
	tool      string
	arguments string
	task      bool
	ttl       bool // asked for a short one
	modes     []string
	token     string // "" for none
	partials  bool   // partialResults

	// The tool's part.
	chunks, size, images int
	rest                 string // the text of its result
	fails                bool   // with isError
	protocol             bool   // with a JSON-RPC error

	// The answers so far.
	cancelled bool // by notifications/cancelled; it may still be answered
	answered  bool
	immediate bool // with the whole result, though it asked for a task
	taskID    string
	status    string // the terminal one
	message   string
	text      strings.Builder // carried by partials or partial results
	gotImages int
	segments  map[int64]wireItem
	highest   int64
	complete  bool
	next      int64 // where a call that was handed over goes on; -1: it was not
}

type wireItem struct {
	SeqNr int64  `json:"seqNr"`
	Type  string `json:"type"`
	Text  string `json:"text"`
}

func newRandomCall(rng *rand.Rand, id string, tasks, quick bool) *randomCall {
	c := &randomCall{id: id, next: -1, segments: map[int64]wireItem{}, size: 50}
	interval := 0
	if !quick && rng.IntN(3) > 0 {
		interval = 1 + rng.IntN(120)
	}
	ms := rng.IntN(1500)
	switch rng.IntN(12) {
	case 0:
		c.tool = "sleep"
		c.arguments = fmt.Sprintf(`{"ms":%d}`, ms)
		c.rest = fmt.Sprintf("slept %d ms", ms)
	case 1:
		c.tool = "panic"
		c.arguments = `{}`
		c.rest = "internal error"
		c.protocol = true
	case 2:
		c.tool, c.arguments = "ask", fmt.Sprintf(`{"message":"%s","delayMs":%d}`, id, rng.IntN(2)*ms)
		c.rest, c.fails = "this client cannot ask its user: it does not support elicitation", true
	case 3:
		c.tool = "blob"
		c.arguments = fmt.Sprintf(`{"bytes":%d}`, rng.IntN(2000))
		c.images = 1
	case 4, 5, 6:
		c.tool = "fail"
		c.chunks = rng.IntN(40)
		c.rest = "no luck"
		c.protocol = rng.IntN(3) == 0
		c.fails = !c.protocol
		c.arguments = fmt.Sprintf(`{"afterChunks":%d,"intervalMs":%d,"message":"no luck","protocol":%t}`,
			c.chunks, interval, c.protocol)
	default:
		c.tool = "stream"
		c.chunks = rng.IntN(60)
		c.size = 40 + rng.IntN(1<<rng.IntN(14))
		c.arguments = fmt.Sprintf(`{"count":%d,"bytes":%d,"intervalMs":%d}`, c.chunks, c.size, interval)
		c.rest = fmt.Sprintf("streamed %d chunks", c.chunks)
	}
	if rng.IntN(3) == 0 {
		c.token = fmt.Sprintf("token %s", id)
		c.partials = rng.IntN(2) == 0
	}
	if c.task = tasks && rng.IntN(4) > 0; c.task {
		c.ttl = rng.IntN(8) == 0
		if rng.IntN(2) == 0 {
			for _, mode := range []string{"immediate", "streaming", "task"} {
				if rng.IntN(2) == 0 {
					c.modes = append(c.modes, mode)
				}
			}
		}
	}
	return c
}

// streams reports whether SEP-1905 streaming is the mode of a call that is not answered at once.
func (c *randomCall) streams() bool {
	// No other has output.
	return c.task && slices.Contains(c.modes, "streaming") &&
		slices.Contains([]string{"stream", "fail", "blob"}, c.tool)
}

// ended reports whether nothing more comes of the call.
func (c *randomCall) ended() bool {
	if c.taskID != "" {
		return c.status != ""
	}
	return c.answered || c.cancelled
}

// stopped reports whether the task ended before its tool had done all it does.
func (c *randomCall) stopped() bool {
	return c.status == "cancelled" || strings.Contains(c.message, "ttl") || c.cancelled && c.taskID == ""
}

// check holds what came against what the tool wrote.
func (c *randomCall) check(partial, pushed bool) error {
	if c.stopped() {
		return c.checkStopped()
	}
	if want := c.wantStatus(); c.status != "" && c.status != want {
		return fmt.Errorf("status %q (%s), want %q", c.status, c.message, want)
	}
	switch {
	case c.next >= 0 || c.immediate: // all of it was looked at as it came
		return nil
	case c.streams():
		if pushed && !c.whole() {
			return fmt.Errorf("segment %d never came, or isComplete: true did not (%t)", c.seen()+1,
				c.complete)
		}
		if c.whole() {
			return c.checkSegments()
		}
		return nil
	case c.token != "" && c.partials:
		if err := checkOutput(c.text.String(), c.chunks, c.size, c.rest); err != nil {
			return fmt.Errorf("partial results: %w", err)
		}
		return checkImages(c.gotImages, c.images)
	case c.task && partial:
		if err := checkOutput(c.text.String(), c.chunks, c.size, ""); err != nil {
			return fmt.Errorf("partials: %w", err)
		}
		return checkImages(c.gotImages, c.images)
	case c.text.Len() > 0 || c.gotImages > 0:
		return fmt.Errorf("output for a client that asked for none: %q", c.text.String())
	}
	return nil
}

func (c *randomCall) wantStatus() string {
	if c.fails || c.protocol {
		return "failed"
	}
	return "completed"
}

// checkStopped looks at the beginning that a call had whose end did not come.
func (c *randomCall) checkStopped() error {
	got := c.text.String()
	for n := int64(1); n <= c.seen(); n++ {
		got += c.segments[n].Text
	}
	if c.tool == "ask" || len(got) < c.size {
		return nil
	}
	whole := min(len(got)/c.size, c.chunks)
	return checkChunks(got[:whole*c.size], whole, c.size)
}

// seen is how many segments have come without a gap.
func (c *randomCall) seen() int64 {
	n := int64(0)
	for c.segments[n+1].SeqNr > 0 {
		n++
	}
	return n
}

// whole reports whether all segments have come.
func (c *randomCall) whole() bool { return c.complete && c.seen() == c.highest }

// checkSegments looks at all the segments of a stream.
func (c *randomCall) checkSegments() error {
	var text strings.Builder
	images := 0
	for n := int64(1); n <= c.highest; n++ {
		item := c.segments[n]
		text.WriteString(item.Text)
		images += imagesIn([]wireItem{item})
	}
	if err := checkOutput(text.String(), c.chunks, c.size, c.rest); err != nil {
		return fmt.Errorf("segments: %w", err)
	}
	return checkImages(images, c.images)
}

// checkOutput checks that text is n chunks and then the rest.
func checkOutput(text string, n, size int, rest string) error {
	chunks, ok := strings.CutSuffix(text, rest)
	if !ok {
		return fmt.Errorf("%d bytes do not end in %q: %.300q", len(text), rest, text)
	}
	return checkChunks(chunks, n, size)
}

func checkImages(got, want int) error {
	if got != want {
		return fmt.Errorf("%d images, want %d", got, want)
	}
	return nil
}

func textOf(items []wireItem) string {
	var text strings.Builder
	for _, item := range items {
		text.WriteString(item.Text)
	}
	return text.String()
}

func imagesIn(items []wireItem) (n int) {
	for _, item := range items {
		if item.Type == "image" {
			n++
		}
	}
	return n
}
