package hosts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"runnel/internal/system"
)

// Change is a planned edit of a host's file.
type Change struct {
	Path   string // the file's, with links resolved
	Backup string // where Apply keeps a backup of the file; "" = it keeps none
	Dir    string // the directory that Apply records as that of an installed entry

	Unwraps bool // an Uninstall of what Wrap has changed: the entry stays

	name    string
	file    *file
	after   []byte
	removes bool   // the file is removed: it never held anything but the entry
	above   string // with removes: empty directories below this one are removed, too
	mode    fs.FileMode
	record  *record   // the entry's new record; nil when the entry is removed
	earlier *record   // the record of an earlier Install whose entry is there
	was     Server    // that entry
	anew    []*record // new records of other entries, which stay
	records Records
	plan    func() (*Change, error) // plans the change again; nil, nil: there is nothing to change
}

func unreadable(f *file, err error) error {
	return fmt.Errorf("%s: %w; nothing was changed: fix the file first", f.path, err)
}

// Install plans to put an entry into a file: a new one, or one that replaces an entry of an earlier Install.
// mode is for a new file.
func (h *Host) Install(path, name string, s Server, records Records, mode fs.FileMode) (*Change, error) {
	f, err := read(path)
	if err != nil {
		return nil, err
	}
	wrong := func(err error) error { return fmt.Errorf("%s: %w", f.path, err) }
	old := records.load(f.path, name)
	there, err := h.entries(f.text)
	if err != nil {
		return nil, unreadable(f, err)
	}
	entry, taken := there[name]
	is, _ := readServer(entry)
	c := &Change{Path: f.path, name: name, file: f, mode: mode, records: records}
	c.plan = func() (*Change, error) { return h.Install(path, name, s, records, mode) }
	base := f.text
	switch {
	case taken && same(is, s):
		c.after = f.text
		return c, nil
	case taken && old == nil:
		return nil, wrong(fmt.Errorf("it has a server %q that runnel install did not write: give yours "+
			"another name with --name, or remove that one with runnel uninstall %s --name %s", name, h.ID, name))
	case taken && old.Before != "":
		return nil, wrong(fmt.Errorf("its server %q is one that runnel wraps: give yours another name "+
			"with --name, or first: runnel uninstall %s --name %s", name, h.ID, name))
	case taken:
		if base, err = h.without(f.text, name, old); err != nil {
			return nil, wrong(err)
		}
	default:
		old = nil // somebody else has removed the entry: the file is theirs now
	}
	values, err := h.format.decode(base)
	if err != nil {
		return nil, wrong(err)
	}
	_, hasKey := values[h.key]
	r := &record{Host: h.ID, Path: f.path, Name: name, WithKey: !hasKey, Created: f.text == nil}
	if r.Created {
		r.Above = system.NearestDir(filepath.Dir(f.path))
	}
	if old != nil {
		r.WithKey = r.WithKey || old.WithKey
		r.Created = old.Created
		r.Above = old.Above
	}
	if c.after, r.Piece, err = h.with(base, name, s); err != nil {
		return nil, wrong(err)
	}
	c.record, c.earlier = r, old
	if old != nil {
		c.was = is
	}
	r.Entry = h.says(c.after, name)
	if f.text != nil && !h.isOurs(f.text, old) {
		c.Backup = records.Backup(f.path, name)
	}
	return c, nil
}

// same reports whether two entries are equal. A host may leave out empty members.
func same(a, b Server) bool {
	return a.Command == b.Command && len(a.Args) == len(b.Args) &&
		(len(a.Args) == 0 || reflect.DeepEqual(a.Args, b.Args)) &&
		len(a.Env) == len(b.Env) && (len(a.Env) == 0 || reflect.DeepEqual(a.Env, b.Env)) && a.Off == b.Off
}

