package partials

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is a Backing in memory.
type shelf struct {
	dues  []bool
	kept  []Extent
	loads int
	err   error
}

func (s *shelf) Due(full bool) { s.dues = append(s.dues, full) }

func (s *shelf) Load(_ context.Context, pos int64, limit int) ([]Extent, error) {
	s.loads++
	if s.err != nil {
		return nil, s.err
	}
	i := slices.IndexFunc(s.kept, func(k Extent) bool { return k.End() > pos })
	if i < 0 {
		return nil, nil
	}
	n := i + 1
	for size := len(s.kept[i].Data); n < len(s.kept) && s.kept[n].Start == s.kept[n-1].End() &&
		size+len(s.kept[n].Data) <= limit; n++ {
		size += len(s.kept[n].Data)
	}
	return s.kept[i:n], nil
}

// keep writes all that is due to the shelf.
func (s *shelf) keep(l *Log) {
	for {
		k, ok := l.Unsaved(64 << 10)
		if !ok {
			break
		}
		s.kept = append(s.kept, k)
	}
	l.MarkSaved()
}

func readAt(t *testing.T, l *Log, pos int64, limit int) (Batch, int64) {
	t.Helper()
	b, next, err := l.ReadAt(t.Context(), pos, limit)
	if err != nil {
		t.Fatal(err)
	}
	return b, next
}

// Whatever the turns of writer, backing and readers: each reader reads all, in order, chunk kinds included.
func TestBackedReadersReadAllInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 30 {
		l, s := NewLog(&LogOptions{MaxPending: 1 << 30}), &shelf{}
		var want bytes.Buffer
		backed := false
		readers, got := []*Reader{l.NewReader(0)}, []*bytes.Buffer{{}}
		read := func(i int) {
			if err := readers[i].Wait(t.Context(), 1); err != nil {
				return
			}
			if b, ok := readers[i].Next(1 + rng.IntN(100_000)); ok {
				if b.Start != int64(got[i].Len()) || b.End != b.Start+int64(len(data(b))) {
					t.Fatalf("round %d: batch at %d to %d with %d bytes, read %d before", round, b.Start,
						b.End, len(data(b)), got[i].Len())
				}
				got[i].WriteString(data(b))
			}
		}
		for range 400 {
			switch rng.IntN(10) {
			case 0:
				if !backed && rng.IntN(4) == 0 {
					l.Back(s)
					backed = true
				}
			case 1:
				if backed && rng.IntN(3) == 0 {
					_, _ = l.Unsaved(1000)
					l.Retry()
				} else if backed {
					s.keep(l)
				}
			case 2:
				if len(readers) < 5 {
					readers, got = append(readers, l.NewReader(0)), append(got, &bytes.Buffer{})
				}
			case 3, 4:
				if i := rng.IntN(len(readers)); int64(got[i].Len()) < l.Size() {
					read(i)
				}
			default:
				line := strings.Repeat("ü", rng.IntN(1+1<<rng.IntN(15))) + "\n"
				mustAppend(t, l, Chunk{Data: []byte(line), More: true, Whole: len(line) < 1000},
					Chunk{Kind: Item, Data: []byte(`{"type":"x"}`)})
				want.WriteString(line + `{"type":"x"}`)
			}
		}
		if !backed {
			l.Back(s)
		}
		l.Close()
		s.keep(l)
		late := Stored(s, l.Size())
		readers, got = append(readers, late.NewReader(0)), append(got, &bytes.Buffer{})
		for i, r := range readers {
			for r.Wait(t.Context(), 1) != io.EOF {
				read(i)
			}
			if !bytes.Equal(got[i].Bytes(), want.Bytes()) {
				t.Fatalf("round %d: reader %d read %d bytes, want %d", round, i, got[i].Len(), want.Len())
			}
			r.Close()
		}
	}
}

// With a backing no slow reader holds the tool; a backing that does not keep up does.
func TestAppendWaitsForBackingOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := NewLog(&LogOptions{MaxPending: 1 << 20}), &shelf{}
		l.Back(s)
		r := l.NewReader(0)
		defer r.Close()
		line := chunkOf(strings.Repeat("x", 1023) + "\n")
		for range 10 << 10 {
			mustAppend(t, l, line)
			if l.cost-l.saved.cost >= 512<<10 {
				s.keep(l)
			}
		}
		if held := l.Held(); held > 2<<20 {
			t.Errorf("%d bytes held of a log of 10 MiB that is kept elsewhere", held)
		}
		full := make(chan error)
		go func() {
			for range 2 << 10 {
				if err := l.Append(t.Context(), line); err != nil {
					full <- err
					return
				}
			}
			full <- nil
		}()
		synctest.Wait()
		select {
		case <-full:
			t.Fatal("Append does not wait for the backing")
		default:
		}
		s.keep(l)
		synctest.Wait()
		s.keep(l)
		if err := <-full; err != nil {
			t.Fatal(err)
		}
	})
}

