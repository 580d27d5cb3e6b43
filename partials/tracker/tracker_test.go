package tracker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// watch writes down what a tracker hands out: texts as they are, gaps as <from-to>, a replacement as =.
type watch struct {
	*Tracker
	out []string
}

func newWatch(o Options) *watch {
	w := &watch{}
	if len(o.Token) == 0 {
		o.Token = json.RawMessage(`"tok"`)
	}
	o.Content = func(items []json.RawMessage, replaces bool) {
		if replaces {
			w.out = append(w.out, "=")
		}
		for _, item := range items {
			s, ok := mcp.TextOf(item)
			if !ok {
				s = string(item)
			}
			w.out = append(w.out, s)
		}
	}
	o.Gap = func(g Gap) {
		if g.To < g.From {
			w.out = append(w.out, fmt.Sprintf("<%d->", g.From))
			return
		}
		w.out = append(w.out, fmt.Sprintf("<%d-%d>", g.From, g.To))
	}
	w.Tracker = New(o)
	return w
}

func (w *watch) String() string { return strings.Join(w.out, " ") }

// feed takes a message in short: it is how a peer says something in some dialect.
//
//	h           the handle of task t
//	p3          a SEP-2679 partial of task t with seq 3; its text is "3"
//	x3          one of another task
//	done fail cancelled    a status notification of task t
//	s1,2 s3!    a SEP-1905 response with segments 1 and 2; one that is complete
//	f4,5 f!err  the answer to a fetch; a failed one
//	c1 c2= c3!  a PR #383 chunk with progress 1; append: false; the last one
//	g4          progress without content
//	r0 r1!      a SEP-2998 partial result; the final one
//	result error    the call's own result
//	lost expired flush
func (w *watch) feed(t *testing.T, short string) {
	t.Helper()
	var n int
	text := func(n int) string { return fmt.Sprintf(`{"type":"text","text":"%d"}`, n) }
	segments := func(list string, complete bool) json.RawMessage {
		var items []string
		for field := range strings.SplitSeq(list, ",") {
			if field != "" {
				items = append(items, fmt.Sprintf(`{"seqNr":%s,"type":"text","text":"%s"}`, field, field))
			}
		}
		return fmt.Appendf(nil, `{"partial-content":[%s],"isError":false,"isComplete":%t,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`,
			strings.Join(items, ","), complete)
	}
	body, mark := strings.CutSuffix(short[1:], "!")
	body, replaces := strings.CutSuffix(body, "=")
	_, _ = fmt.Sscan(body, &n)
	status := func(s string) {
		w.Notification("notifications/tasks/status",
			fmt.Appendf(nil, `{"taskId":"t","status":%q,"statusMessage":"why"}`, s))
	}
	switch short {
	case "done":
		status("completed")
		return
	case "fail":
		status("failed")
		return
	case "cancelled":
		status("cancelled")
		return
	case "result":
		w.Response(json.RawMessage(`{"content":[{"type":"text","text":"0123"}]}`))
		return
	case "error":
		w.Response(json.RawMessage(`{"content":[{"type":"text","text":"0123"}],"isError":true}`))
		return
	case "lost":
		w.Finish(Lost, "the server closed its output")
		w.Flush()
		return
	case "expired":
		w.Finish(Expired, "")
		return
	case "flush":
		w.Flush()
		return
	case "f!err":
		w.Fetched(nil, errors.New("no such task"))
		return
	}
	switch short[0] {
	case 'h':
		w.Response(json.RawMessage(`{"task":{"taskId":"t","status":"working"}}`))
	case 'p':
		w.Notification("notifications/tasks/partial",
			fmt.Appendf(nil, `{"taskId":"t","seq":%s,"content":[%s]}`, body, text(n)))
	case 'x':
		w.Notification("notifications/tasks/partial",
			fmt.Appendf(nil, `{"taskId":"other","seq":%s,"content":[%s]}`, body, text(n)))
	case 's':
		w.Response(segments(body, mark))
	case 'f':
		w.Fetched(segments(body, mark), nil)
	case 'c':
		w.Notification("notifications/progress",
			fmt.Appendf(nil, `{"progressToken":"tok","progress":%d,"partialResult":{"chunk":{"content":[%s]},"append":%t,"lastChunk":%t}}`, n, text(n), !replaces, mark))
	case 'g':
		w.Notification("notifications/progress", fmt.Appendf(nil, `{"progressToken":"tok","progress":%d}`, n))
	case 'r':
		w.Notification("notifications/tools/partial_result",
			fmt.Appendf(nil, `{"partialResultToken":"tok","seq":%s,"content":[%s],"final":%t}`, body,
				text(n), mark))
	default:
		t.Fatalf("what is %q?", short)
	}
}

