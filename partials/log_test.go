package partials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func chunkOf(s string) Chunk { return Chunk{Data: []byte(s)} }

func mustAppend(t testing.TB, l *Log, chunks ...Chunk) {
	t.Helper()
	if err := l.Append(context.Background(), chunks...); err != nil {
		t.Fatal(err)
	}
}

// data is what a batch holds.
func data(b Batch) string {
	var s strings.Builder
	for _, c := range b.Chunks() {
		s.Write(c.Data)
	}
	return s.String()
}

func TestReadersReadAllInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 30 {
		l := NewLog(&LogOptions{MaxPending: 1 << 30, Retain: 1 << 30})
		var want bytes.Buffer
		readers := []*Reader{l.NewReader(0)}
		got := []*bytes.Buffer{{}}
		for range rng.IntN(300) {
			line := strings.Repeat("é", rng.IntN(1+1<<rng.IntN(17)/8)) + "\n"
			mustAppend(t, l, chunkOf(line))
			want.WriteString(line)
			if rng.IntN(60) == 0 {
				at := rng.Int64N(l.Size())
				for !utf8.RuneStart(want.Bytes()[at]) {
					at--
				}
				readers = append(readers, l.NewReader(at))
				got = append(got, bytes.NewBuffer(bytes.Clone(want.Bytes()[:at])))
			}
			i := rng.IntN(len(readers))
			limit := 1 + rng.IntN(100_000)
			b, _ := readers[i].Next(limit)
			if s := data(b); !utf8.ValidString(s) || len(s) > limit && len(b.Chunks()) > 1 {
				t.Fatalf("round %d: limit %d gave %d bytes in %d chunks, valid %v", round, limit, len(s),
					len(b.Chunks()), utf8.ValidString(s))
			}
			got[i].WriteString(data(b))
		}
		l.Close()
		for i, r := range readers {
			for r.Wait(context.Background(), 1) != io.EOF {
				b, _ := r.Next(64 << 10)
				got[i].WriteString(data(b))
			}
			if !bytes.Equal(got[i].Bytes(), want.Bytes()) {
				t.Fatalf("round %d: reader %d read %d bytes, want %d", round, i, got[i].Len(), want.Len())
			}
			r.Close()
		}
	}
}

func TestTextIsCutBetweenLinesThenCharacters(t *testing.T) {
	for _, c := range []struct {
		in    Chunk
		limit int
		want  []string
	}{
		{chunkOf("one\ntwo\nthree"), 8, []string{"one\ntwo\n", "three"}},
		{chunkOf("one\ntwo\nthree"), 7, []string{"one\n", "two\n", "three"}},
		{chunkOf("ääää"), 5, []string{"ää", "ää"}},
		{chunkOf("ä"), 1, []string{"ä"}},
		{Chunk{Data: []byte("a whole line\n"), Whole: true}, 5, []string{"a whole line\n"}},
	} {
		l := NewLog(nil)
		mustAppend(t, l, c.in)
		r := l.NewReader(0)
		var got []string
		for b, ok := r.Next(c.limit); ok; b, ok = r.Next(c.limit) {
			got = append(got, data(b))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%q by %d: got %q, want %q", c.in.Data, c.limit, got, c.want)
		}
	}
}

func TestWritesStayTogether(t *testing.T) {
	l := NewLog(nil)
	item := func(s string, more bool) Chunk { return Chunk{Kind: Item, Data: []byte(s), More: more} }
	mustAppend(t, l, chunkOf("before"))
	mustAppend(t, l, item(`{"a":1}`, true), item(`{"a":2}`, true), item(`{"a":3}`, false))
	mustAppend(t, l, chunkOf("after"))
	r := l.NewReader(0)
	var got []string
	for b, ok := r.Next(10); ok; b, ok = r.Next(10) {
		got = append(got, data(b))
	}
	if want := []string{"before", `{"a":1}{"a":2}{"a":3}`, "after"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTinyChunksCountTheirRecords(t *testing.T) {
	l := NewLog(&LogOptions{MaxPending: 1 << 20})
	r := l.NewReader(0)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for l.Append(ctx, chunkOf("x")) == nil {
	}
	if held := l.Held(); held > 3<<20 {
		t.Errorf("%d bytes are held for a reader that stands still, 1 MiB allowed and its slack", held)
	}
}

func TestAppendWaitsForSlowestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(&LogOptions{MaxPending: 100})
		r := l.NewReader(0)
		mustAppend(t, l, chunkOf(strings.Repeat("x", 100)))
		appended := make(chan error, 1)
		go func() { appended <- l.Append(t.Context(), chunkOf("y")) }()
		synctest.Wait()
		select {
		case err := <-appended:
			t.Fatalf("append did not wait: %v", err)
		default:
		}
		r.Next(1000)
		if err := <-appended; err != nil {
			t.Fatal(err)
		}

		mustAppend(t, l, chunkOf(strings.Repeat("x", 80)))
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { appended <- l.Append(ctx, chunkOf("z")) }()
		synctest.Wait()
		stop := errors.New("stop")
		cancel(stop)
		if err := <-appended; err != stop {
			t.Errorf("after its context ended append returned %v", err)
		}

		go func() { appended <- l.Append(t.Context(), chunkOf("z")) }()
		synctest.Wait()
		r.Close()
		if err := <-appended; err != nil {
			t.Errorf("after the reader was closed append returned %v", err)
		}
		mustAppend(t, l, chunkOf(strings.Repeat("x", 1000))) // no reader: nothing to wait for

		r = l.NewReader(l.Size())
		mustAppend(t, l, chunkOf(strings.Repeat("x", 1000))) // one write is never too large
		go func() { appended <- l.Append(t.Context(), chunkOf("z")) }()
		synctest.Wait()
		l.Close()
		if err := <-appended; !errors.Is(err, errClosed) {
			t.Errorf("after the log was closed append returned %v", err)
		}
		r.Close()
	})
}