// However slow a reader is, Append waits for it before the backing leaves out what it has not read.
func TestAppendWaitsForWhoWouldLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4 << 20
		l, s := NewLog(nil), &shelf{}
		l.Back(s)
		l.SetLimit(limit)
		r := l.NewReader(0)
		chunk := chunkOf(strings.Repeat("x", 64<<10))
		appended := make(chan error, 1)
		go func() {
			for range 2 * limit / len(chunk.Data) {
				if err := l.Append(t.Context(), chunk); err != nil {
					appended <- err
					return
				}
				s.keep(l)
			}
			appended <- nil
		}()
		synctest.Wait()
		time.Sleep(time.Hour)
		if lag := l.Size() - r.Pos(); lag > limit/4+64<<10 {
			t.Errorf("a reader lags by %d bytes, of %d that are kept", lag, limit)
		}
		if r.Wait(t.Context(), 1) != nil {
			t.Fatal("nothing to read")
		}
		r.Next(1 << 20)
		synctest.Wait()
		time.Sleep(time.Hour)
		r.Close() // nobody is there any more
		if err := <-appended; err != nil || l.Size() != 2*limit {
			t.Errorf("%d bytes were appended (%v)", l.Size(), err)
		}
	})
}

// Whether an extent is taken from a block as it stands, or made of what a reader reads, it has the same
// chunks.
func TestUnsavedIsWhatIsRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for round := range 300 {
		limit := 1 + rng.IntN(1<<(2+rng.IntN(16)))
		var kept, read []record // with their lengths for their ends
		var keptData, readData []byte
		l := NewLog(&LogOptions{MaxPending: 1 << 30, Retain: 1 << 30})
		l.Back(&shelf{})
		r := Reader{log: l}
		for range 1 + rng.IntN(100) {
			var write []Chunk
			for more := rng.IntN(3); more >= 0; more-- {
				c := Chunk{Kind: Kind(rng.IntN(2)), Stream: Stream(rng.IntN(2)), More: more > 0,
					Whole: rng.IntN(2) == 0}
				c.Data = bytes.Repeat([]byte("ü"), 1+rng.IntN(1<<rng.IntN(12)))
				write = append(write, c)
			}
			mustAppend(t, l, write...)
			if rng.IntN(4) > 0 {
				continue
			}
			for b, ok := r.Next(limit); ok; b, ok = r.Next(limit) {
				for _, c := range b.Chunks() {
					read = append(read, record{uint32(len(c.Data)), c.Kind, c.Stream, c.More, c.Whole})
					readData = append(readData, c.Data...)
				}
			}
			for {
				s, ok := l.Unsaved(limit)
				if !ok {
					break
				}
				b, err := s.block()
				if err != nil || s.Start != int64(len(keptData)) {
					t.Fatalf("round %d: an extent at %d after %d: %v", round, s.Start, len(keptData), err)
				}
				begin := uint32(0)
				for _, rec := range b.records {
					rec.end, begin = rec.end-begin, rec.end
					kept = append(kept, rec)
				}
				keptData = append(keptData, s.Data...)
			}
			l.MarkSaved()
			if l.saved.pos != l.end || l.saved.cost != r.cost {
				t.Fatalf("round %d: %d bytes of %d are kept, at a cost of %d, want %d", round, l.saved.pos,
					l.end, l.saved.cost, r.cost)
			}
		}
		if !slices.Equal(kept, read) || !bytes.Equal(keptData, readData) {
			t.Fatalf("round %d, limit %d: kept %v, want %v", round, limit, kept, read)
		}
	}
}

// Due is told once that there is something, once that it is much, and again only after it was taken.
func TestDue(t *testing.T) {
	l, s := NewLog(nil), &shelf{}
	l.Back(s)
	for range 3 {
		mustAppend(t, l, chunkOf("a line\n"))
	}
	mustAppend(t, l, chunkOf(strings.Repeat("x", dueBytes)))
	mustAppend(t, l, chunkOf("a line\n"))
	if !slices.Equal(s.dues, []bool{false, true}) {
		t.Fatalf("told %v", s.dues)
	}
	s.keep(l)
	mustAppend(t, l, chunkOf("a line\n"))
	if !slices.Equal(s.dues, []bool{false, true, false}) {
		t.Fatalf("told %v", s.dues)
	}
}

