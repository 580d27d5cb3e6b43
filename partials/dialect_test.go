package partials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"runnel/rpc/mcp"
)

var head = []byte(`{"jsonrpc":"2.0"`)

// buffer is a lane that always has room.
type buffer struct{ bytes.Buffer }

// delivery is a delivery that can be stopped, as a call has it.
type delivery struct {
	r      *Reader
	gate   Gate
	cancel context.CancelFunc
	done   chan error // gets the result of Deliver; capacity 1
}

func startDelivery(t *testing.T, r *Reader, lane Lane, o DeliverOptions) *delivery {
	d := &delivery{r: r, gate: Gate{Lane: lane}, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	d.cancel = cancel
	go func() { d.done <- Deliver(ctx, r, NewSEP2679(head, "id", nil), &d.gate, o) }()
	return d
}

func (d *delivery) stop() {
	d.gate.Close()
	d.cancel()
	d.r.Close()
}

func (b *buffer) Write(ctx context.Context, encode func([]byte) []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if lines := encode(nil); len(lines) > 0 { // after the last turn nobody waits
		b.Buffer.Write(lines)
	}
	return nil
}

func (b *buffer) lines() []string {
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// piece is an item as a client sees it, with adjacent text of a stream joined.
type piece struct{ kind, stream, text string }

// join adds what comes next, joining text to text.
func join(to []piece, p piece) []piece {
	if n := len(to); n > 0 && p.kind == "text" && to[n-1].kind == "text" && to[n-1].stream == p.stream {
		to[n-1].text += p.text
		return to
	}
	return append(to, p)
}

func pieceOf(t *testing.T, item json.RawMessage) piece {
	t.Helper()
	var c struct {
		Type, Text string
		Meta       map[string]string `json:"_meta"`
	}
	if err := json.Unmarshal(item, &c); err != nil {
		t.Fatalf("item %s: %v", item, err)
	}
	if c.Type == "text" {
		return piece{"text", c.Meta["runnel/stream"], c.Text}
	}
	return piece{kind: c.Type, text: string(item)}
}

func randomChunk(rng *rand.Rand) Chunk {
	switch rng.IntN(8) {
	case 0:
		return Chunk{Kind: Item, Data: fmt.Appendf(nil, `{"type":"image","data":"%x","mimeType":"image/png"}`,
			rng.Uint64())}
	case 1:
		return Chunk{Stream: Stderr, Data: []byte(fmt.Sprintf("warning %d\u2028\n", rng.IntN(100)))}
	case 2:
		return chunkOf(strings.Repeat("wide €\x01\"\\", 1+rng.IntN(300)))
	default:
		return chunkOf(fmt.Sprintf("line %d\n", rng.Uint32()))
	}
}

// Whatever is written, at whatever pace, however often the client stalls: the same content arrives, in
// order, and seq goes 0, 1, 2, ...
func TestSEP2679CarriesAllInOrder(t *testing.T) {
	for round := range 100 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(round), 0))
			l := NewLog(&LogOptions{MaxPending: 1 << (8 + rng.IntN(12))})
			lane := &stallingLane{rng: rand.New(rand.NewPCG(uint64(round), 1))}
			o := DeliverOptions{Pace: time.Duration(rng.IntN(3)) * 20 * time.Millisecond,
				MaxBytes: 1 << (4 + rng.IntN(12))}
			done := startDelivery(t, l.NewReader(0), lane, o).done
			var want []piece
			for range rng.IntN(200) {
				var write []Chunk
				for n := 1 + rng.IntN(3); n > 0; n-- {
					c := randomChunk(rng)
					c.More = n > 1
					write = append(write, c)
					kind, stream := "text", ""
					if c.Kind == Item {
						kind = "image"
					} else if c.Stream == Stderr {
						stream = "stderr"
					}
					want = join(want, piece{kind, stream, string(c.Data)})
				}
				mustAppend(t, l, write...)
				if rng.IntN(10) == 0 {
					time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
				}
			}
			l.Close()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			var got []piece
			seq := int64(0)
			for _, line := range lane.lines() {
				if line == "" {
					continue
				}
				p, err := DecodeSEP2679([]byte(line))
				if err != nil {
					t.Fatal(err)
				}
				if p.Seq != seq || p.TaskID != "id" || len(p.Content) == 0 {
					t.Fatalf("round %d: seq %d of %q with %d items, want seq %d", round, p.Seq, p.TaskID,
						len(p.Content), seq)
				}
				seq++
				for _, item := range p.Content {
					got = join(got, pieceOf(t, item))
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("round %d: content differs: got %d pieces, want %d", round, len(got), len(want))
			}
		})
	}
}