// Broken peers send these lines, and this comes out: each piece once, in order; what is missing at its place.
func TestBrokenPeers(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		end           End
		window        int
		fetches       []int64 // nil: nothing can be fetched
	}{
		// SEP-2679
		{name: "all is well", in: "h p0 p1 p2 done", out: "0 1 2", end: Done},
		{name: "repeated", in: "h p0 p0 p1 p0 p1 p2 done", out: "0 1 2", end: Done},
		{name: "skipped", in: "h p0 p3 p4 done", out: "0 <1-2> 3 4", end: Done},
		{name: "does not begin at 0", in: "h p2 done", out: "<0-1> 2", end: Done},
		{name: "reordered", in: "h p1 p0 p3 p2 done", out: "0 1 2 3", end: Done},
		{name: "all backwards", in: "h p3 p2 p1 p0 done", out: "0 1 2 3", end: Done},
		{name: "reordered further than the window", in: "h p0 p2 p3 p4 p1 p5 done", window: 2,
			out: "0 <1-1> 2 3 4 5", end: Done},
		{name: "late after the window, then repeated", in: "h p1 p2 p3 p0 p0 done", window: 2,
			out: "<0-0> 1 2 3", end: Done},
		{name: "two gaps", in: "h p1 p3 done", out: "<0-0> 1 <2-2> 3", end: Done},
		{name: "early partials", in: "p0 x0 p1 h p2 done", out: "0 1 2", end: Done},
		{name: "early partials out of order", in: "p1 p0 h done", out: "0 1", end: Done},
		{name: "even the end is early", in: "p0 done h", out: "0", end: Done},
		{name: "another task's", in: "h p0 x1 p1 done", out: "0 1", end: Done},
		{name: "partials after the end", in: "h p0 done p1 p2", out: "0", end: Done},
		{name: "partials after the end fill no gap", in: "h p1 done p0", out: "<0-0> 1", end: Done},
		{name: "two ends: the first counts", in: "h p0 fail done", out: "0", end: Failed},
		{name: "cancelled", in: "h p0 p1 cancelled p2", out: "0 1", end: Cancelled},
		{name: "dies in the middle", in: "h p0 p2 lost", out: "0 <1-1> 2", end: Lost},
		{name: "dies before the handle", in: "p0 lost", out: "", end: Lost},
		{name: "expires", in: "h p0 expired", out: "0", end: Expired},
		{name: "numbers that are none", in: "h p0 p-1 p1.5 p99999999999999999 p\"1\" p1 done", out: "0 1",
			end: Done},
		{name: "a second dialect beside the first", in: "h p0 c1= r0 p1 done", out: "0 1", end: Done},
		{name: "a plain result and no partials", in: "result", out: "", end: Done},
		{name: "a plain error", in: "error", out: "", end: Failed},

		// SEP-1905
		{name: "segments", in: "s1,2 s3 s4! done flush", out: "1 2 3 4", end: Done},
		{name: "segments repeated", in: "s1,2 s2,3 s1 s3! done flush", out: "1 2 3", end: Done},
		{name: "segments reordered in one response", in: "s2,1 s3! done flush", out: "1 2 3", end: Done},
		{name: "segments reordered", in: "s1 s3 s2 s4! done flush", out: "1 2 3 4", end: Done},
		{name: "a segment is missing", in: "s1 s3 s4! done flush", out: "1 <2-2> 3 4", end: Done},
		{name: "a segment is missing and fetched", in: "s1 s3 f2,3 s4! done flush", out: "1 2 3 4",
			fetches: []int64{1}, end: Done},
		{name: "fetched page by page", in: "s1 s9 f2,3 f4,5,6 f7,8,9! done flush", out: "1 2 3 4 5 6 7 8 9",
			fetches: []int64{1, 3, 6}, end: Done},
		{name: "fetched with a hole", in: "s1 s5 f3 done flush", out: "1 <2-2> 3 <4-4> 5 <6->",
			fetches: []int64{1, 3}, end: Done},
		{name: "late, while it is being fetched", in: "s1 s3 s2 f2,3 s4! done flush", out: "1 2 3 4",
			fetches: []int64{1}, end: Done},
		{name: "fetched in vain", in: "s1 s3 f s4! done flush", out: "1 <2-2> 3 4", fetches: []int64{1},
			end: Done},
		{name: "fetch refused", in: "s1 s3 f!err s4! done flush", out: "1 <2-2> 3 4", fetches: []int64{1},
			end: Done},
		{name: "the first is missing: lastSeqNr 0 is invalid", in: "s2 s3! done flush", out: "<1-1> 2 3",
			fetches: []int64{}, end: Done},
		{name: "the end is missing", in: "s1 s2 done flush", out: "1 2 <3->", end: Done},
		{name: "the end is missing and polled for", in: "s1 s2 done f3! flush", out: "1 2 3", end: Done},
		{name: "the end came empty", in: "s1 s2 s! done flush", out: "1 2", end: Done},
		{name: "the end came first", in: "s1 s4! s3 s2 done flush", out: "1 2 3 4", end: Done},
		{name: "segments after the last", in: "s1 s2! s3 done flush", out: "1 2", end: Done},
		{name: "segments that begin at 0", in: "s0,1 s2! done flush", out: "1 2", end: Done},
		{name: "the server dies", in: "s1 s3 lost", out: "1 <2-2> 3 <4->", end: Lost},

		// PR #383
		{name: "chunks", in: "c1= c2 c3! result", out: "1 2 3", end: Done},
		{name: "chunks repeated", in: "c1= c1= c2 c2 c1= c3! c3! result", out: "1 2 3", end: Done},
		{name: "progress between chunks", in: "g1 c2= g3 c4 c5! result", out: "2 4 5", end: Done},
		{name: "a chunk after the progress", in: "c1= g4 c3 c5! result", out: "1 <1-1> 5", end: Done},
		{name: "a late chunk", in: "c1= c3 c2 c4! result", out: "1 3 <2-2> 4", end: Done},
		{name: "the first chunk is missing", in: "c2 c3! result", out: "<0-0> 2 3", end: Done},
		{name: "the last chunk is missing", in: "c1= c2 result", out: "1 2 <2->", end: Done},
		{name: "replaced", in: "c1= c2 c3= c4! result", out: "1 2 = 3 4", end: Done},
		{name: "chunks after the last", in: "c1= c2! c3 result c4", out: "1 2", end: Done},

		// SEP-2998
		{name: "partial results", in: "r0 r1 r2! result", out: "0 1 2", end: Done},
		{name: "partial results, all broken", in: "r1 r1 r0 r4 r4 r2 r5! r6 result r3",
			out: "0 1 2 <3-3> 4 5", end: Done},
		{name: "the final one is missing", in: "r0 r1 result", out: "0 1 <2->", end: Done},
		{name: "dies", in: "r0 lost", out: "0 <1->", end: Lost},
	} {
		o := Options{Window: c.window}
		var fetches []int64
		if c.fetches != nil {
			fetches = []int64{}
			o.Missing = func() {}
		}
		w := newWatch(o)
		for short := range strings.FieldsSeq(c.in) {
			w.feed(t, short)
			if want, ok := w.Wanted(false, -1); ok {
				fetches = append(fetches, want.After)
			}
		}
		end, _ := w.End()
		if w.String() != c.out || end != c.end || !slices.Equal(fetches, c.fetches) {
			t.Errorf("%s: %s\n got %s, %v, fetches %v\nwant %s, %v, fetches %v", c.name, c.in, w, end,
				fetches, c.out, c.end, c.fetches)
		}
		if n := strings.Count(c.out, "<"); w.Stats().Gaps != n || len(w.gaps) != n {
			t.Errorf("%s: %d gaps are counted", c.name, w.Stats().Gaps)
		}
	}
}

