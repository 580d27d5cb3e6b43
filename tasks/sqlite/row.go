package sqlite

import (
	"database/sql"
	"time"

	"runnel/partials"
	"runnel/tasks"
)

// row is a task as it is stored.
type row struct {
	tasks.Task
	number int64
	keeper string // "" once the task has ended
	asked  bool   // a cancel was asked for; recover sets it
	end    int64  // where the log ends
	ending *partials.Ending
	damage string // what is wrong with the row; "" = nothing
}

// taskColumns are the columns that scanTask reads.
const taskColumns = "number, id, owner, tool, client, status, message, created, updated, ttl, merge, " +
	"work IS NOT NULL, keeper, expires < 0 AND keeper IS NOT NULL, coalesce(length(outcome), 0) > 0"

// scanTask reads taskColumns, and more if the query has more.
func scanTask(scan func(...any) error, more ...any) (r row, err error) {
	var created, updated int64
	var keeper sql.NullString
	var stored bool
	err = scan(append([]any{&r.number, &r.ID, &r.Owner, &r.Tool, &r.Client, &r.Status, &r.StatusMessage,
		&created, &updated, &r.TTL, &r.Merge, &r.Detached, &keeper, &r.Hidden, &stored}, more...)...)
	r.CreatedAt = time.Unix(0, created)
	r.UpdatedAt = time.Unix(0, updated)
	r.keeper = keeper.String
	if err == nil {
		r.check(stored)
	}
	return r, err
}

// A row may be damaged even if SQLite finds it sound: a bit has flipped, or somebody has edited it. So each
// row is checked here, where it is read. A damaged task has failed, and says why; damaged output counts as no
// longer kept.

// check fails the task if its row is damaged. stored: it has an outcome.
func (r *row) check(stored bool) {
	if err := r.CheckStored(r.keeper != "", stored); err != nil {
		r.fail(err)
	}
}

// fail makes the task of a damaged row a failed one.
func (r *row) fail(why error) {
	if r.damage == "" {
		r.damage = why.Error()
		r.keeper = ""
		r.ending = r.FailDamaged(why)
	}
}

// decode decodes the stored outcome and variables of a task.
func (r *row) decode(outcome, variables []byte) {
	o, ending, err := tasks.DecodeOutcome(outcome)
	switch {
	case err != nil:
		r.fail(err)
	case r.damage == "":
		r.Outcome, r.ending = o, ending
	}
	if r.Variables, err = tasks.DecodeVariables(variables); err != nil {
		r.fail(err)
	}
}
