package sqlite

import "runnel/tasks"

// A hidden task is a row of a run that has no handle (Run.spill): it stands in the state, with its output, before any client knows its
// id. It gets a handle (reveal) or is deleted when the run ends; of a process that died, recover leaves it to the sweeper.

// hiddenExpires is when a hidden row expires: no reader asks for what has, and the sweeper lets it be while it has a keeper.
const hiddenExpires = -1

// Hide implements tasks.State.
func (s *State) Hide(t tasks.Task) error {
	d, err := s.open()
	if err == nil {
		_, err = d.insert(t, true)
	}
	return err
}

// reveal makes a hidden task one like any other.
func (d *database) reveal(k *keeping, t tasks.Task) error {
	var refused error
	err := d.w.do(job{durable: true, do: func(tx *transaction) (err error) {
		if refused, err = d.admit(tx, &t); err != nil || refused != nil {
			return err
		}
		own, err := tx.change("UPDATE task SET status = ?, message = ?, updated = ?, expires = ?, merge = ?, variables = ? WHERE number = ? AND keeper = ?",
			t.Status, t.StatusMessage, t.UpdatedAt.UnixNano(), expires(&t), t.Merge, []byte(t.Variables), k.task, d.lease.name)
		if err == nil && own == 0 {
			err = tasks.ErrFenced
		}
		if err == nil {
			tx.live[t.Owner]++
		}
		return err
	}, committed: func() {
		if refused == nil {
			k.hidden.Store(false) // here, where it is known what a write that fails means
		}
	}})
	if err == nil {
		err = refused
	}
	if err != nil {
		return err
	}
	if !k.log.Backed() { // it could not be written once
		k.log.Back(k)
	}
	return nil
}