// stallingLane makes its writer wait now and then.
type stallingLane struct {
	buffer
	rng *rand.Rand
}

func (l *stallingLane) Write(ctx context.Context, encode func([]byte) []byte) error {
	if l.rng.IntN(5) == 0 {
		time.Sleep(time.Duration(l.rng.IntN(300)) * time.Millisecond)
	}
	return l.buffer.Write(ctx, encode)
}

func TestDeliverKeepsItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(nil)
		var at []time.Duration
		begin := time.Now()
		lane := laneFunc(func(encode func([]byte) []byte) {
			for range bytes.Count(encode(nil), []byte("\n")) {
				at = append(at, time.Since(begin))
			}
		})
		done := startDelivery(t, l.NewReader(0), lane, DeliverOptions{Pace: DefaultPace, MaxBytes: 1000}).done
		sleep := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		mustAppend(t, l, chunkOf("a")) // at once
		sleep(10 * time.Millisecond)
		mustAppend(t, l, chunkOf("b")) // with c, at 50 ms
		sleep(10 * time.Millisecond)
		mustAppend(t, l, chunkOf("c"))
		sleep(180 * time.Millisecond)
		mustAppend(t, l, chunkOf("d")) // at once: the last was long ago
		sleep(10 * time.Millisecond)
		mustAppend(t, l, chunkOf(strings.Repeat("e", 1000))) // full: at once
		sleep(10 * time.Millisecond)
		mustAppend(t, l, chunkOf("f"))
		l.Close() // the end: at once
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, 50e6, 200e6, 210e6, 220e6}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("notifications at %v, want %v", at, want)
		}
	})
}

type laneFunc func(encode func([]byte) []byte)

func (f laneFunc) Write(_ context.Context, encode func([]byte) []byte) error { f(encode); return nil }

func TestPaceZeroKeepsWritesApart(t *testing.T) {
	l := NewLog(nil)
	for i := range 100 {
		mustAppend(t, l, chunkOf(fmt.Sprint("chunk", i)))
	}
	mustAppend(t, l, Chunk{Data: []byte("x"), More: true}, chunkOf("y"))
	l.Close()
	var lane buffer
	if err := Deliver(t.Context(), l.NewReader(0), NewSEP2679(head, "id", nil), &lane,
		DeliverOptions{}); err != nil {
		t.Fatal(err)
	}
	lines := lane.lines()
	if len(lines) != 101 || !strings.Contains(lines[42], `"chunk42"`) ||
		!strings.Contains(lines[100], `"xy"`) {
		t.Errorf("%d lines; 42: %s; last: %s", len(lines), lines[42], lines[len(lines)-1])
	}
}

// After a gate is closed nothing more is encoded, even if the client stands still and then reads.
func TestAClosedGateSilences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(nil)
		stalled, encoded := make(chan struct{}), 0
		lane := laneFunc(func(encode func([]byte) []byte) {
			<-stalled
			encoded += len(encode(nil))
		})
		d := startDelivery(t, l.NewReader(0), lane, DeliverOptions{})
		mustAppend(t, l, chunkOf("output"))
		synctest.Wait()
		d.gate.Close()
		close(stalled)
		synctest.Wait()
		if err := <-d.done; !errors.Is(err, errGateClosed) {
			t.Errorf("it ended with %v", err)
		}
		if encoded > 0 {
			t.Errorf("%d bytes were encoded after Close", encoded)
		}
		d.gate.Close()
	})
}

