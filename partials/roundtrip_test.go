package partials

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"runnel/rpc/mcp"
)

// maxLine is below what clients and routers read of a line.
const maxLine = 1 << 20

// script is what a tool writes, and how its result ends.
type script struct {
	writes [][]Chunk
	ending Ending
	least  int     // bytes of a batch: small ones of a huge output only take time
	output []piece // what the writes say
	all    []piece // with the ending
}

func newScript(t *testing.T, rng *rand.Rand) *script {
	s := &script{ending: Ending{IsError: rng.IntN(4) == 0}, least: 16}
	huge := 0
	if rng.IntN(4) == 0 {
		huge, s.least = 3, 8<<10
	}
	for range rng.IntN(1 << rng.IntN(8)) {
		var write []Chunk
		for n := 1 + rng.IntN(4); n > 0; n-- {
			c := scriptChunk(rng, rng.IntN(40) < huge)
			c.More = n > 1
			write = append(write, c)
			s.output = join(s.output, chunkPiece(t, c))
		}
		s.writes = append(s.writes, write)
	}
	s.all = slices.Clone(s.output)
	for range rng.IntN(3) {
		c := Chunk{Kind: Item, Data: []byte(`{"type":"text","text":"in the result only"}`)}
		if rng.IntN(2) == 0 {
			c = scriptChunk(rng, huge > 0)
		}
		if c.Kind == Text {
			c = Chunk{Kind: Item, Data: []byte(`{"type":"image","data":"cmVzdA==","mimeType":"x"}`)}
		}
		s.ending.Rest = append(s.ending.Rest, c.Data)
		s.all = join(s.all, chunkPiece(t, c))
	}
	return s
}

// scriptChunk is text of both streams or an item: tiny, huge, plain or not.
func scriptChunk(rng *rand.Rand, huge bool) Chunk {
	times := 1 + rng.IntN(20)
	if huge {
		times = rng.IntN(20_000)
	}
	stream := Stream(rng.IntN(2))
	switch rng.IntN(9) {
	case 0:
		return Chunk{Kind: Item, Data: fmt.Appendf(nil, `{"type":"image","data":"%s","mimeType":"image/png"}`,
			strings.Repeat("QUJD", times*14))}
	case 1:
		return Chunk{Kind: Item, Data: []byte(`{ "text" : "an item \u20ac of text" , "type" : "text" }`)}
	case 2:
		return Chunk{Stream: stream, Data: []byte{byte(rng.IntN(utf8.RuneSelf))}}
	case 3:
		return Chunk{Stream: stream, Data: []byte(strings.Repeat("\x00\x1f", times))} // the worst to escape
	case 4:
		return Chunk{Stream: stream, Data: []byte(strings.Repeat("breit € 😀 \u2028\"\\", times))}
	case 5:
		line := strings.Repeat("whole ", min(times, 10_000)) + "\n"
		return Chunk{Stream: stream, Data: []byte(line), Whole: true}
	default:
		return Chunk{Stream: stream, Data: fmt.Appendf(nil, "line %d\n%s", rng.Uint32(),
			strings.Repeat(" ", rng.IntN(times)))}
	}
}

func chunkPiece(t *testing.T, c Chunk) piece {
	switch {
	case c.Kind == Item && len(c.Data) > mcp.MaxPassed:
		return piece{"text", "", fmt.Sprintf("[an item of %d bytes: it is in the task's result]",
			len(c.Data))}
	case c.Kind == Item:
		return pieceOf(t, c.Data)
	case c.Stream == Stderr:
		return piece{"text", "stderr", string(c.Data)}
	default:
		return piece{"text", "", string(c.Data)}
	}
}