// Whatever the dialect, only objects are handed out, and none with a number that it brought along.
func TestTrackerHandsOutObjects(t *testing.T) {
	const content = `[1,null,"x",[],{"type":"text","seqNr":7,"text":"a"},{"type":"x","\u0073eqNr":0},{"type":"text","text":"\u001bseqNr"}]`
	for name, take := range map[string]func(w *watch){
		"SEP-2679": func(w *watch) {
			w.feed(t, "h")
			w.Notification("notifications/tasks/partial",
				[]byte(`{"taskId":"t","seq":0,"content":`+content+`}`))
		},
		"PR #383": func(w *watch) {
			w.Notification("notifications/progress",
				[]byte(`{"progressToken":"tok","progress":1,"partialResult":{"chunk":{"content":`+
					content+`}}}`))
		},
		"SEP-2998": func(w *watch) {
			w.Notification("notifications/tools/partial_result",
				[]byte(`{"partialResultToken":"tok","seq":0,"content":`+content+`}`))
		},
	} {
		var got []json.RawMessage
		w := newWatch(Options{})
		w.o.Content = func(items []json.RawMessage, _ bool) { got = append(got, items...) }
		take(w)
		if want := `[{"text":"a","type":"text"} {"type":"x"} {"type":"text","text":"\u001bseqNr"}]`; fmt.Sprintf("%s", got) != want || w.Stats().Malformed != 4 {
			t.Errorf("%s: got %s, %d malformed", name, got, w.Stats().Malformed)
		}
	}
}

