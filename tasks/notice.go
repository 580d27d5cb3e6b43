package tasks

// Each end of a task is reported to Options.Ended of exactly one process, however many share the state:
//
//   - the one that has stored the end: the process that ran the task, or its supervisor (finish, retryEnd);
//   - the one that found the keeper gone, and so has ended the task: a state has an option of its own for that;
//   - the one that has offered the task to workers, as long as it follows the task (Run.follow). A worker reports nothing: the person who waits
//     is elsewhere.
//
// A call without a handle is reported where it runs, unless it is of a kind that always ends soon.

// reportEnd reports the end of a task that this process has ended.
func (r *Run) reportEnd(t *Task) {
	if (r.spec.Handle || r.spec.Late) && t.Attempt == 0 {
		r.runner.o.Ended(t)
	}
}