// play writes it all, with pauses.
func (s *script) play(t *testing.T, rng *rand.Rand, l *Log, finish func(Ending)) {
	for _, write := range s.writes {
		if err := l.Append(t.Context(), write...); err != nil {
			t.Error(err)
		}
		if rng.IntN(8) == 0 {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
	}
	finish(s.ending)
	l.Close()
}

// newScriptLog keeps all of a script; its writer waits for its readers now and then.
func newScriptLog(rng *rand.Rand) *Log {
	return NewLog(&LogOptions{MaxPending: 1 << (8 + rng.IntN(14)), Retain: 256 << 20})
}

func (s *script) pacing(rng *rand.Rand) DeliverOptions {
	return DeliverOptions{Pace: time.Duration(rng.IntN(3)) * 20 * time.Millisecond,
		MaxBytes: s.least << rng.IntN(13)}
}

// slowLane is one output of several writers, which wait now and then.
type slowLane struct {
	mu  sync.Mutex
	rng *rand.Rand
	buffer
}

func newSlowLane(rng *rand.Rand) *slowLane {
	return &slowLane{rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}
}

func (l *slowLane) Write(ctx context.Context, encode func([]byte) []byte) error {
	l.mu.Lock()
	stall := time.Duration(0)
	if l.rng.IntN(6) == 0 {
		stall = time.Duration(l.rng.IntN(400)) * time.Millisecond
	}
	l.mu.Unlock()
	time.Sleep(stall)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(ctx, encode)
}

// eachLine calls f with every line that was written.
func (l *slowLane) eachLine(t *testing.T, f func(line []byte)) {
	for line := range bytes.Lines(l.Bytes()) {
		if len(line) >= maxLine {
			t.Errorf("line of %d bytes: %.200s", len(line), line)
		}
		f(line)
	}
}

// Whatever a tool writes, however its client reads: in every dialect the same content comes, in the same
// order, under exact numbers, in lines that every client can read.
func TestEveryDialectCarriesAll(t *testing.T) {
	for name, carry := range map[string]func(t *testing.T, rng *rand.Rand, s *script) (got, want []piece){
		"SEP-2679": carrySEP2679,
		"PR-383":   carryPR383,
		"SEP-1905 pushed": func(t *testing.T, rng *rand.Rand, s *script) (got, want []piece) {
			return carrySEP1905(t, rng, s, true, false)
		},
		"SEP-1905 pulled": func(t *testing.T, rng *rand.Rand, s *script) (got, want []piece) {
			return carrySEP1905(t, rng, s, false, true)
		},
		"SEP-1905 pushed and pulled": func(t *testing.T, rng *rand.Rand, s *script) (got, want []piece) {
			return carrySEP1905(t, rng, s, true, true)
		},
		"progress": carryProgress,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(40) {
				synctest.Test(t, func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 0))
					got, want := carry(t, rng, newScript(t, rng))
					if !slices.Equal(got, want) {
						t.Errorf("content differs:\n got %.2000q\nwant %.2000q", got, want)
					}
				})
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func carrySEP2679(t *testing.T, rng *rand.Rand, s *script) (got, want []piece) {
	l, lane := newScriptLog(rng), newSlowLane(rng)
	r, o := l.NewReader(0), s.pacing(rng)
	go s.play(t, rng, l, func(Ending) {})
	if err := Deliver(t.Context(), r, NewSEP2679(head, "id", nil), lane, o); err != nil {
		t.Error(err)
	}
	seq := int64(0)
	lane.eachLine(t, func(line []byte) {
		p, err := DecodeSEP2679(line)
		if err != nil || p.Seq != seq || p.TaskID != "id" {
			t.Errorf("seq %d of %q, want %d (%v)", p.Seq, p.TaskID, seq, err)
		}
		seq++
		for _, item := range p.Content {
			got = join(got, pieceOf(t, item))
		}
	})
	return got, s.output
}

// carryPR383 has a tool that also reports progress, and a heartbeat.
func carryPR383(t *testing.T, rng *rand.Rand, s *script) (got, want []piece) {
	l, lane := newScriptLog(rng), newSlowLane(rng)
	progress := NewProgress(head, json.RawMessage(`7`), "", true)
	r, o := l.NewReader(0), s.pacing(rng)
	stop := reportProgress(t, rng, progress, lane)
	go s.play(t, rng, l, func(Ending) {})
	if err := Deliver(t.Context(), r, NewPR383(progress, func() Ending { return s.ending }), lane,
		o); err != nil {
		t.Error(err)
	}
	stop()
	chunks, last := 0, false
	rising := risingProgress(t)
	lane.eachLine(t, func(line []byte) {
		rising(line)
		p, err := DecodePR383(line)
		if err != nil {
			return // a report or a heartbeat
		}
		if last || p.Append != (chunks > 0) {
			t.Errorf("chunk %d after the last one (%t), append is %t", chunks, last, p.Append)
		}
		chunks++
		last = p.Last
		for _, item := range p.Content {
			got = join(got, pieceOf(t, item))
		}
	})
	if !last {
		t.Error("no last chunk")
	}
	return got, s.all
}

// carryProgress has no content to carry, only the last lines of it, at the time they are the last.
func carryProgress(t *testing.T, rng *rand.Rand, s *script) (got, want []piece) {
	l, lane := newScriptLog(rng), newSlowLane(rng)
	progress := NewProgress(head, json.RawMessage(`"token"`), "id", true)
	o := s.pacing(rng)
	stop := reportProgress(t, rng, progress, lane)
	go s.play(t, rng, l, func(Ending) {})
	if err := DeliverLastLine(t.Context(), l, progress, lane, o.Pace, false); err != nil {
		t.Error(err)
	}
	stop()
	var text strings.Builder
	for _, write := range s.writes {
		for _, c := range write {
			if c.Kind == Text {
				text.Write(c.Data)
			}
		}
	}
	rising := risingProgress(t)
	lane.eachLine(t, func(line []byte) {
		message := rising(line)
		if len(message) > maxMessage || strings.ContainsAny(message, "\r\n") ||
			!strings.Contains(text.String()+reported+beaten, message) {
			t.Errorf("message %q is not a line of the output", message)
		}
	})
	return nil, nil
}

// The messages of progress that is not output.
const reported, beaten = "reported", "running"

// reportProgress reports progress and sends signs of life beside the output, until stop is called.
func reportProgress(t *testing.T, rng *rand.Rand, p *Progress, lane Lane) (stop func()) {
	rng = rand.New(rand.NewPCG(rng.Uint64(), 1))
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for done := 0.0; ; {
			select {
			case <-over:
				return
			case <-time.After(time.Duration(1+rng.IntN(200)) * time.Millisecond):
			}
			done += rng.Float64() - 0.2
			_ = lane.Write(t.Context(), func(dst []byte) []byte {
				if rng.IntN(3) == 0 {
					return p.Heartbeat(dst, []byte(beaten))
				}
				return p.Report(dst, done, float64(rng.IntN(2)*100), reported)
			})
		}
	}()
	return func() { close(over); <-ended }
}