// Uninstall plans to remove an entry from a file; nil if the file has none of that name. It refuses one that
// Install has not written and that does not start runnel.
func (h *Host) Uninstall(path, name string, records Records) (*Change, error) {
	f, err := read(path)
	if err != nil {
		return nil, err
	}
	old := records.load(f.path, name)
	there, err := h.entries(f.text)
	if err != nil {
		return nil, unreadable(f, err)
	}
	entry, taken := there[name]
	if !taken {
		return nil, nil
	}
	program, _ := os.Executable()
	if s, _ := readServer(entry); old == nil && !s.Runnel(program) {
		return nil, fmt.Errorf("%s: the server %s was not installed by runnel, and does not start it: it "+
			"stays; remove it in the file yourself", f.path, name)
	}
	c := &Change{Path: f.path, name: name, file: f, records: records, earlier: old}
	c.plan = func() (*Change, error) { return h.Uninstall(path, name, records) }
	if old != nil && old.Before != "" {
		return h.unwrap(c, old)
	}
	if old != nil && old.Created && string(f.text) == old.Piece {
		c.removes, c.above = true, old.Above
		return c, nil
	}
	others, err := h.others(f, name, records)
	if err != nil {
		return nil, err
	}
	if c.after = h.withoutPiece(f.text, name, old); c.after == nil && old != nil && len(others) > 0 {
		after, anew, err := h.withoutAmong(f.text, old, others)
		if err == nil && anew != nil && h.check(f.text, after, name, nil) == nil {
			c.after, c.anew = after, anew
			return c, nil
		}
	}
	if c.after == nil {
		if c.after, err = h.without(f.text, name, old); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		if !h.isOurs(f.text, old) {
			c.Backup = records.Backup(f.path, name)
		}
	}
	if old != nil && len(others) > 0 { // what the first entry created is removed with the last one
		heir := others[0]
		heir.WithKey = heir.WithKey || old.WithKey
		heir.Created, heir.Above = heir.Created || old.Created, cmp.Or(heir.Above, old.Above)
		c.anew = []*record{heir}
	}
	return c, nil
}

// Nothing reports whether the file needs no edit.
func (c *Change) Nothing() bool { return !c.removes && bytes.Equal(c.file.text, c.after) }

// Removes reports whether the file itself is removed, because it never held anything but the entry.
func (c *Change) Removes() bool { return c.removes }

// Replaces returns the entry of an earlier Install that the change replaces, and the directory where that was
// run; "" if there is none, or it is not known.
func (c *Change) Replaces() (was Server, dir string) {
	if c.earlier == nil {
		return Server{}, ""
	}
	return c.was, c.earlier.Dir
}

// Diff shows what Apply would change.
func (c *Change) Diff() string { return diff(c.Path, c.file.text, c.after) }

// applyTries is how often Apply plans the change of a file that its host keeps writing.
const applyTries = 5

// Apply makes the edit. It first stores what is needed to undo it. Only one runnel edits at a time. If
// another program writes the file in between, the change is planned again.
func (c *Change) Apply() error {
	for try := 1; ; try++ {
		err := c.apply()
		if try == applyTries || !errors.Is(err, errChanged) {
			return err
		}
		again, err := c.plan()
		if err != nil || again == nil {
			return err
		}
		again.Dir = c.Dir
		*c = *again
	}
}

func (c *Change) apply() error {
	if c.Nothing() {
		return nil
	}
	unlock, err := c.records.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.file.unchanged(); err != nil {
		return err
	}
	if c.Backup != "" {
		err = c.records.keep(c.Path, c.name, c.file.text)
	}
	if err == nil && c.record != nil {
		c.record.Dir = c.Dir
		err = c.records.store(c.record)
	}
	if err != nil {
		return fmt.Errorf("keeping a backup: %w", err)
	}
	if c.removes {
		err = c.file.remove(c.above)
	} else {
		err = c.file.replace(c.after, c.mode)
	}
	switch {
	case err == nil && c.record == nil:
		for _, r := range c.anew {
			err = errors.Join(err, c.records.store(r))
		}
		return errors.Join(err, c.records.forget(c.Path, c.name, c.Backup == ""))
	case err != nil && c.record != nil && c.earlier != nil: // the earlier entry is still there
		return errors.Join(err, c.records.store(c.earlier))
	case err != nil && c.record != nil:
		return errors.Join(err, c.records.forget(c.Path, c.name, true))
	}
	return err
}
