package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/term"
	"runnel/tools"
)

// A config file says which programs run. One that was only found in the current directory may be anybody's: it came with a
// repository, or lay in a folder for downloads. It counts once its user has said "runnel trust", as long as neither its
// place nor its content changes. What it starts (a script beside it) may change.

// untrusted is why the config file in the current directory is left out.
type untrusted struct {
	path string // absolute; relative where the current directory has none
	why  string
}

func (u *untrusted) Error() string {
	return fmt.Sprintf("%s is left out: %s. Read it, then run: runnel trust %s", shown(u.path), u.why, shown(u.path))
}

// instructions tell a model why tools are missing. It may have a shell: the file is for a person to judge.
func (u *untrusted) instructions() string {
	return fmt.Sprintf("The tools of %s are not here: %s. Only the user can decide that. If the user asks for them: read the file, run runnel trust %s in a terminal, then restart this server.",
		shown(u.path), u.why, shown(u.path))
}

// shown is a path as a shell and a model can take it, whatever a stranger has named the folder.
func shown(path string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,"
	if strings.Trim(path, plain) == "" {
		return path
	}
	return strconv.Quote(path)
}

// readHere reads the config file in the current directory if its user trusts it; info is nil if there is none, or if it is left out.
// The text that is checked is the one that is returned: the file may be another one by now.
func (i *invocation) readHere() (text []byte, info os.FileInfo, left *untrusted) {
	file := tools.ConfigFile
	text, info, err := readRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	path, placeErr := placeOf(file)
	if placeErr != nil {
		return nil, nil, &untrusted{file, placeErr.Error()}
	}
	if i.isOwn(path) {
		return nil, nil, nil // it is looked at next
	}
	if err != nil {
		return nil, nil, &untrusted{path, err.Error()}
	}
	if why := i.distrust(path, text); why != "" {
		return nil, nil, &untrusted{path, why}
	}
	return text, info, nil
}

// readRegular reads a config file that is a regular file: a pipe might never end, and opening it might do something.
func readRegular(file string) (text []byte, info os.FileInfo, err error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		text, err = tools.ReadConfig(f)
	}
	return text, info, err
}

// placeOf is the absolute path of a file, without links in its folder: the commands of a config run there. The file itself may be
// a link, of which the content counts.
func placeOf(file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// isOwn reports whether a place is the one in the user's config directory.
func (i *invocation) isOwn(path string) bool {
	for _, own := range tools.ConfigPlaces(i.getenv)[1:] {
		if place, err := placeOf(own); err == nil && place == path {
			return true
		}
	}
	return false
}

// trust is what is kept of a file that a user trusts.
type trust struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // of the content
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// trustDir is where the files that the user trusts are kept in mind, one file each. It is the user's own, whatever a config says; where
// others may write, they would decide what is trusted.
func (i *invocation) trustDir() (string, error) {
	state, err := tools.DefaultConfig().StateDir(i.getenv)
	if err != nil {
		return "", err
	}
	trusted := filepath.Join(state, "trusted")
	for _, dir := range []string{state, trusted} {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		case !isOwn(info):
			return "", fmt.Errorf("%s, which says what is trusted, belongs to another user: set XDG_STATE_HOME to a directory of your own", dir)
		case info.Mode().Perm()&0o022 != 0:
			return "", fmt.Errorf("others may write %s, which says what is trusted: take their rights with chmod go-w %q", dir, dir)
		}
	}
	return trusted, nil
}

// distrust says why a file with this content is not trusted, "" if it is.
func (i *invocation) distrust(path string, text []byte) string {
	dir, err := i.trustDir()
	if err != nil {
		return err.Error()
	}
	kept, err := os.ReadFile(filepath.Join(dir, hash([]byte(path))))
	var t trust
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "nobody has trusted it yet"
	case err != nil:
		return err.Error()
	case json.Unmarshal(kept, &t) != nil || t.Path != path || t.SHA256 != hash(text):
		return "it has changed since it was trusted"
	}
	return ""
}