// Lines stay below 1 MiB, but for a single item of another server, which passes whole up to mcp.MaxPassed.
func TestLinesStayBelowOneMiB(t *testing.T) {
	l := NewLog(nil)
	mustAppend(t, l, chunkOf(strings.Repeat("\x01", 3<<20)))
	mustAppend(t, l, Chunk{Kind: Item,
		Data: fmt.Appendf(nil, `{"type":"image","data":"%s","mimeType":"x"}`, strings.Repeat("A", 9<<20))})
	passed := fmt.Sprintf(`{"type":"image","data":"%s","mimeType":"x"}`, strings.Repeat("A", 4<<20))
	mustAppend(t, l, Chunk{Kind: Item, Data: []byte(passed)})
	var group []Chunk
	for range 40 {
		group = append(group, Chunk{Kind: Item,
			Data: fmt.Appendf(nil, `{"type":"image","data":"%s","mimeType":"x"}`,
				strings.Repeat("A", 50<<10)), More: true})
	}
	group[39].More = false
	mustAppend(t, l, group...)
	for i := range 40_000 {
		mustAppend(t, l, Chunk{Stream: Stream(i % 2), Data: []byte("x")})
	}
	mustAppend(t, l, Chunk{Data: bytes.Repeat([]byte("\x01"), 60<<10), More: true},
		Chunk{Data: bytes.Repeat([]byte("\x02"), 60<<10), More: true},
		Chunk{Data: bytes.Repeat([]byte("\x03"), 60<<10), More: true},
		Chunk{Data: bytes.Repeat([]byte("\x04"), 60<<10)})
	l.Close()
	var lane buffer
	if err := Deliver(t.Context(), l.NewReader(0), NewSEP2679(head, "id", nil), &lane,
		DeliverOptions{Pace: 1}); err != nil {
		t.Fatal(err)
	}
	for i, line := range lane.lines() {
		if len(line) >= 1<<20 && !strings.Contains(line, passed) {
			t.Errorf("line %d has %d bytes", i, len(line))
		}
	}
	if !strings.Contains(lane.String(), passed) {
		t.Error("an item that a client can read is not passed")
	}
	if !strings.Contains(lane.String(), "an item of 9437") {
		t.Error("the item that is too large is not named")
	}
	// The rest that PR #383 has to say at the end may be too much for one line, too.
	rest := slices.Repeat([]json.RawMessage{mcp.Text(strings.Repeat("x", 400<<10))}, 5)
	d := NewPR383(NewProgress(head, json.RawMessage(`1`), "", true),
		func() Ending { return Ending{Rest: rest} })
	items := 0
	for line := range bytes.Lines(d.End(nil)) {
		p, err := DecodePR383(line)
		if items += len(p.Content); err != nil || len(line) >= 1<<20 || p.Last != (items == len(rest)) {
			t.Errorf("a line of %d bytes (%v), %d items, the last one: %t", len(line), err, items, p.Last)
		}
	}
	if items != len(rest) {
		t.Errorf("%d items of %d", items, len(rest))
	}
}

