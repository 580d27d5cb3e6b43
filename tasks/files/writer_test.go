package files

import (
	"context"
	"strings"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// away is a state whose servers answer no end of a task.
type away struct {
	tasks.Store
	deleted []string
}

func (s *away) Put(ctx context.Context, t tasks.Task) error {
	if t.Status.Terminal() {
		return tasks.ErrBusy
	}
	return s.Store.Put(ctx, t)
}

func (s *away) Delete(ctx context.Context, id string) error {
	s.deleted = append(s.deleted, id)
	return s.Store.Delete(ctx, id)
}

// A process whose servers do not answer may have been replaced: it deletes no files, which may be those of
// the next attempt.
func TestEndsThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *Writer){
		"aborted": func(w *Writer) { w.Abort() },
		"closed": func(w *Writer) {
			w.Keep(File{Name: "a"})
			if err := w.Close(t.Context()); err == nil {
				t.Error("files are kept by servers that do not answer")
			}
		},
	} {
		state := &away{Store: tasks.NewMemory().Open("local")}
		for _, id := range []string{"a", "b"} {
			log := partials.NewLog(&partials.LogOptions{})
			of := tasks.Task{ID: id, Owner: "local", Status: mcp.TaskWorking, Log: log,
				Segments: partials.NewSegments(log)}
			w := Create(state, of, 1<<10)
			if _, err := w.Write(t.Context(), strings.NewReader("content")); err != nil {
				t.Fatal(err)
			}
			end(w)
		}
		if len(state.deleted) > 0 {
			t.Errorf("%s: %v are deleted", name, state.deleted)
		}
	}
}
