package hosts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"runnel/internal/system"
)

// Records is the directory of the records of installed entries. Only the user can read it: a host's file may
// hold secrets.
type Records string

// record is what uninstall needs to know about an entry.
type record struct {
	Host string `json:"host"`
	Path string `json:"path"`
	Name string `json:"name"`

	Piece  string `json:"piece"`            // the text that was inserted
	Before string `json:"before,omitempty"` // what stood there, if Wrap has changed an entry that was there
	Dir    string `json:"dir,omitempty"`    // where install was run; older runnels kept none
	Entry  string `json:"entry,omitempty"`  // see Host.says; older runnels kept none
	// The piece includes the member that holds all entries: there was none before.
	WithKey bool   `json:"withKey,omitempty"`
	Created bool   `json:"created,omitempty"` // there was no file before
	Above   string `json:"above,omitempty"`   // if Created: the nearest directory that existed
}

// base returns the path of the record of an entry without its suffix.
func (d Records) base(path, name string) string {
	sum := sha256.Sum256([]byte(path + "\x00" + name))
	return filepath.Join(string(d), hex.EncodeToString(sum[:12]))
}

// load returns the record of an entry, nil if there is none, or it is unreadable.
func (d Records) load(path, name string) *record {
	r := readRecord(d.base(path, name) + ".json")
	if r == nil || r.Path != path || r.Name != name {
		return nil
	}
	return r
}

// readRecord reads a record, nil if there is none, or it is unreadable.
func readRecord(file string) *record {
	text, _, err := system.ReadRegular(file, maxFile)
	r := &record{}
	if err != nil || json.Unmarshal(text, r) != nil || r.Piece == "" {
		return nil
	}
	return r
}

// of returns the records of all entries that Install put into a file.
func (d Records) of(path string) (list []*record) {
	files, _ := filepath.Glob(filepath.Join(string(d), "*.json"))
	for _, file := range files {
		if r := readRecord(file); r != nil && r.Path == path && r.Before == "" {
			list = append(list, r)
		}
	}
	return list
}

// Backup returns the path of the backup of an entry's file.
func (d Records) Backup(path, name string) string { return d.base(path, name) + ".before" }

// intact reports whether a text still has the piece, once.
func (r *record) intact(text []byte) bool { return r != nil && bytes.Count(text, []byte(r.Piece)) == 1 }

// lock keeps other runnels from editing until unlock is called, so that none overwrites another's change.
func (d Records) lock() (unlock func(), err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	f, err := system.OpenLockable(filepath.Join(string(d), "lock"), os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := system.Lock(f); errors.Is(err, system.ErrLocked) {
		return nil, errors.Join(errors.New("another runnel is editing the files of hosts: try again"),
			f.Close())
	} // without locks in the file system, nothing is locked
	return func() { _ = f.Close() }, nil
}

// store writes a record.
func (d Records) store(r *record) error {
	text, _ := json.Marshal(r)
	return os.WriteFile(d.base(r.Path, r.Name)+".json", append(text, '\n'), 0o600)
}

// keep writes a backup.
func (d Records) keep(path, name string, before []byte) error {
	return os.WriteFile(d.Backup(path, name), before, 0o600)
}

// forget removes a record and, with backup, its backup.
func (d Records) forget(path, name string, backup bool) error {
	files := []string{d.base(path, name) + ".json"}
	if backup {
		files = append(files, d.Backup(path, name))
	}
	var errs []error
	for _, file := range files {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