// risingProgress checks every line of one token and returns its message.
func risingProgress(t *testing.T) func(line []byte) (message string) { return risingFrom(t, -1) }

func risingFrom(t *testing.T, last float64) func(line []byte) (message string) {
	return func(line []byte) string {
		var n struct {
			Method string
			Params struct {
				Progress float64
				Message  string
			}
		}
		if err := json.Unmarshal(line, &n); err != nil || n.Method != "notifications/progress" ||
			n.Params.Progress <= last {
			t.Errorf("progress %v after %v (%v): %.200s", n.Params.Progress, last, err, line)
		}
		last = n.Params.Progress
		return n.Params.Message
	}
}

// tally is a client that holds every segment it gets against those it has.
type tally struct {
	t *testing.T

	mu       sync.Mutex // held while a page is made and noted, so that what was first is known
	items    map[int64]string
	highest  int64
	complete bool              // somebody was told that nothing comes after highest
	ended    bool              // the call was told so
	bare     []json.RawMessage // content without numbers: all that a task has that failed without output
}

// page notes a page whose segments come after number last, and returns whether it is the last one.
func (y *tally) page(result []byte, last int64) bool {
	if len(result) >= maxLine {
		y.t.Errorf("page of %d bytes: %.200s", len(result), result)
	}
	p, err := DecodeSEP1905(fmt.Appendf(nil, `{"result":%s}`, result))
	if err != nil {
		y.t.Error(err)
		return true
	}
	for _, s := range p.Segments {
		if last++; s.SeqNr != last {
			y.t.Errorf("seqNr %d where %d is next", s.SeqNr, last)
		}
		if have, ok := y.items[s.SeqNr]; ok && have != string(s.Item) {
			y.t.Errorf("segment %d was %.300s and is now %.300s", s.SeqNr, have, s.Item)
		}
		if y.complete && s.SeqNr > y.highest {
			y.t.Errorf("segment %d after isComplete with %d", s.SeqNr, y.highest)
		}
		y.items[s.SeqNr] = string(s.Item)
		y.highest = max(y.highest, s.SeqNr)
	}
	if y.complete && last >= y.highest && !p.IsComplete {
		y.t.Errorf("isComplete is false after %d, and was true", last)
	}
	y.complete = y.complete || p.IsComplete && last == y.highest && len(y.bare) == 0
	return p.IsComplete
}