// trust keeps in mind that the user trusts a file with this content.
func (i *invocation) trust(path string, text []byte) error {
	dir, err := i.trustDir()
	if err != nil {
		return fmt.Errorf("%w: a named file (--config) needs no trust", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-") // which nobody else may read
	if err != nil {
		return err
	}
	line, _ := json.Marshal(trust{path, hash(text)})
	_, err = f.Write(append(line, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, hash([]byte(path))))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// listTrust prints what is trusted.
func (i *invocation) listTrust() error {
	dir, err := i.trustDir()
	if err != nil {
		return err
	}
	kept, err := filepath.Glob(filepath.Join(dir, "*")) // not what begins with a dot: it is being written
	for _, file := range kept {
		var t trust
		line, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(line, &t)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		note := ""
		if text, _, err := readRegular(t.Path); err != nil || hash(text) != t.SHA256 {
			note = "  (changed or gone since)"
		}
		if _, err := fmt.Fprintln(i.stdout, shown(t.Path)+note); err != nil {
			return err
		}
	}
	return err
}

// endTrust forgets that the user trusts a file.
func (i *invocation) endTrust(file string) error {
	path, err := placeOf(file)
	if err != nil {
		return err
	}
	dir, err := i.trustDir()
	if err != nil {
		return err
	}
	if err = os.Remove(filepath.Join(dir, hash([]byte(path)))); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not trusted", shown(path))
	}
	return err
}

// trustCommand is "runnel trust".
func (i *invocation) trustCommand() *cobra.Command {
	var list, remove bool
	cmd := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Let the runnel.yaml of this directory run its commands",
		Long: `A runnel.yaml in the current directory starts programs, and it may have come with somebody else's files. So runnel leaves it out until
you trust it. Read it first: this command shows it whole. It counts until the file changes; then runnel asks for trust again.

A file that you name (--config, $RUNNEL_CONFIG) and the one in your own config directory need no trust.`,
		Example: `  runnel trust

  # of another directory
  runnel trust ~/src/app/runnel.yaml

  # which files are trusted? take that back
  runnel trust --list
  runnel trust --remove ~/src/app/runnel.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			return noArguments(cmd, args[min(len(args), 1):])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := i.readEnvironment(cmd); err != nil {
				return err
			}
			if list {
				return i.listTrust()
			}
			file := tools.ConfigFile
			if len(args) > 0 {
				file = args[0]
			}
			if remove {
				return i.endTrust(file)
			}
			if filepath.Base(file) != tools.ConfigFile {
				return &usageError{fmt.Errorf("%s needs no trust: only a file named %s is ever found without being named", shown(file), tools.ConfigFile), hint(cmd)}
			}
			text, _, err := readRegular(file)
			if errors.Is(err, fs.ErrNotExist) {
				return &usageError{fmt.Errorf("there is no %s", shown(file)), hint(cmd)}
			} else if err != nil {
				return fmt.Errorf("%s: %w", shown(file), err)
			}
			path, err := placeOf(file)
			if err != nil {
				return err
			}
			config, err := tools.ParseConfig(file, text)
			if err == nil {
				err = i.checkWhole(config)
			}
			if err != nil {
				return &usageError{err, "it is not trusted: mend it first"}
			}
			if err := i.trust(path, text); err != nil {
				return fmt.Errorf("keeping the trust in mind: %w", err)
			}
			// All of it: a summary would leave out what may matter, such as a variable that changes what a program does.
			if _, err := io.WriteString(i.stdout, strings.TrimSuffix(term.PrintableLines(string(text)), "\n")+"\n"); err != nil {
				return err
			}
			i.say(zerolog.InfoLevel, "trusted until it changes: "+shown(path))
			return nil
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "show the files that are trusted")
	cmd.Flags().BoolVar(&remove, "remove", false, "trust the file no more")
	return cmd
}

// isOwn reports whether a file belongs to the user of this process.
func isOwn(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
