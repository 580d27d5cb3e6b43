package run

import (
	"context"

	"runnel/tasks/files"
)

// KeepFiles returns a writer for up to limit bytes of files that the run has made, and gives it a handle, as
// Keep does: its client reads the files by the task's id. Call it once.
func (r *Run) KeepFiles(ctx context.Context, limit int64) (*files.Writer, error) {
	if err := r.Keep(ctx); err != nil {
		return nil, err
	}
	return files.Create(r.runner.store, r.Task(), limit), nil
}

// Files returns the files that a task of the owner has made, or ErrNotFound.
func (r *Runner) Files(ctx context.Context, id string) (*files.Set, error) {
	return files.Open(ctx, r.store, id)
}
