package files

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"runnel/partials"
	"runnel/tasks"
)

// Set is the files of a task. Open reads it from a store.
type Set struct {
	Files []File
	log   *partials.Log
}

// Open returns the files of a task, or tasks.ErrNotFound if it has none, or if they are no longer kept.
func Open(ctx context.Context, store tasks.Store, id string) (*Set, error) {
	t, err := store.Get(ctx, tasks.FilesID(id))
	if err != nil {
		return nil, err
	}
	if t.Outcome == nil || t.Outcome.Result == nil {
		return nil, tasks.ErrNotFound // they are being written, or their writer has died
	}
	var stored list
	if err := json.Unmarshal(t.Outcome.Result.StructuredContent, &stored); err != nil {
		return nil, tasks.ErrNotFound
	}
	return &Set{stored.Files, t.Log}, nil
}

// Find returns the file with a name, or tasks.ErrNotFound.
func (s *Set) Find(name string) (File, error) {
	for _, f := range s.Files {
		if f.Name == name {
			return f, nil
		}
	}
	return File{}, tasks.ErrNotFound
}

// Reader returns a reader for the content of a file.
func (s *Set) Reader(ctx context.Context, f File) *Reader {
	return &Reader{ctx: ctx, log: s.log, file: f}
}

// Reader reads a stored file. Set.Reader makes one.
type Reader struct {
	ctx  context.Context
	log  *partials.Log
	file File
	pos  int64
	next []byte // what was read, but not returned yet
	from *partials.Reader
	text []byte // base64 that is not decoded yet
	bad  error
}

var (
	_ io.ReadSeeker = (*Reader)(nil)

	errGone = errors.New("a part of the file is no longer kept")
)

// group is how many bytes make four characters of base64.
const group = 3

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.next) == 0 {
		switch {
		case r.pos >= r.file.Size:
			return 0, io.EOF
		case r.bad != nil:
			return 0, r.bad
		}
		r.next, r.bad = r.load()
	}
	n := copy(p, r.next)
	r.next = r.next[n:]
	r.pos += int64(n)
	return n, nil
}

// load returns what follows r.pos, up to a piece of it. Pieces of the log may end anywhere.
func (r *Reader) load() ([]byte, error) {
	skip := 0
	if r.from == nil { // at the beginning, or after Seek
		skip = int(r.pos % group)
		r.from = r.log.ReaderAt(r.file.At + r.pos/group*4)
		r.text = nil
	}
	for len(r.text) < 4 {
		at := r.from.Pos()
		end := r.file.At + int64(base64.StdEncoding.EncodedLen(int(r.file.Size)))
		b, err := r.from.Read(r.ctx, int(min(end-at, pieceBytes)))
		if err != nil {
			return nil, fmt.Errorf("reading a file of a task: %w", err)
		}
		if b.Start != at || b.End == b.Start || b.Lost {
			return nil, errGone
		}
		for _, c := range b.Chunks() {
			r.text = append(r.text, c.Data...)
		}
	}
	whole := len(r.text) / 4 * 4
	decoded := make([]byte, base64.StdEncoding.DecodedLen(whole))
	n, err := base64.StdEncoding.Decode(decoded, r.text[:whole])
	if err != nil {
		return nil, errGone
	}
	r.text = r.text[whole:]
	if int64(n-skip) > r.file.Size-r.pos || n <= skip {
		return nil, errGone
	}
	return decoded[skip:n], nil
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.file.Size
	}
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	if offset != r.pos {
		r.pos, r.next, r.from, r.bad = offset, nil, nil, nil
	}
	return offset, nil
}
