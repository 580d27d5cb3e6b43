package tasks

import "time"

// Prunable is a task, as Prune needs it.
type Prunable struct {
	Task
	Above   string // the id of the one whose work has begun it, "" if there is none
	Fetched bool   // a client has got its result
}

// Prune returns the tasks that "runnel tasks prune" deletes: those that had ended at a time. It keeps those
// that a task which goes on has begun and, unless forced, those whose result has not been fetched; kept is
// the number of these. No client fetches what steps have begun: that counts as fetched if the result of the
// steps was, or if they were deleted. all are the tasks of an owner, oldest first.
func Prune(all []Prunable, ended time.Time, force bool) (gone []Task, kept int) {
	known := make(map[string]*Prunable, len(all))
	for i := range all {
		t := &all[i]
		known[t.ID] = t
		above := known[t.Above] // it is older
		if t.Above != "" && (above == nil || above.Fetched) {
			t.Fetched = true
		}
		switch {
		case !t.Status.Terminal() || t.UpdatedAt.After(ended) || IsFiles(t.ID):
		case above != nil && !above.Status.Terminal():
		case !t.Fetched && !force:
			kept++
		default:
			gone = append(gone, t.Task)
		}
	}
	return gone, kept
}
