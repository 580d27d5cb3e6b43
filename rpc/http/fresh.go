package httpserver

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// lookPause is the shortest time between two checks whether files have changed.
const lookPause = time.Second

// Fresh is the content of some files, such as certificates, read again when it is asked for and they have
// changed.
type Fresh[T any] struct {
	files []string
	read  func() (T, error)
	log   zerolog.Logger

	mu     sync.Mutex
	looked time.Time
	seen   []os.FileInfo // of the files when they were last read
	value  T
	said   string // the last error that was logged
}

// NewFresh reads the files, all of which must exist.
func NewFresh[T any](log zerolog.Logger, read func() (T, error), files ...string) (*Fresh[T], error) {
	f := &Fresh[T]{files: files, read: read, log: log, looked: time.Now()}
	f.seen = f.stat()
	var err error
	f.value, err = read()
	return f, err
}

// Get returns the content of the files. If read returns an error, it returns the last valid content.
func (f *Fresh[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < lookPause {
		return f.value
	}
	f.looked = time.Now()
	now := f.stat()
	if slices.EqualFunc(now, f.seen, unchanged) {
		return f.value
	}
	value, err := f.read()
	switch {
	case err == nil:
		f.value = value
		f.seen = now
		f.said = ""
		f.log.Info().Strs("files", f.files).Msg("read again")
	case err.Error() != f.said: // one file may be written before the other
		f.said = err.Error()
		f.log.Error().Err(err).Strs("files", f.files).
			Msg("the files are not valid: their last valid content is used")
	}
	return f.value
}

// stat returns what the files are now; nil for one that is missing.
func (f *Fresh[T]) stat() (infos []os.FileInfo) {
	for _, file := range f.files {
		info, _ := os.Stat(file) // read says what is wrong with it
		infos = append(infos, info)
	}
	return infos
}

// unchanged reports whether a file is as it was. A pipe, which changes when it is read, and is empty
// afterwards, never changes.
func unchanged(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && (!a.Mode().IsRegular() ||
		a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()))
}
