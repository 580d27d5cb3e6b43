package files

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// File is one file that a task has made. Writer.Write makes one, and Set lists them.
type File struct {
	Name     string `json:"name"` // relative to where the tool ran, with slashes
	MIMEType string `json:"mimeType"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"` // in hexadecimal
	At       int64  `json:"at"`     // where its base64 begins in the log
}

// MaxFiles is how many files of a task are kept: each is an entry of the list, which is read as a whole.
const MaxFiles = 1000

// maxInMemory is how many bytes of files are kept of a task whose state is the memory of this process.
const maxInMemory = 16 << 20

// pieceBytes is how much of a file is in memory at a time. Its base64 makes one extent of a log.
const pieceBytes = 48 << 10

// ErrFull refuses more bytes than a Writer may write.
var ErrFull = errors.New("too large")

// Writer keeps files of a task that has not ended. Create makes one, and Close or Abort ends it.
type Writer struct {
	store tasks.Store
	task  tasks.Task // that keeps the files; its id is "" until the first write
	of    tasks.Task
	left  int64 // bytes that may still be written
	files []File
	piece []byte
	text  []byte
}

// Create returns a writer for the files of a task, which is stored, and of which this process is the keeper.
// The writer takes up to limit bytes. Nothing is stored before the first Write.
func Create(store tasks.Store, of tasks.Task, limit int64) *Writer {
	return &Writer{store: store, of: of, left: limit}
}

// start stores the task that keeps the files.
func (w *Writer) start(ctx context.Context) error {
	log := partials.NewLog(&partials.LogOptions{Retain: 2 * maxInMemory})
	t := tasks.Task{
		ID: tasks.FilesID(w.of.ID), Owner: w.of.Owner, Tool: w.of.Tool, Status: mcp.TaskWorking, Ending: true,
		CreatedAt: w.of.CreatedAt, UpdatedAt: time.Now(), TTL: w.of.TTL, Log: log,
		Segments: partials.NewSegments(log),
	}
	if w.of.Attempt > 1 { // the worker before, which died, may have left some
		if err := w.store.Delete(ctx, t.ID); err != nil {
			return err
		}
	}
	if err := w.store.Put(ctx, t); err != nil {
		return err
	}
	w.task = t
	if !log.Backed() {
		w.left = min(w.left, maxInMemory)
	}
	w.piece = make([]byte, pieceBytes)
	w.text = make([]byte, base64.StdEncoding.EncodedLen(pieceBytes))
	return nil
}

// Left returns how many bytes may still be written.
func (w *Writer) Left() int64 { return w.left }

// Write stores what content has, and returns its size, its hash and its place. It fails with ErrFull if that
// is more than Left. The file counts only once it is passed to Keep.
func (w *Writer) Write(ctx context.Context, content io.Reader) (File, error) {
	if w.task.ID == "" {
		if err := w.start(ctx); err != nil {
			return File{}, fmt.Errorf("storing the files of the task: %w", err)
		}
	}
	f := File{At: w.task.Log.Size()}
	hash := sha256.New()
	for {
		n, err := io.ReadFull(content, w.piece)
		if int64(n) > w.left {
			return f, ErrFull
		}
		if n > 0 {
			_, _ = hash.Write(w.piece[:n]) // never fails
			f.Size += int64(n)
			w.left -= int64(n)
			text := w.text[:base64.StdEncoding.EncodedLen(n)]
			base64.StdEncoding.Encode(text, w.piece[:n])
			if err := w.task.Log.Append(ctx, partials.Chunk{Data: text}); err != nil {
				return f, fmt.Errorf("storing the files of the task: %w", err)
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			f.SHA256 = hex.EncodeToString(hash.Sum(nil))
			return f, nil
		case err != nil:
			return f, err
		}
	}
}

// Keep adds a file that Write has returned, with its name and its type, to the files of the task.
func (w *Writer) Keep(f File) { w.files = append(w.files, f) }

// Close makes the files that were kept readable. If there are none, or they cannot be stored, nothing of them
// is left.
func (w *Writer) Close(ctx context.Context) error {
	if w.task.ID == "" {
		return nil
	}
	if len(w.files) == 0 {
		w.Abort()
		return nil
	}
	w.task.Log.Close()
	w.task.Segments.Finish(partials.Ending{})
	w.task.Status, w.task.UpdatedAt = mcp.TaskCompleted, time.Now()
	w.task.Outcome = &tasks.Outcome{Result: &mcp.CallToolResult{
		Content: []mcp.ContentBlock{}, StructuredContent: rawjson.Encode(list{w.files}),
	}}
	if err := w.store.Put(ctx, w.task); err != nil {
		w.Abort()
		return fmt.Errorf("storing the files of the task: %w", err)
	}
	return nil
}

// Abort deletes what was stored, unless another process may run the task by now: then there are only the
// files of its attempt. A state refuses an end by a process that was replaced, but no Delete. What is left of
// servers that do not answer expires with the task.
func (w *Writer) Abort() {
	if w.task.ID == "" {
		return
	}
	w.task.Segments.Finish(partials.Ending{})
	w.task.Log.Close()
	w.task.Status, w.task.UpdatedAt = mcp.TaskFailed, time.Now()
	w.task.Outcome = &tasks.Outcome{Result: &mcp.CallToolResult{Content: []mcp.ContentBlock{}, IsError: true}}
	if w.store.Put(context.Background(), w.task) != nil {
		return
	}
	_ = w.store.Delete(context.Background(), w.task.ID) // otherwise it expires with the task
}

// list is how the files are stored, as the outcome of the task that keeps them.
type list struct {
	Files []File `json:"files"`
}
