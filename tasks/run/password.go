package run

import "runnel/tasks"

// AsksPassword reports what the program of the task asks a password with, and nil when it no longer does.
// Those who follow the task see it, in other processes too.
func (r *Run) AsksPassword(prompt *tasks.PasswordPrompt) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	if r.phase.now >= ending || tasks.SamePrompt(prompt, r.task.Password) {
		r.mu.Unlock()
		return
	}
	r.task.Password = prompt
	stored := r.kept == handle
	r.mu.Unlock()
	if stored {
		r.notePassword()
	}
	r.changes.Send()
}

// notePassword shows other processes what the program asks a password with. Without that, they only do not
// know why it waits. changing is held.
func (r *Run) notePassword() {
	t := r.Task()
	if _, err := r.setNotes(r.ctx, map[string]any{passwordNote(t.Attempt): t.Password}); err != nil {
		r.runner.o.Log.Debug().Err(err).Str("taskId", r.id).Msg("storing that a task asks for a password")
	}
}