// Memory lets go of nothing before a reader that is about to come has read it, unless that takes too long.
func TestAppendWaitsForAReaderToCome(t *testing.T) {
	for _, come := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			l := NewLog(&LogOptions{MaxPending: 64 << 10, Retain: 64 << 10})
			before := l.NewReader(0) // of the request that is answered with the task
			l.Expect(5 * time.Second)
			before.Close()
			const writes = 40
			appended := make(chan error, writes)
			go func() {
				for range writes {
					appended <- l.Append(t.Context(), chunkOf(strings.Repeat("x", 16<<10)))
				}
			}()
			if time.Sleep(time.Second); len(appended) != 4 {
				t.Errorf("%d writes, of which 4 have room", len(appended))
			}
			if come {
				r := l.NewReader(0)
				defer r.Close()
				for r.Pos() < writes*16<<10 {
					if err := r.Wait(t.Context(), 1); err != nil {
						t.Fatal(err)
					}
					if b, _ := r.Next(64 << 10); b.Lost {
						t.Fatalf("%d bytes were let go", b.End-b.Start)
					}
				}
			}
			for range writes {
				if err := <-appended; err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took > time.Second != !come || took > 5*time.Second {
				t.Errorf("with a reader %v, the writes took %v", come, took)
			}
		})
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(nil)
		r := l.NewReader(0)
		defer r.Close()
		waited := make(chan error, 1)
		wait := func(ctx context.Context, n int64) { waited <- r.Wait(ctx, n) }

		go wait(t.Context(), 3)
		mustAppend(t, l, chunkOf("ab"))
		synctest.Wait()
		if len(waited) > 0 {
			t.Fatal("woken by less than was waited for")
		}
		mustAppend(t, l, chunkOf("c"))
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Wait(done, 1); err != nil {
			t.Errorf("what is there already was not returned: %v", err)
		}
		if err := r.Wait(done, 10); err != context.Canceled {
			t.Errorf("got %v, want context.Canceled", err)
		}
		go wait(t.Context(), 10)
		synctest.Wait()
		l.Close()
		if err := <-waited; err != nil {
			t.Errorf("closed with something to read: %v", err)
		}
		r.Next(1000)
		if err := r.Wait(t.Context(), 1); err != io.EOF {
			t.Errorf("closed and read: %v", err)
		}
	})
}

// A reader that stands still holds no more than MaxPending; what everybody has read is let go.
func TestMemoryIsBounded(t *testing.T) {
	const pending, retain = 256 << 10, 128 << 10
	l := NewLog(&LogOptions{MaxPending: pending, Retain: retain})
	r := l.NewReader(0)
	line := chunkOf(strings.Repeat("x", 99) + "\n")
	most := int64(0)
	for total := 0; total < 64<<20; total += len(line.Data) {
		if l.Size()-r.Pos() > pending-1000 {
			r.Next(100_000)
		}
		mustAppend(t, l, line)
		if total%(1<<20) < 100 {
			most = max(most, l.Held())
		}
	}
	if limit := int64(pending + retain + 4*maxBlock); most > limit {
		t.Errorf("held up to %d bytes, want at most %d", most, limit)
	}
	b, next := readAt(t, l, 0, 1000)
	if b.Start == 0 || next != b.End || len(data(b)) == 0 {
		t.Errorf("reading what was let go: from %d to %d, next %d", b.Start, b.End, next)
	}
}