// push notes what was pushed.
func (y *tally) push(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(line, &m); err != nil || string(m.ID) != "7" {
		y.t.Errorf("id %s (%v)", m.ID, err)
	}
	if y.ended {
		y.t.Errorf("a response after the complete one: %.300s", line)
	}
	// "The same seqNr value MUST NOT appear in multiple mechanisms": what was fetched is not pushed as well.
	y.unnumbered(m.Result)
	y.ended = y.page(m.Result, y.highest) // also when all of it was fetched before
}

// unnumbered notes content in the standard format.
func (y *tally) unnumbered(result []byte) {
	var m struct {
		Content []json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(result, &m); err != nil {
		y.t.Error(err)
	}
	y.bare = append(y.bare, m.Content...)
}

// carrySEP1905 has a client that is pushed responses, or that asks for segments, or both; it asks again for
// old ones, and for ones that are not there yet.
func carrySEP1905(t *testing.T, rng *rand.Rand, s *script, push, pull bool) (got, want []piece) {
	l, lane := newScriptLog(rng), newSlowLane(rng)
	segments := NewSegments(l)
	y := &tally{t: t, items: map[int64]string{}}
	var r *Reader
	if push {
		r = l.NewReader(0)
	}
	played := make(chan struct{})
	player := rand.New(rand.NewPCG(rng.Uint64(), 2))
	go func() { s.play(t, player, l, segments.Finish); close(played) }()
	if stored := rand.New(rand.NewPCG(rng.Uint64(), 3)); stored.IntN(2) == 0 {
		numbered := make(chan struct{})
		defer func() { <-numbered }()
		go func() { // as a store does
			defer close(numbered)
			for end := int64(0); ; end += stored.Int64N(l.Size() - end + 1) {
				segments.Number(end)
				select {
				case <-played:
					return
				case <-time.After(time.Duration(stored.IntN(100)) * time.Millisecond):
				}
			}
		}()
	}

	limits := []int{s.least, 10 * s.least, 10_000, 512 << 10}
	time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
	first, _ := segments.First([]byte(`{"taskId":"id"}`), relatedTask("id"), limits[rng.IntN(len(limits))])
	y.unnumbered(first)
	y.ended = y.page(first, 0)

	pushed := make(chan struct{})
	if push {
		o := s.pacing(rng)
		go func() {
			defer close(pushed)
			if err := Deliver(t.Context(), r, NewSEP1905(head, json.RawMessage(`7`), "id", segments),
				notingLane{lane, y}, o); err != nil {
				t.Error(err)
			}
		}()
	} else {
		close(pushed)
	}
	resume := func(last int64) bool {
		y.mu.Lock()
		defer y.mu.Unlock()
		resumed, err := segments.Resume(last, "id", limits[rng.IntN(len(limits))])
		return err == nil && y.page(resumed, last)
	}
	if pull {
		for over := false; !over; {
			select {
			case <-played:
				over = true
			case <-time.After(time.Duration(rng.IntN(100)) * time.Millisecond):
			}
			y.mu.Lock()
			have := y.highest
			y.mu.Unlock()
			switch rng.IntN(4) {
			case 0:
				resume(1 + rng.Int64N(have+3))
			default:
				resume(have)
			}
		}
	}
	<-played
	<-pushed
	if push && !y.ended {
		t.Error("the call was not told the end")
	}
	last := int64(0)
	for range 1 << 20 { // all of it once more, page by page
		if resume(last) {
			break
		}
		y.mu.Lock()
		for last++; y.items[last+1] != "" && rng.IntN(20) > 0; last++ {
		}
		y.mu.Unlock()
	}
	numbers := slices.Sorted(maps.Keys(y.items))
	if n := len(numbers); n > 0 && (numbers[0] != 1 || numbers[n-1] != int64(n)) {
		t.Errorf("numbers %v are not 1 to %d", numbers, n)
	}
	var unnumbered []string
	for _, n := range numbers {
		item := json.RawMessage(y.items[n])
		prefix := fmt.Sprintf(`{"seqNr":%d,`, n)
		rest, ok := strings.CutPrefix(string(item), prefix)
		if !ok {
			t.Errorf("segment %d is %.300s", n, item)
		}
		unnumbered = append(unnumbered, "{"+rest)
		got = join(got, pieceOf(t, json.RawMessage("{"+rest)))
	}
	checkMerged(t, segments, unnumbered)
	if len(y.bare) > 0 {
		var bare []piece
		for _, item := range y.bare {
			bare = join(bare, pieceOf(t, item))
		}
		if !slices.Equal(bare, got) {
			t.Errorf("content is %.500q, the segments are %.500q", bare, got)
		}
	}
	return got, s.all
}

// notingLane tells the client of a line as soon as it is encoded.
type notingLane struct {
	lane *slowLane
	y    *tally
}

func (l notingLane) Write(ctx context.Context, encode func([]byte) []byte) error {
	return l.lane.Write(ctx, l.noting(encode))
}

func (l notingLane) noting(encode func([]byte) []byte) func([]byte) []byte {
	return func(dst []byte) []byte {
		l.y.mu.Lock()
		defer l.y.mu.Unlock()
		written := encode(dst)
		for line := range bytes.Lines(written) {
			l.y.push(line)
		}
		return written
	}
}

// checkMerged compares a result with the segments it is merged of, whole and cut.
func checkMerged(t *testing.T, segments *Segments, items []string) {
	t.Helper()
	merged := func(limit int) (content []json.RawMessage, size int, marked bool) {
		b, cut, err := segments.Merged(limit)
		if err != nil {
			t.Fatal(err)
		}
		if cut != bytes.Contains(b, []byte("segments left out ...")) {
			t.Errorf("cut %v, but no mark says so", cut)
		}
		if err := json.Unmarshal(b, &content); err != nil {
			t.Errorf("merged: %v", err)
		}
		return content, len(b), cut
	}
	same := func(item json.RawMessage, segment string) bool {
		if strings.HasPrefix(segment, `{"type":"text","text":"[an item of `) {
			return len(item) > mcp.MaxContent // which no line could carry
		}
		var a, b any
		return json.Unmarshal(item, &a) == nil && json.Unmarshal([]byte(segment), &b) == nil &&
			fmt.Sprint(a) == fmt.Sprint(b)
	}
	whole, _, _ := merged(256 << 20)
	if len(whole) != len(items) {
		t.Errorf("%d items are merged of %d segments", len(whole), len(items))
		return
	}
	for i := range whole {
		if !same(whole[i], items[i]) {
			t.Errorf("item %d is %.300s, the segment was %.300s", i, whole[i], items[i])
		}
	}
	cut, size, marked := merged(8 << 20)
	if size > 9<<20 {
		t.Errorf("merged result of %d bytes", size)
	}
	if len(cut) < len(whole) && !marked {
		t.Errorf("%d of %d items are left out in silence", len(whole)-len(cut), len(whole))
	}
}

func FuzzSEP1905(f *testing.F) {
	f.Add("task", "some output\n", "warning", uint8(3), int64(1))
	f.Add("", "\x00", "", uint8(0), int64(0))
	f.Fuzz(func(t *testing.T, id, out, errs string, n uint8, last int64) {
		chunks, want, ok := fuzzChunks(out, errs, n)
		if !ok || !utf8.ValidString(id) {
			return
		}
		l := NewLog(nil)
		segments := NewSegments(l)
		d := NewSEP1905(head, json.RawMessage(`"id"`), id, segments)
		y := &tally{t: t, items: map[int64]string{}}
		r := l.NewReader(0)
		for _, c := range chunks {
			if err := l.Append(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			last = max(last%16, 0)
			resumed, err := segments.Resume(last, id, 100)
			if err != nil {
				t.Fatal(err)
			}
			y.page(resumed, last)
			b, _ := r.Next(1 + int(n)*10)
			for line := range bytes.Lines(d.Encode(nil, b)) {
				y.page(result(t, line), y.highest)
			}
			last += 7
		}
		segments.Finish(Ending{Rest: []json.RawMessage{[]byte(`{}`)}})
		l.Close()
		for b, more := r.Next(100); more; b, more = r.Next(100) {
			for line := range bytes.Lines(d.Encode(nil, b)) {
				y.page(result(t, line), y.highest)
			}
		}
		if !y.page(result(t, d.End(nil)), y.highest) || len(d.End(nil)) > 0 {
			t.Error("no end, or two")
		}
		resumed, err := segments.Resume(0, id, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		y.page(resumed, 0)
		var got []piece
		for n := int64(1); n < y.highest; n++ { // the last one is {}
			got = join(got, pieceOf(t, json.RawMessage(y.items[n])))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// result is the result of a response.
func result(t *testing.T, line []byte) []byte {
	var m struct{ Result json.RawMessage }
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	return m.Result
}

// fuzzChunks makes output of n+1 chunks. It is not ok if it is nothing a log holds.
func fuzzChunks(out, errs string, n uint8) (chunks []Chunk, want []piece, ok bool) {
	if !utf8.ValidString(out) || !utf8.ValidString(errs) || len(out)*int(n) > 1<<20 ||
		len(errs)*int(n) > 1<<20 {
		return nil, nil, false // the log holds valid UTF-8 only
	}
	for i := range int(n) + 1 {
		c, stream := chunkOf(out), ""
		if i%3 == 1 {
			c, stream = Chunk{Stream: Stderr, Data: []byte(errs)}, "stderr"
		}
		if len(c.Data) > 0 {
			chunks, want = append(chunks, c), join(want, piece{"text", stream, string(c.Data)})
		}
	}
	return chunks, want, true
}

func FuzzPR383(f *testing.F) {
	f.Add("some output\n", "warning", uint8(3), 0.5)
	f.Add("\x00", "", uint8(0), -1e300)
	f.Fuzz(func(t *testing.T, out, errs string, n uint8, done float64) {
		chunks, want, ok := fuzzChunks(out, errs, n)
		if !ok {
			return
		}
		progress := NewProgress(head, json.RawMessage(`"token"`), "", true)
		d := NewPR383(progress, func() Ending { return Ending{} })
		var lines []byte
		for i := range chunks {
			lines = progress.Report(lines, done*float64(i), 100, "")
			lines = d.Encode(lines, NewBatch(0, chunks[i]))
		}
		lines = d.End(lines)
		if n := bytes.Count(lines, []byte("\n")); progress.Written() != n {
			t.Errorf("%d notifications are counted, want %d", progress.Written(), n)
		}
		rising := risingFrom(t, math.Inf(-1))
		var got []piece
		count, last := 0, false
		for line := range bytes.Lines(lines) {
			rising(line)
			p, err := DecodePR383(line)
			if err != nil {
				continue
			}
			if last || p.Append != (count > 0) {
				t.Errorf("chunk %d: append is %t, and the last one came: %t", count, p.Append, last)
			}
			count, last = count+1, p.Last
			for _, item := range p.Content {
				got = join(got, pieceOf(t, item))
			}
		}
		if !last || !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