func TestProgress(t *testing.T) {
	type step func(p *Progress) []byte
	say := func(s string) step {
		return func(p *Progress) []byte { return p.Encode(nil, NewBatch(0, chunkOf(s))) }
	}
	tell := func(done, total float64, message string) step {
		return func(p *Progress) []byte { return p.Report(nil, done, total, message) }
	}
	report := func(done, total float64) step { return tell(done, total, "") }
	beat := func(p *Progress) []byte { return p.Heartbeat(nil, nil) }
	for _, c := range []struct {
		name    string
		message bool
		steps   []step
		want    string
	}{
		{"conformance", true, []step{report(0, 100), report(50, 100), report(100, 100)},
			`"progress":0,"total":100; "progress":50,"total":100; "progress":100,"total":100`},
		{"lines", true, []step{say("one\ntwo\n"), say("\n \n"), say("three")},
			`"progress":1,"message":"two"; "progress":2,"message":"three"`},
		{"without message", false, []step{say("one"), beat, report(5, 0)},
			`"progress":1; "progress":2; "progress":5`},
		{"lines without message", false, []step{say("one\n"), say("\n"), say("two\n")},
			`"progress":1; "progress":2`},
		{"mixed", true, []step{say("a"), report(10, 20), say("b"), report(10, 20), report(11, 20), beat},
			`"progress":1,"message":"a"; "progress":10,"total":20; "progress":10.00001,"total":20,"message":"b"; "progress":11,"total":20; "progress":11.000011,"total":20`},
		{"first report after lines", true,
			[]step{say("a"), report(0, 100), report(math.Inf(1), 100), report(1, math.Inf(1)),
				report(1, 100)},
			`"progress":1,"message":"a"; "progress":2; "progress":3,"total":300`},
		{"reports after lines", true, []step{say("a"), say("b"), say("c"), tell(1, 5, "[1/5]"),
			tell(2, 5, "[2/5]"), tell(5, 5, "[5/5]")},
			`"progress":1,"message":"a"; "progress":2,"message":"b"; "progress":3,"message":"c"; "progress":4,"total":20,"message":"[1/5]"; "progress":8,"total":20,"message":"[2/5]"; "progress":20,"total":20,"message":"[5/5]"`},
		{"lines of reports", true, []step{tell(1, 2, "[1/2]"), say("[1/2]\n"), say("more"),
			tell(2, 2, "[2/2]"), say("[2/2]\n"), say("done"), beat},
			`"progress":1,"total":2,"message":"[1/2]"; "progress":1.000001,"total":2,"message":"more"; "progress":2,"total":2,"message":"[2/2]"; "progress":2.000002`},
		{"lines of a report of nothing", true,
			[]step{tell(0, 0, "begun\n"), say("begun\n"), tell(0, 3, "one\ntwo"), say("one\ntwo\n"),
				say("three")},
			`"progress":1,"message":"begun\n"; "progress":2,"message":"one\ntwo"; "progress":3,"message":"three"`},
		{"beyond the total", true, []step{report(6, 5)}, `"progress":6`},
		{"waiting", true, []step{tell(0, 0, "waiting"), say("a")},
			`"progress":1,"message":"waiting"; "progress":2,"message":"a"`},
		{"falling", true, []step{report(5, 10), report(4, 10), report(math.NaN(), 10)},
			`"progress":5,"total":10`},
	} {
		p := NewProgress(head, json.RawMessage(`"t"`), "", c.message)
		var got []string
		for _, s := range c.steps {
			if line := string(s(p)); line != "" {
				const prefix, suffix = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t",`, "}}\n"
				if !strings.HasPrefix(line, prefix) || !strings.HasSuffix(line, suffix) {
					t.Fatalf("%s: %s", c.name, line)
				}
				got = append(got, line[len(prefix):len(line)-len(suffix)])
			}
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, s, c.want)
		}
	}
}