func TestFailedBackingEndsTheLog(t *testing.T) {
	full := errors.New("disk is full")
	var lost error
	l := NewLog(&LogOptions{Lost: func(reason error) { lost = reason }})
	l.Back(&shelf{})
	mustAppend(t, l, chunkOf("x"))
	l.Fail(full)
	l.Fail(errors.New("again"))
	if err := l.Append(t.Context(), chunkOf("y")); !errors.Is(err, full) || !errors.Is(err, ErrLost) ||
		!errors.Is(lost, full) {
		t.Errorf("append: %v, told: %v", err, lost)
	}
	if b, _ := readAt(t, l, 0, 10); data(b) != "x" {
		t.Errorf("what memory holds reads as %q", data(b))
	}
}

// Head and tail are kept of a long log; a mark stands for the rest.
func TestGapIsMarked(t *testing.T) {
	s := &shelf{kept: []Extent{
		{Start: 0, Marks: []byte{4 << 4}, Data: []byte("head")},
		{Start: 104, Marks: []byte{4 << 4}, Data: []byte("tail")},
	}}
	l := Stored(s, 108)
	r := l.NewReader(0)
	defer r.Close()
	var got strings.Builder
	for r.Wait(t.Context(), 1) == nil {
		b, _ := r.Next(1000)
		got.WriteString(data(b))
		if lost := b.Start == 4; b.Lost != lost || lost && b.End != 104 {
			t.Errorf("batch at %d to %d, lost: %v", b.Start, b.End, b.Lost)
		}
	}
	if want := "head[100 bytes of output are no longer kept]\ntail"; got.String() != want {
		t.Errorf("read %q, want %q", &got, want)
	}
	if b, next := readAt(t, l, 50, 1000); data(b) != "tail" || b.Start != 104 || next != 108 {
		t.Errorf("from within the gap: %q at %d, next %d", data(b), b.Start, next)
	}
	s.kept = s.kept[:1]
	if b, next := readAt(t, l, 50, 1000); len(b.Chunks()) > 0 && !b.Lost || next != 108 {
		t.Errorf("after all that is kept: %q, next %d", data(b), next)
	}

	// SEP-1905 numbers a gap as one segment, whichever way it meets it.
	for _, push := range []bool{true, false} {
		s.kept = s.kept[:2]
		l = Stored(s, 108)
		segments := NewSegments(l)
		segments.Finish(Ending{})
		if push {
			d, r := NewSEP1905([]byte(`{"jsonrpc":"2.0"`), []byte("1"), "t", segments), l.NewReader(0)
			for r.Wait(t.Context(), 1) == nil {
				b, _ := r.Next(1000)
				if _, err := DecodeSEP1905(d.Encode(nil, b)); err != nil {
					t.Error(err)
				}
			}
			r.Close()
		}
		if page := after(t, segments, 0, 10_000); page.Count != 3 || !page.Complete ||
			!strings.Contains(string(page.Content), "100 bytes") {
			t.Errorf("segments: %s", page.Content)
		}
	}
}

// lockless is a shelf that is read while nobody holds the lock of some segments: Encode waits for that, and
// all output for Encode.
type lockless struct {
	shelf
	t        *testing.T
	segments *Segments
}

func (s *lockless) Load(ctx context.Context, pos int64, limit int) ([]Extent, error) {
	if s.segments.mu.TryLock() {
		s.segments.mu.Unlock()
	} else {
		s.t.Error("the backing is read under the segments' lock")
	}
	return s.shelf.Load(ctx, pos, limit)
}

func TestSegmentsAreReadWithoutTheirLock(t *testing.T) {
	t.Run("sent before", func(t *testing.T) { readWithoutLock(t, true) })
	t.Run("sent by nobody", func(t *testing.T) { readWithoutLock(t, false) })
}

func readWithoutLock(t *testing.T, sent bool) {
	l, s := NewLog(nil), &lockless{t: t}
	s.segments = NewSegments(l)
	l.Back(s)
	d, r := NewSEP1905([]byte(`{"jsonrpc":"2.0"`), []byte("1"), "t", s.segments), l.NewReader(0)
	defer r.Close()
	for range 2 * backedRetain / 1000 { // half of it is no longer in memory
		mustAppend(t, l, chunkOf(strings.Repeat("x", 999)+"\n"))
		if sent {
			b, _ := r.Next(1000)
			d.Encode(nil, b)
		}
		s.keep(l)
	}
	after(t, s.segments, 0, 1) // as a resume
	whole := after(t, s.segments, 0, 1<<30)
	if page := after(t, s.segments, 10, 5000); sent && page.Count < 2 ||
		!strings.Contains(string(whole.Content), string(bytes.Trim(page.Content, "[]"))) {
		t.Errorf("a page in the middle: %s", page.Content)
	}
	if merged, cut, err := s.segments.Merged(1 << 30); err != nil || cut ||
		sent && whole.Count != 2*backedRetain/1000 || len(whole.Content) < 2*backedRetain ||
		len(merged) < 2*backedRetain {
		t.Errorf("%d segments, %d bytes merged", whole.Count, len(merged))
	}
	if s.loads == 0 {
		t.Error("nothing was read from the backing")
	}
}