func TestTailIsTheLast(t *testing.T) {
	l := NewLog(&LogOptions{MaxPending: 10})
	for i := range 10_000 {
		mustAppend(t, l, chunkOf(fmt.Sprintf("line %d\n", i)))
	}
	if b := l.Tail(tailBytes); len(data(b)) > 2*tailBytes || b.LastLine() != "line 9999" ||
		b.End != l.Size() {
		t.Errorf("%d bytes, last line %q, up to %d of %d", len(data(b)), b.LastLine(), b.End, l.Size())
	}
	mustAppend(t, l, chunkOf("compi"))
	mustAppend(t, l, chunkOf("ling foo"))
	if b := l.Tail(tailBytes); b.LastLine() != "compiling foo" {
		t.Errorf("a line in two halves: %q", b.LastLine())
	}
	mustAppend(t, l, chunkOf(strings.Repeat("é", 5000)))
	if b := l.Tail(tailBytes); !utf8.ValidString(data(b)) {
		t.Error("a tail begins inside a character")
	}
	if b, next := readAt(t, NewLog(nil), -1, 10); len(b.Chunks()) > 0 || next != 0 {
		t.Errorf("an empty log holds %v, next %d", b, next)
	}
}

func TestAppendAndReadAllocateNothing(t *testing.T) {
	const id = "786512e2-9e0d-44bd-8f29-789f320fe840"
	for name, d := range map[string]Dialect{
		"SEP-2679":                   NewSEP2679(head, id, nil),
		"SEP-2679 on a subscription": NewSEP2679(head, id, subscription),
		"SEP-2998":                   NewSEP2998(head, json.RawMessage(`"token"`)),
	} {
		l := NewLog(&LogOptions{Retain: 1})
		r := l.NewReader(0)
		chunk := chunkOf("chunk 000123 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n")
		line := make([]byte, 0, 4096)
		step := func() {
			mustAppend(t, l, chunk)
			b, _ := r.Next(1 << 16)
			line = d.Encode(line[:0], b)
		}
		for range 10_000 {
			step()
		}
		if n := testing.AllocsPerRun(10_000, step); n > 0 {
			t.Errorf("%s: a chunk costs %v allocations, want 0", name, n)
		}
	}
}

// BenchmarkChunk answers what one 50-byte chunk costs from the tool's write to the line, one line each.
func BenchmarkChunk(b *testing.B) {
	l := NewLog(nil)
	r := l.NewReader(0)
	d := NewSEP2679([]byte(`{"jsonrpc":"2.0"`), "786512e2-9e0d-44bd-8f29-789f320fe840", nil)
	chunk := chunkOf("chunk 000123 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n")
	line := make([]byte, 0, 4096)
	b.SetBytes(int64(len(chunk.Data)))
	b.ReportAllocs()
	for b.Loop() {
		_ = l.Append(context.Background(), chunk)
		batch, _ := r.Next(1 << 16)
		line = d.Encode(line[:0], batch)
	}
}

// A reader who comes when the beginning is gone holds nobody up for it.
func TestLateReaderDoesNotLagForWhatIsGone(t *testing.T) {
	l := NewLog(&LogOptions{Retain: 64 << 10})
	chunk := Chunk{Data: bytes.Repeat([]byte{'x'}, 64<<10)}
	for range 40 { // two and a half times what a reader may lag
		if err := l.Append(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
	}
	r := l.NewReader(0)
	defer r.Close()
	r.Next(1 << 10)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Append(ended, chunk); err != nil {
		t.Errorf("Append waits: %v", err)
	}
}

// A position inside the last character of a chunk is the beginning of the next one.
func TestReadInsideACharacter(t *testing.T) {
	l := NewLog(nil)
	mustAppend(t, l, chunkOf("é"))
	mustAppend(t, l, chunkOf("x"))
	if b, next := readAt(t, l, 1, 10); len(b.Chunks()) != 1 || data(b) != "x" || b.Start != 2 || next != 3 {
		t.Errorf("got %d chunks, %q, from %d to %d", len(b.Chunks()), data(b), b.Start, next)
	}
}

// In a merged result, everything that memory has let go is one item.
func TestMergedTellsOnceWhatIsGone(t *testing.T) {
	l := NewLog(&LogOptions{Retain: 64 << 10})
	s := NewSegments(l)
	for range 10 {
		if err := l.Append(t.Context(), Chunk{Data: bytes.Repeat([]byte{'q'}, 32<<10)}); err != nil {
			t.Fatal(err)
		}
		after(t, s, 0, 1<<20) // as a client that is sent each
	}
	l.Close()
	s.Finish(Ending{})
	merged, _, err := s.Merged(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(merged, []byte("no longer kept")); n != 1 {
		t.Errorf("%d items tell of what is gone, want 1", n)
	}
	if lost := bytes.Count(merged, []byte("q")); !bytes.Contains(merged,
		fmt.Appendf(nil, "[%d bytes of output are no longer kept]", 10*32<<10-lost)) {
		t.Errorf("got %.100s with %d bytes of output after it", merged, lost)
	}
}
