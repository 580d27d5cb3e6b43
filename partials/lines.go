package partials

// The short way of a tool that writes many small pieces, each a notification of its own (pace 0). To make a batch of chunks of them, a batch
// of each, and a line of its parts, was two thirds of what their encoding took. Here lines are made of the log's block as it
// stands, one call for all of them. FuzzLines holds it to Next and Encode.

// liner is a dialect that spells a run of writes at once.
type liner interface {
	// Lines appends what Encode would append for each write of w.
	Lines(dst []byte, w writes) []byte
}

// writes are chunks of one block that follow each other, each a write of its own.
type writes struct {
	start   int64  // position of the first byte
	begin   int    // of the first one in data
	data    []byte // of the block
	records []record
}

func (w *writes) end() int64 {
	return w.start - int64(w.begin) + int64(w.records[len(w.records)-1].end)
}

// nextWrites reads what Next would, as far as it is in one block and writes of one chunk each, moves on behind it, and reports how
// much of limit it takes. What is something else is left to Next.
func (r *Reader) nextWrites(limit int) (w writes, size int) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.tail || r.gap > r.pos || r.pos >= l.end {
		return writes{}, 0
	}
	b, n, at := locate(r.source(), r.pos)
	if b == nil {
		return writes{}, 0
	}
	w = writes{start: r.pos, begin: at, data: b.data, records: b.records[n:]}
	for k := range w.records {
		rec := &w.records[k]
		data := int(rec.end) - at
		if size+data+r.overhead > limit || rec.more {
			w.records = w.records[:k]
			break
		}
		size += data + r.overhead
		r.cost += costOf(data)
		at = int(rec.end)
	}
	if size > 0 {
		r.pos = w.end()
		l.wakeAppends()
		l.trim()
	}
	return w, size
}

// lines encodes what Next and Encode would, as far as it is writes of one chunk each: nothing, if the next one is not. p.mu is held.
func (p *Pump) lines(dst []byte, d liner) []byte {
	for left := p.o.MaxBytes; left > 0; {
		w, size := p.r.nextWrites(left)
		if size == 0 {
			break
		}
		p.pos = w.end()
		dst = d.Lines(dst, w)
		left -= size
	}
	return dst
}