func TestLastLine(t *testing.T) {
	for want, chunks := range map[string][]Chunk{
		"":      {chunkOf("\n\n")},
		"b":     {chunkOf("a\nb\n\n  \n")},
		"begun": {chunkOf("x\nbe"), chunkOf("gu"), chunkOf("n")},
		"90%":   {chunkOf("10%\r50%\r90%")},
		"done":  {chunkOf("done"), {Kind: Item, Data: []byte("{}")}},
		"red":   {chunkOf("x\n\x1b[3"), chunkOf("1mred\x1b[0m\x1b]0;title\a\n\x1b[K\n")},
	} {
		if got := NewBatch(0, chunks...).LastLine(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzSEP2679(f *testing.F) {
	f.Add("task", "some output\n", "warning", uint8(3))
	f.Add("", "\x00", "", uint8(0))
	f.Fuzz(func(t *testing.T, id, out, errs string, n uint8) {
		if !utf8.ValidString(id) || !utf8.ValidString(out) || !utf8.ValidString(errs) {
			return // the log holds valid UTF-8 only
		}
		chunks, want := mixedChunks(out, errs, int(n)+1)
		for _, d := range []Dialect{NewSEP2679(head, id, nil), NewSEP2679(head, id, subscription)} {
			for seq := range int64(3) {
				p, err := DecodeSEP2679(d.Encode(nil, NewBatch(0, chunks...)))
				if err != nil || p.Seq != seq || p.TaskID != id {
					t.Fatalf("seq %d of %q, want %d of %q (%v)", p.Seq, p.TaskID, seq, id, err)
				}
				if got := pieces(t, p.Content); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("got %q, want %q", got, want)
				}
			}
		}
	})
}

// subscription is the _meta of notifications on a subscription.
var subscription = json.RawMessage(`{"io.modelcontextprotocol/subscriptionId":"listen:0"}`)

// mixedChunks are n chunks, the second of three on stderr, and what a client shall see of them.
func mixedChunks(out, errs string, n int) (chunks []Chunk, want []piece) {
	for i := range n {
		c, stream := chunkOf(out), ""
		if i%3 == 1 {
			c, stream = Chunk{Stream: Stderr, Data: []byte(errs)}, "stderr"
		}
		chunks = append(chunks, c)
		want = join(want, piece{"text", stream, string(c.Data)})
	}
	return chunks, want
}

func pieces(t *testing.T, content []json.RawMessage) (list []piece) {
	for _, item := range content {
		list = join(list, pieceOf(t, item))
	}
	return list
}

// A reader that comes when the log has let its beginning go is told so.
func TestDeliverTellsWhatIsNoLongerKept(t *testing.T) {
	l := NewLog(&LogOptions{Retain: 1000})
	for range 100_000 {
		mustAppend(t, l, chunkOf("line\n"))
	}
	l.Close()
	var lane buffer
	if err := Deliver(t.Context(), l.NewReader(0), NewSEP2679(head, "id", nil), &lane,
		DeliverOptions{Pace: 1}); err != nil {
		t.Fatal(err)
	}
	if first := lane.lines()[0]; !strings.Contains(first, "bytes of output are no longer kept]") ||
		!strings.Contains(first, `"seq":0`) {
		t.Errorf("first line: %s", first)
	}
}

// Output that is lost, in the middle of what is kept or before the reader came, has one number at every pace:
// the one that who asks for it gets, and what follows has the next. It may be more than an int of 32 bits can
// count.
func TestLostOutputIsOneSegment(t *testing.T) {
	const far = 3 << 30
	for _, pace := range []time.Duration{0, 1} {
		short := NewLog(&LogOptions{Retain: 1000})
		short.end = far
		for range 10_000 {
			mustAppend(t, short, chunkOf("line\n"))
		}
		short.Close()
		cut := Stored(&shelf{kept: []Extent{
			{Start: 0, Marks: []byte{4 << 4}, Data: []byte("head")},
			{Start: far, Marks: []byte{4 << 4}, Data: []byte("tail")},
		}}, far+4)
		for name, l := range map[string]*Log{"the beginning": short, "the middle": cut} {
			segments := NewSegments(l)
			segments.Finish(Ending{})
			var lane buffer
			d := NewSEP1905(head, json.RawMessage("1"), "t", segments)
			if err := Deliver(t.Context(), l.NewReader(0), d, &lane, DeliverOptions{Pace: pace}); err != nil {
				t.Fatal(err)
			}
			var pushed []json.RawMessage
			for _, line := range lane.lines() {
				r, err := DecodeSEP1905([]byte(line))
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range r.Segments {
					pushed = append(pushed, s.Item)
				}
			}
			var asked []json.RawMessage
			if err := json.Unmarshal(after(t, segments, 0, 1<<20).Content, &asked); err != nil {
				t.Fatal(err)
			}
			got, want := fmt.Sprintf("%s", pushed), fmt.Sprintf("%s", asked)
			if got != want || strings.Count(got, "no longer kept") != 1 {
				t.Errorf("%s, pace %v:\npushed %.500s\nasked  %.500s", name, pace, got, want)
			}
		}
	}
}
