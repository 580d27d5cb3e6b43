// Package trust knows which config files their user trusts. A config file says which programs run. A file
// that was only found in the current directory may be anybody's: it may have come with a repository, or with
// a download. It counts once its user has run "runnel trust", as long as neither its place nor its content
// changes. The programs that it starts (such as a script beside it) may change.
//
// For each trusted file there is a record in the user's default state: its path and a hash of its content.
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"runnel/internal/system"
	"runnel/internal/term"
	"runnel/tools/config"
)

// Files are the config files that a user trusts.
type Files struct {
	Getenv func(name string) string
}

// Refusal is the reason why a project's config file is not used.
type Refusal struct {
	Path string // absolute; relative if the current directory has no path
	why  string
	Text []byte // nil if it cannot be read
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s is not used: %s. Read it, then run: runnel trust %s", term.Quote(r.Path), r.why,
		term.Quote(r.Path))
}

// Instructions tell a model why tools are missing. The model may have a shell, but only a person may judge
// the file. They name neither the directory nor an error with its path: whoever made the directory chose
// those words.
func (r *Refusal) Instructions() string {
	why := r.why
	if why != notTrusted && why != trustedBefore {
		why = "it cannot be read, or checked"
	}
	return fmt.Sprintf("The tools of this project's %s are missing: %s. The file lies in the directory "+
		"where this server was started or, in a Git "+
		"repository, in the nearest one above. Only the user can decide that. If the user asks for them: "+
		"read the file, then run runnel trust in its "+
		"directory. The tools appear then, at the latest when this server is restarted.", config.FileName, why)
}

// Why a file that was found counts for nothing.
const (
	notTrusted    = "it is not trusted yet"
	trustedBefore = "it has changed since it was trusted"
)

// Read reads a config file that was only found, if its user trusts it. info is nil if there is none, or if it
// is not used. The returned text is the one that was checked: the file may have changed since.
func (f Files) Read(file string) (text []byte, info os.FileInfo, left *Refusal) {
	text, info, err := ReadRegular(file)
	if errors.Is(err, fs.ErrNotExist) || info != nil && info.IsDir() {
		return nil, nil, nil
	}
	path, placeErr := placeOf(file)
	if placeErr != nil {
		return nil, nil, &Refusal{Path: file, why: placeErr.Error()}
	}
	if f.isOwn(path) {
		return nil, nil, nil // it is read next, as the user's own
	}
	if err != nil {
		return nil, nil, &Refusal{Path: path, why: err.Error()}
	}
	if why := f.distrust(path, text); why != "" {
		return nil, nil, &Refusal{path, why, text}
	}
	return text, info, nil
}

// ReadRegular reads a config file that nobody has named, if it is a regular file: reading a pipe might never
// end, and opening one may have effects.
func ReadRegular(file string) (text []byte, info os.FileInfo, err error) {
	return system.ReadRegular(file, config.MaxFile)
}

// placeOf returns the absolute path of a file, with the links in its folder resolved, since the commands of a
// config run in that folder. The file itself may be a link: its content counts.
func placeOf(file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// isOwn reports whether a path is that of the config file in the user's own config directory.
func (f Files) isOwn(path string) bool {
	return slices.ContainsFunc(config.Places(f.Getenv)[1:], func(own string) bool {
		place, err := placeOf(own)
		return err == nil && place == path
	})
}

// record is the record of a file that the user trusts.
type record struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // the content's
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Dir is the directory with a record of each trusted file. It is always in the user's default state, and
// nobody else may write it: they would decide what is trusted.
func (f Files) Dir() (string, error) {
	state, err := config.Default().StateDir(f.Getenv)
	if err != nil {
		return "", err
	}
	trusted := filepath.Join(state, "trusted")
	for _, dir := range []string{state, trusted} {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", err
		}
		if _, foreign := system.IsForeign(dir, info); foreign {
			return "", fmt.Errorf("%s, which says what is trusted, belongs to another user: set %s to a "+
				"directory of your own", dir, config.StateVariable)
		}
		if _, writable := system.WritableByOthers(dir, info); writable {
			return "", fmt.Errorf("others may write %s, which says what is trusted: take their rights with %s", dir, system.TakeRights(dir))
		}
	}
	return trusted, nil
}