// Any mixture of drops, repeats and reorderings gives the exact content, or a reported gap at the right
// place. Each line is one that the dialect wrote; line n carries the text "n;".
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(40)
		kind := []string{"2679", "1905", "2998"}[r.IntN(3)]
		lines := spell(t, kind, n)
		total := len(lines)
		window := 1 + r.IntN(8)
		came := disturb(r, lines, window)

		w := newWatch(Options{Window: window})
		for _, i := range came {
			w.message(t, lines[i])
		}
		w.Finish(Done, "")
		w.Flush()

		arrived := map[int]bool{}
		for _, i := range came {
			arrived[i] = true
		}
		var want []string
		first := 0
		if kind == "1905" {
			first = 1
		}
		for i := 0; i < total; i++ {
			if arrived[i] {
				want = append(want, texts(lines[i])...)
				continue
			}
			j := i
			for j < total && !arrived[j] {
				j++
			}
			switch {
			case j < total:
				want = append(want, fmt.Sprintf("<%d-%d>", i+first, j-1+first))
			case kind != "2679" && i > 0: // the end mark is missing
				want = append(want, fmt.Sprintf("<%d->", i+first))
			}
			i = j - 1
		}
		if len(came) == 0 {
			want = nil // nobody knows that there was anything
		}
		if got := w.String(); got != strings.Join(want, " ") {
			t.Fatalf("seed %d, SEP-%s, window %d: came %v of %d\n got %s\nwant %s", seed, kind, window, came,
				total, got, strings.Join(want, " "))
		}
		whole := strings.Join(texts(lines...), "")
		switch got, _ := w.Compare([]json.RawMessage{mcp.Text(whole)}); {
		case len(arrived) == total && got != Same,
			len(arrived) < total && got == Same && strings.Join(texts(pick(lines, arrived)...), "") != whole:
			t.Fatalf("seed %d: %d of %d lines came: %v", seed, len(arrived), total, got)
		}
	}
}

func pick(lines [][]byte, arrived map[int]bool) (some [][]byte) {
	for i, line := range lines {
		if arrived[i] {
			some = append(some, line)
		}
	}
	return some
}

// spell writes n pieces of content as lines of a dialect.
func spell(t *testing.T, kind string, n int) (lines [][]byte) {
	head := []byte(`{"jsonrpc":"2.0"`)
	l := partials.NewLog(nil)
	segments := partials.NewSegments(l)
	var d partials.Dialect
	switch kind {
	case "2679":
		d = partials.NewSEP2679(head, "t", nil)
	case "1905":
		d = partials.NewSEP1905(head, json.RawMessage("1"), "t", segments)
	case "2998":
		d = partials.NewSEP2998(head, json.RawMessage(`"tok"`))
	}
	var pos int64
	for i := range n {
		piece := []byte(fmt.Sprintf("%d;", i))
		if kind == "1905" {
			_ = l.Append(t.Context(), partials.Chunk{Data: piece})
		}
		lines = append(lines, d.Encode(nil, partials.NewBatch(pos, partials.Chunk{Data: piece})))
		pos += int64(len(piece))
	}
	if kind == "1905" {
		segments.Finish(partials.Ending{Rest: []json.RawMessage{[]byte(`{"type":"text","text":"end"}`)}})
		l.Close()
	}
	if end := d.End(nil); len(end) > 0 {
		lines = append(lines, end)
	}
	return lines
}

