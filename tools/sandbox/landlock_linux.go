//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"runnel/tools/sandbox/shim"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// leastLandlock is the version of Landlock (Linux 6.12) that can refuse signals to processes outside.
const leastLandlock = 6

const (
	readFile  = landlock.AccessFSSet(ll.AccessFSExecute | ll.AccessFSReadFile)
	list      = landlock.AccessFSSet(ll.AccessFSReadDir)
	writeFile = readFile | landlock.AccessFSSet(ll.AccessFSWriteFile|ll.AccessFSTruncate|ll.AccessFSIoctlDev)
	writeDir  = writeFile | list | landlock.AccessFSSet(ll.AccessFSRemoveDir|ll.AccessFSRemoveFile|ll.AccessFSMakeDir|
		ll.AccessFSMakeReg|ll.AccessFSMakeSock|ll.AccessFSMakeFifo|ll.AccessFSMakeSym|ll.AccessFSRefer)
)

// devices may be read and written by every command. A terminal is its own, or none.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// ruleset returns the Landlock rules of the files of the policy. A shim in namespaces adds those for what it
// mounts.
func (p *Policy) ruleset() (*os.File, error) {
	// All directories may be listed: a rule counts for all that is below, and the way to a hidden file must
	// stay open.
	rules := []landlock.Rule{landlock.PathAccess(list, "/")}
	add := func(path string, dir, file landlock.AccessFSSet) {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			rules = append(rules, landlock.PathAccess(dir, path).IgnoreIfMissing())
		} else if err == nil {
			rules = append(rules, landlock.PathAccess(file, path).IgnoreIfMissing())
		}
	}
	hidden, err := realPaths(p.Hide)
	if err != nil {
		return nil, err
	}
	roots := []string{"/"}
	if p.Read != nil {
		roots = slices.Concat(systemFiles, p.Read, p.Write)
	}
	readable, err := realPaths(roots)
	if err != nil {
		return nil, err
	}
	for _, root := range readable {
		paths, err := around(root, hidden)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			add(path, readFile, readFile)
		}
	}
	for _, path := range devices {
		add(path, writeFile, writeFile)
	}
	for _, path := range p.Write {
		add(path, writeDir, writeFile)
	}
	only := landlock.Config{HandledAccessFS: landlock.V6.HandledAccessFS, Scoped: landlock.V6.Scoped}
	fd, _, err := only.NewRulesetFD(rules...)
	if err != nil {
		return nil, fmt.Errorf("landlock: %w", err)
	}
	return os.NewFile(uintptr(fd), "ruleset"), nil
}

// restrictFiles restricts the shim to the ruleset, which also keeps it from sending signals to processes
// outside and from looking into them.
func (p *Policy) restrictFiles(to *program, namespaces bool) {
	allow := func(path string, rights landlock.AccessFSSet) {
		name := "landlock: " + path
		dir := to.numbers(uint64(rights), 0) + 8 // struct landlock_path_beneath_attr
		to.do(name, unix.SYS_OPENAT, currentDir, to.text(path), unix.O_PATH|unix.O_CLOEXEC).Result = dir
		to.do(name, unix.SYS_LANDLOCK_ADD_RULE, shim.RulesetFile, unix.LANDLOCK_RULE_PATH_BENEATH, dir-8, 0)
		to.do(name, unix.SYS_CLOSE, dir).Indirect = 1
	}
	if namespaces {
		allow(sharedMemory, writeDir)
		allow(ownProcesses, readFile)
	}
	to.do("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	to.do("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, shim.RulesetFile, 0)
}

// around returns what is below a directory but for what is hidden: the directory itself if nothing in it is
// hidden.
func around(dir string, hidden []string) (paths []string, err error) {
	if slices.ContainsFunc(hidden, func(h string) bool { return within(dir, h) }) {
		return nil, nil
	}
	if !slices.ContainsFunc(hidden, func(h string) bool { return within(h, dir) }) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the command cannot read it either
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 {
			continue // it counts where it leads
		}
		more, err := around(filepath.Join(dir, entry.Name()), hidden)
		if err != nil {
			return nil, err
		}
		paths = append(paths, more...)
	}
	return paths, nil
}

// within reports whether a path is a directory or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// realPaths returns the paths that exist, without symbolic links.
func realPaths(paths []string) (existing []string, err error) {
	for _, path := range paths {
		path, err := filepath.EvalSymlinks(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		case err != nil:
			return nil, err
		default:
			existing = append(existing, path)
		}
	}
	return existing, nil
}