// WatchableDir is Dir, and makes the directory if there is none, so that it can be watched.
func (f Files) WatchableDir() (string, error) {
	dir, err := f.Dir()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	return dir, err
}

// Refuses says why runnel would leave a file out if it only found it in the current directory, "" if it would
// not. It is for a command that reads the file anyway.
func (f Files) Refuses(file string) string {
	_, _, left := f.Read(file)
	if left == nil || filepath.Base(file) != config.FileName {
		return ""
	}
	return fmt.Sprintf("Unless you name it with --config, runnel leaves it out (%s) until you run: runnel "+
		"trust %s", left.why, term.Quote(left.Path))
}

// distrust says why a file with this content is not trusted, "" if it is trusted.
func (f Files) distrust(path string, text []byte) string {
	dir, err := f.Dir()
	if err != nil {
		return err.Error()
	}
	k, err := readRecord(filepath.Join(dir, hash([]byte(path))))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notTrusted
	case errors.As(err, new(*fs.PathError)):
		return err.Error()
	case err != nil || k.Path != path || k.SHA256 != hash(text):
		return trustedBefore
	}
	return ""
}

// maxRecord limits a record, in bytes: a path and a hash.
const maxRecord = 64 << 10

func readRecord(file string) (k record, err error) {
	line, _, err := system.ReadRegular(file, maxRecord)
	if err == nil {
		err = json.Unmarshal(line, &k)
	}
	return k, err
}

// Add remembers that the user trusts a file with this content.
func (f Files) Add(file string, text []byte) (path string, err error) {
	if path, err = placeOf(file); err != nil {
		return "", err
	}
	if _, err := f.Dir(); err != nil {
		return "", fmt.Errorf("%w: a named file (--config) needs no trust", err)
	}
	dir, err := f.WatchableDir()
	if err != nil {
		return "", err
	}
	line, _ := json.Marshal(record{path, hash(text)})
	return path, replace(filepath.Join(dir, hash([]byte(path))), append(line, '\n'))
}

// replace writes a record whole: a runnel that starts at that moment reads the one before or this one.
func replace(file string, text []byte) error {
	part, err := os.CreateTemp(filepath.Dir(filepath.Dir(file)), ".trusted-*") // mode 0600; List does not see it
	if err != nil {
		return err
	}
	_, err = part.Write(text)
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		_ = os.Remove(part.Name())
	}
	return err
}

// List returns the trusted files, one per line, with a remark if a file has changed since.
func (f Files) List() (lines string, err error) {
	dir, err := f.Dir()
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		k, err := readRecord(file)
		if err != nil {
			return lines, fmt.Errorf("%s: %w", file, err)
		}
		lines += term.Quote(k.Path)
		if text, _, err := ReadRegular(k.Path); err != nil || hash(text) != k.SHA256 {
			lines += "  (changed or gone since)"
		}
		lines += "\n"
	}
	return lines, err
}

// Remove undoes Add.
func (f Files) Remove(file string) error {
	path, err := placeOf(file)
	if err != nil {
		return err
	}
	dir, err := f.Dir()
	if err != nil {
		return err
	}
	if err = os.Remove(filepath.Join(dir, hash([]byte(path)))); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not trusted", term.Quote(path))
	}
	return err
}

// Project says what the current directory's config file gives a host that is opened here.
func (f Files) Project() string {
	text, _, err := ReadRegular(config.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return "this one has none: runnel init proposes it"
	}
	conf, err := config.Parse(config.FileName, text)
	if err != nil {
		return "in this one it has a mistake: runnel config check shows it"
	}
	said := "this one: " + term.Count(len(conf.Tools), "tool")
	if f.Refuses(config.FileName) != "" {
		return said + ", not trusted yet: read the file, then run runnel trust"
	}
	return said + ", trusted"
}
