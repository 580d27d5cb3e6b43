package terminal

import (
	"context"
	"slices"
	"sync"

	"runnel/partials"
)

// Screens are those of some tasks: each reads the log of its task. The zero value has none.
type Screens struct {
	mu   sync.Mutex // held while one reads its log
	list []*SeenScreen
}

// SeenScreen is the screen of a task as far as its log was read.
type SeenScreen struct {
	*Screen
	Next int64 // how far that is
	id   string
}

const (
	// maxScreens is how many there are; they take some 5 MB each. The one that was used longest ago is
	// made again when it is used again, and then all that it shows is new.
	maxScreens = 4
	// maxReplay is how much of the end of a log a new screen reads, in bytes: a program that has printed more
	// has drawn its screen again since.
	maxReplay = 1 << 20
	// logPiece is how much of a log is read at once, in bytes.
	logPiece = 64 << 10
)

// On calls look with the screen of a task as its log has it now. columns and rows are its size at first;
// limit is that of Screen.Write.
func (s *Screens) On(ctx context.Context, id string, log *partials.Log, columns, rows, limit int,
	look func(screen *SeenScreen)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.list, func(seen *SeenScreen) bool { return seen.id == id })
	if at < 0 {
		if at = len(s.list); at == maxScreens {
			s.list, at = slices.Delete(s.list, 0, 1), maxScreens-1
		}
		s.list = append(s.list, &SeenScreen{Screen: NewScreen(columns, rows, nil), id: id,
			Next: max(0, log.Size()-maxReplay)})
	}
	screen := s.list[at]
	s.list = append(slices.Delete(s.list, at, at+1), screen)
	for screen.Next < log.Size() {
		batch, end, err := log.ReadAt(ctx, screen.Next, logPiece)
		if err != nil {
			return err
		}
		if words := partials.LostWords(batch.Start - screen.Next); batch.Start > screen.Next {
			screen.Write([]byte(words), limit)
		}
		for _, chunk := range batch.Chunks() {
			screen.Write(chunk.Data, limit)
		}
		if end <= screen.Next {
			break
		}
		screen.Next = end
	}
	look(screen)
	return nil
}

// SizeOf returns the size with which the log of a terminal begins. ok: it is the log of one.
func SizeOf(ctx context.Context, log *partials.Log) (columns, rows int, ok bool) {
	const longest = 64 // bytes, at least those of Resized
	batch, _, err := log.ReadAt(ctx, 0, longest)
	if err != nil || batch.Start > 0 {
		return 0, 0, false
	}
	for _, chunk := range batch.Chunks() {
		for piece := range Pieces(chunk.Data) {
			return piece.Columns, piece.Rows, piece.Columns > 0
		}
	}
	return 0, 0, false
}