// disturb drops some of the lines, repeats some, and brings them out of order: no more than window others
// pass one by.
func disturb(r *rand.Rand, lines [][]byte, window int) (came []int) {
	type arrival struct{ line, at int }
	var arrivals []arrival
	for i := range lines {
		switch r.IntN(8) {
		case 0: // dropped
		case 1: // repeated, near or far
			arrivals = append(arrivals, arrival{i, i + r.IntN(2*window)}, arrival{i, i})
		default:
			arrivals = append(arrivals, arrival{i, i + r.IntN(window+1)})
		}
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return a.at - b.at })
	for _, a := range arrivals {
		came = append(came, a.line)
	}
	return came
}

func (w *watch) message(t *testing.T, line []byte) {
	t.Helper()
	var m struct {
		Method         string
		Params, Result json.RawMessage
	}
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatal(err)
	}
	w.Handle("t")
	if m.Method == "" {
		w.Response(m.Result)
		return
	}
	w.Notification(m.Method, m.Params)
}

// texts are the texts of the content in lines.
func texts(lines ...[]byte) (all []string) {
	for _, line := range lines {
		var m struct {
			Params struct{ Content []json.RawMessage }
			Result struct {
				Content []json.RawMessage `json:"partial-content"`
			}
		}
		_ = json.Unmarshal(line, &m)
		for _, item := range append(m.Params.Content, m.Result.Content...) {
			s, _ := mcp.TextOf(item)
			all = append(all, s)
		}
	}
	return all
}

func TestCompare(t *testing.T) {
	text := func(s ...string) (items []json.RawMessage) {
		for _, s := range s {
			items = append(items, mcp.Text(s))
		}
		return items
	}
	stderr := func(s string) json.RawMessage {
		return json.RawMessage(`{"type":"text","text":"` + s + `","_meta":{"runnel/stream":"stderr"}}`)
	}
	odd := func(s string) json.RawMessage { // some servers write an empty object as an array
		return json.RawMessage(`{"type":"text","text":"` + s + `","_meta":[]}`)
	}
	image := json.RawMessage(`{"type":"image","data":"AA==","mimeType":"image/png"}`)
	long := strings.Repeat("a line of output\n", 100)
	for _, c := range []struct {
		came, result []json.RawMessage
		want         Comparison
	}{
		{text("a", "b"), text("ab"), Same},
		{nil, nil, Same},
		{nil, text("ab"), NoneStreamed},
		{text("ab"), text("ab\nexit code 1"), ResultAdds},
		{text("ab"), text("a"), Different},
		{append(text("a"), stderr("e"), mcp.Text("b")), append(text("ab"), stderr("e")), Same},
		{append(text("a"), stderr("e")), text("ae"), Different},
		{text("ab"), text("ba"), Different},
		{[]json.RawMessage{image}, []json.RawMessage{json.RawMessage(`{"mimeType": "image/png", "data": "AA==", "type": "image"}`)}, Same},
		{[]json.RawMessage{image}, nil, Different},
		{text(long), text(long[:500] + "\n[700 bytes are left out]\n" + long[1200:]), Excerpt},
		{text(long), text(long[:500] + "\n[700 bytes are left out]\n" + long[1200:] + "exit code 2\n"),
			Excerpt},
		{text(long[:1605]), append(text(long[:500]+"\n[700 bytes are left out]\n"+long[1200:1605]), image),
			Excerpt},
		{text(long), text(long[:500] + strings.Repeat("?", 300) + long[1200:]), Different},
		{[]json.RawMessage{odd("0"), odd("1")}, []json.RawMessage{odd("01")}, Same},
	} {
		w := newWatch(Options{})
		w.Handle("t")
		for i, item := range c.came {
			w.Notification("notifications/tasks/partial",
				fmt.Appendf(nil, `{"taskId":"t","seq":%d,"content":[%s]}`, i, item))
		}
		if _, rest := w.Compare(c.result); c.want == ResultAdds &&
			(len(rest) != 1 || string(rest[0]) != string(mcp.Text("\nexit code 1"))) ||
			c.want == NoneStreamed && len(rest) != len(c.result) || c.want == Same && len(rest) > 0 {
			t.Errorf("beyond %.60s: %.60s", c.came, rest)
		}
		if got, _ := w.Compare(c.result); got != c.want {
			t.Errorf("%.60s and %.60s: %v, want %v", c.came, c.result, got, c.want)
		}
	}
	w := newWatch(Options{})
	w.merged.most = 10
	for _, short := range strings.Fields("h p0 p1 done") {
		w.feed(t, short)
	}
	w.merged.add(pieceOf(text("longer than is kept")[0]))
	if got, _ := w.Compare(text("x")); got != NotCompared || len(w.merged.flat[0]) > 0 {
		t.Errorf("more than is kept: %v", got)
	}
	w = newWatch(Options{})
	w.feed(t, "c1=")
	w.feed(t, "c2!")
	if got, _ := w.Compare([]json.RawMessage{}); got != ResultEmpty {
		t.Errorf("PR #383: %v", got)
	}
	for _, item := range []json.RawMessage{text("a")[0], text("b")[0], json.RawMessage(`{"type":"image"}`),
		text("c")[0]} {
		w.merged.add(pieceOf(item))
	}
	if got := w.Came(); len(got) != 3 || !bytes.HasSuffix(got[0], []byte(`ab"}`)) ||
		string(got[1]) != `{"type":"image"}` || string(got[2]) != string(text("c")[0]) {
		t.Errorf("what came: %s", got)
	}
}