func TestDamagedExtentIsAnError(t *testing.T) {
	for _, marks := range [][]byte{nil, {5 << 4}, {3 << 4}, {0x80}} {
		l := Stored(&shelf{kept: []Extent{{Marks: marks, Data: []byte("data")}}}, 4)
		if _, _, err := l.ReadAt(t.Context(), 0, 10); err == nil {
			t.Errorf("marks %v: no error", marks)
		}
	}
	broken := errors.New("no disk")
	if _, _, err := Stored(&shelf{err: broken}, 4).ReadAt(t.Context(), 0, 10); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// Numbers are not taken for output that cannot be: who asks for it would look for it for ever.
func TestDamagedTailGivesNoNumbers(t *testing.T) {
	s := RestoreSegments(followed(&shelf{}, 0), nil, nil)
	s.Follow()
	if err := s.Grow(4, []Extent{{Marks: []byte{5 << 4}, Data: []byte("data")}}, []int64{4}); err == nil {
		t.Error("no error")
	}
	if page := after(t, s, 0, 100); page.Count != 0 {
		t.Errorf("segments: %s", page.Content)
	}
}

// A backing that comes back goes on after what it has kept.
func TestBackingComesBack(t *testing.T) {
	l, s := NewLog(nil), &shelf{}
	l.Back(s)
	mustAppend(t, l, chunkOf("one "))
	s.keep(l)
	l.Unback()
	mustAppend(t, l, chunkOf("two "))
	l.Back(s)
	s.keep(l)
	mustAppend(t, l, chunkOf("three"))
	s.keep(l)
	var got []byte
	for _, k := range s.kept {
		if k.Start != int64(len(got)) {
			t.Errorf("from %d is kept after %d", k.Start, len(got))
		}
		got = append(got, k.Data...)
	}
	if string(got) != "one two three" {
		t.Errorf("kept %q", got)
	}
}

func TestFollowedLogGrows(t *testing.T) {
	s := &shelf{}
	l := followed(s, 0)
	r := l.NewReader(0)
	defer r.Close()
	s.kept = append(s.kept, Extent{Marks: []byte{4 << 4}, Data: []byte("more")})
	if err := l.grow(4, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if b, ok := r.Next(100); !ok || data(b) != "more" {
		t.Errorf("read %q", data(b))
	}
	if err := l.Append(t.Context(), chunkOf("mine")); !errors.Is(err, errClosed) {
		t.Errorf("append to a log that somebody else writes: %v", err)
	}
	l.Close()
	if err := r.Wait(t.Context(), 1); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

// A followed log takes the end of what is new into memory, if it has no gap there; all else is read from the
// backing.
func TestFollowedLogHasATail(t *testing.T) {
	s := &shelf{}
	l := followed(s, 0)
	grow := func(kept bool, texts ...string) {
		t.Helper()
		end, tail := l.Size(), []Extent(nil)
		for _, text := range texts {
			tail = append(tail, Extent{Start: end, Marks: binary.AppendUvarint(nil, uint64(len(text))<<4),
				Data: []byte(text)})
			end += int64(len(text))
		}
		s.kept = append(s.kept, tail...)
		if !kept {
			tail = tail[1:]
		}
		if err := l.grow(end, tail); err != nil {
			t.Fatal(err)
		}
	}
	grow(true, "one\n")
	grow(true, "two\n", "six\n")
	if got := data(l.Tail(100)); got != "one\ntwo\nsix\n" {
		t.Errorf("the tail is %q", got)
	}
	grow(false, "gap\n", "end\n")
	if got := data(l.Tail(100)); got != "end\n" {
		t.Errorf("after a gap the tail is %q", got)
	}
	all := ""
	for pos := int64(0); pos < l.Size(); {
		b, next := readAt(t, l, pos, 5)
		all, pos = all+data(b), next
	}
	if all != "one\ntwo\nsix\ngap\nend\n" {
		t.Errorf("all of it is %q", all)
	}
	if err := l.grow(100, []Extent{{Start: 20, Data: []byte("x")}}); err == nil {
		t.Error("a damaged extent is taken")
	}
	for range 2 * backedRetain / 100 {
		grow(true, strings.Repeat("x", 100))
	}
	if n := l.Size() - l.from(); n < backedRetain || n > backedRetain+100 {
		t.Errorf("memory keeps %d bytes, want %d", n, backedRetain)
	}
}

// FuzzExtent: an extent that cannot be decoded is an error, whatever it is; one that can carries its data.
func FuzzExtent(f *testing.F) {
	f.Add([]byte{4 << 4}, []byte("data"))
	f.Fuzz(func(t *testing.T, marks, stored []byte) {
		s := Extent{Marks: marks, Data: stored}
		if b, err := s.block(); err == nil && b.end() != int64(len(stored)) {
			t.Errorf("block ends at %d of %d", b.end(), len(stored))
		}
	})
}

// A response that resumes carries no more content than it may, and the client gets on with each.
func TestPagesKeepTheirLimit(t *testing.T) {
	l := NewLog(nil)
	s := NewSegments(l)
	for range 40 {
		mustAppend(t, l, chunkOf(strings.Repeat("x", 64<<10-1)+"\n"))
		s.Number(l.Size())
	}
	const limit = 512 << 10
	n := int64(0)
	for pages := 0; n < 40; pages++ {
		page := after(t, s, n, limit)
		if n += int64(page.Count); page.Count == 0 || len(page.Content) > limit || pages > 10 {
			t.Fatalf("%d segments, %d bytes; %d so far", page.Count, len(page.Content), n)
		}
	}
	if page := after(t, s, 1, 100); page.Count != 1 {
		t.Errorf("a segment that is longer than a page: %d segments", page.Count)
	}
}

// Output that cannot be read at the moment is neither left out nor reported as gone: who asks again gets all
// of it.
func TestSegmentsThatCannotBeReadAreAnError(t *testing.T) {
	broken := errors.New("no connection")
	for _, numbered := range []bool{true, false} {
		s := &shelf{kept: []Extent{{Marks: []byte{4 << 4}, Data: []byte("data")}}}
		segments := NewSegments(Stored(s, 4))
		segments.Finish(Ending{})
		if numbered {
			segments.Number(4)
		}
		s.err = broken
		if page, err := segments.After(0, 100); !errors.Is(err, broken) {
			t.Errorf("numbered %v: page %s, error %v", numbered, page.Content, err)
		}
		if merged, _, err := segments.Merged(100); !errors.Is(err, broken) {
			t.Errorf("numbered %v: merged %s, error %v", numbered, merged, err)
		}
		if first, complete := segments.First([]byte(`{}`), []byte(`{}`), 100); complete ||
			strings.Contains(string(first), "kept") {
			t.Errorf("numbered %v: the first response is %s", numbered, first)
		}
		s.err = nil
		if page := after(t, segments, 0, 100); !page.Complete ||
			!strings.Contains(string(page.Content), `"data"`) {
			t.Errorf("numbered %v: then the page is %s", numbered, page.Content)
		}
	}
}

// after is Segments.After, which must not fail.
func after(t *testing.T, s *Segments, last int64, limit int) Page {
	t.Helper()
	page, err := s.After(last, limit)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// followed is a log that somebody else writes.
func followed(b Backing, end int64) *Log {
	l := Stored(b, end)
	l.Follow()
	return l
}

// A page reads each piece of the log once, however small its segments are: it loaded 64 KiB for each of them.
func TestPageLoadsEachPieceOnce(t *testing.T) {
	l, s := NewLog(nil), &shelf{}
	l.Back(s)
	const items, size = 20_000, len(`{"type":"text","text":"x"}`)
	for range items {
		if err := l.Append(t.Context(),
			Chunk{Kind: Item, Data: []byte(`{"type":"text","text":"x"}`)}); err != nil {
			t.Fatal(err)
		}
		s.keep(l)
	}
	l.Close()
	segments := NewSegments(l)
	segments.Finish(Ending{})
	most := 2*items*size/loadBytes + 10
	for range 2 {
		s.loads = 0
		page, err := segments.After(0, 1<<20)
		if err != nil || page.Count < items*3/4 || s.loads > 2*most {
			t.Errorf("a page of %d segments took %d loads, want %d at most: %v", page.Count, s.loads,
				2*most, err)
		}
		s.loads = 0
		merged, cut, err := segments.Merged(1 << 18)
		if err != nil || !cut || !bytes.Contains(merged, []byte("segments left out")) || s.loads > most {
			t.Errorf("%d bytes took %d loads, want %d at most: %v", len(merged), s.loads, most, err)
		}
	}
}
