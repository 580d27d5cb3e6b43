package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// place is the place of a user's file: below the directory that a variable names, if it holds an absolute
// path, else below dir.
type place struct {
	variable, dir string // ~ = the home directory
	file          string // with slashes
}

// home returns the user's home directory, "" if it is unknown.
func (s System) home() string {
	if s.OS == "windows" {
		return s.Getenv("USERPROFILE")
	}
	return s.Getenv("HOME")
}

func (s System) isAbs(path string) bool {
	if s.OS == "windows" {
		return len(path) > 2 && path[1] == ':' && strings.ContainsAny(path[2:3], `\/`) ||
			strings.HasPrefix(path, `\\`)
	}
	return strings.HasPrefix(path, "/")
}

func (s System) join(parts ...string) string {
	path := strings.Join(parts, "/")
	if s.OS == "windows" {
		return strings.ReplaceAll(path, "/", `\`)
	}
	return path
}

// UserFile returns the path of the user's file.
func (h *Host) UserFile(s System) (string, error) {
	p, ok := h.user[s.OS]
	if !ok {
		p = h.user[""]
	}
	if h.ID == "goose" && s.isAbs(s.Getenv("GOOSE_PATH_ROOT")) {
		return s.join(s.Getenv("GOOSE_PATH_ROOT"), "config", "config.yaml"), nil
	}
	if p.variable != "" && s.isAbs(s.Getenv(p.variable)) {
		return s.join(s.Getenv(p.variable), p.file), nil
	}
	home := s.home()
	if !s.isAbs(home) {
		return "", errors.New("the home directory is unknown: set HOME")
	}
	return s.join(strings.Replace(p.dir, "~", home, 1), p.file), nil
}

// File returns the path of the user's file or, if project names a directory, of the project's file.
func (h *Host) File(s System, project string) (string, error) {
	switch {
	case project == "":
		return h.UserFile(s)
	case h.Project == "":
		return "", fmt.Errorf("%s has no file for one project: leave --scope out", h.Title)
	}
	return filepath.Join(project, filepath.FromSlash(h.Project)), nil
}

// Files returns the user's file and that of the project, which is the current directory.
func (h *Host) Files(s System) (files []string, project string) {
	project, err := os.Getwd()
	if err != nil {
		project = "" // then only the user's file counts
	}
	user, err := h.UserFile(s)
	if err != nil {
		return nil, project
	}
	files = []string{user}
	if project != "" && h.Project != "" {
		if file, err := h.File(s, project); err == nil && file != user {
			files = append(files, file)
		}
	}
	return files, project
}

// Here returns the path by which the host was found on this machine: its command, its file or its directory;
// "" if it was not found.
func (h *Host) Here(s System) string {
	for _, program := range h.Programs {
		if path := lookPath(program, s.Getenv("PATH")); path != "" {
			return path
		}
	}
	file, err := h.UserFile(s)
	if err != nil {
		return ""
	}
	for _, path := range []string{file, filepath.Dir(file)} {
		if _, err := os.Stat(path); err == nil && path != filepath.Clean(s.home()) {
			return path
		}
	}
	return ""
}

// lookPath finds a program in the directories of a PATH; "" if none has it.
func lookPath(program, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found
		}
	}
	return ""
}

// Program returns how a host's file names a running program: by its path in PATH, if that leads to the same
// file, since that path stays when a new version is installed; else by the running file's path. With short,
// the name is enough if PATH has it: others may have it elsewhere.
func Program(running, path string, short bool) string {
	name := strings.TrimSuffix(filepath.Base(running), ".exe")
	found := lookPath(name, path)
	a, err := os.Stat(found)
	if err != nil {
		return running
	}
	if b, err := os.Stat(running); err != nil || !os.SameFile(a, b) {
		return running
	}
	if short {
		return name
	}
	return found
}