// A peer that skips a number and floods holds no more than the bound.
func TestTrackerIsBounded(t *testing.T) {
	w := newWatch(Options{Missing: func() {}})
	w.bound = 4000
	big := strings.Repeat("x", 1000)
	w.Response(json.RawMessage(`{"partial-content":[{"seqNr":1,"type":"text","text":"a"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`))
	for i := range 12 {
		w.Response(fmt.Appendf(nil, `{"partial-content":[{"seqNr":%d,"type":"text","text":"%s"}]}`,
			3+2*i, big))
		if w.seq.size > 2*w.bound {
			t.Fatalf("%d bytes are held", w.seq.size)
		}
	}
	for i := range 1000 { // of next to nothing each, after a fetch that nobody answers
		w.Response(fmt.Appendf(nil, `{"partial-content":[{"seqNr":%d}]}`, 1000+i))
	}
	if n := len(w.seq.held); n > 2*w.bound/messageBytes {
		t.Errorf("%d small messages are held", n)
	}
	early := newWatch(Options{})
	early.bound = 4000
	for i := range 6 {
		early.Notification("notifications/tasks/partial",
			fmt.Appendf(nil, `{"taskId":"t","seq":%d,"content":[{"type":"text","text":"%s"}]}`, i, big))
	}
	if len(early.early) > 3 {
		t.Errorf("%d early partials are kept", len(early.early))
	}
	early.feed(t, "h")
	early.feed(t, "p6")
	early.feed(t, "done")
	if n := len(early.out); !strings.HasPrefix(early.out[n-2], "<") || early.out[n-1] != "6" {
		t.Error("what was not kept is not reported")
	}
}

// A peer that skips every other number holds nobody up: what it costs to pass a gap does not depend on how
// much is held.
func TestManyGapsArePassed(t *testing.T) {
	tracker := New(Options{Missing: func() {}}) // which nobody answers
	tracker.bound = 8 * maxHeld
	tracker.uses(sep1905)
	const last = 400_001
	for n := int64(1); n <= last; n += 2 {
		tracker.takeNumbered(sep1905, n, []json.RawMessage{mcp.Text("")})
	}
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		tracker.Flush()
	}()
	select {
	case <-passed:
	case <-time.After(30 * time.Second): // a hundred times what it takes
		t.Fatal("the gaps are still not passed")
	}
	// The last gap: the end did not come.
	if stats := tracker.Stats(); stats.Gaps != last/2+1 || stats.Partials != last/2+1 {
		t.Errorf("%+v", stats)
	}
}
