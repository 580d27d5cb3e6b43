package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is an error about an invalid value. Config.Locate adds the value's place.
type Error struct {
	Key     string // path below the tool, such as "command[2]" or "input.name"; "" = the whole tool
	Problem string
	Allowed string // which values are valid; may be empty
}

// Wrong makes an Error without a key.
func Wrong(allowed, problem string, args ...any) error {
	return &Error{Problem: fmt.Sprintf(problem, args...), Allowed: allowed}
}

// Error returns the key, the problem and the hint.
func (e *Error) Error() string { return about(e.Key) + hinted(e.Problem, allow(e.Allowed)) }

// about returns the beginning of a message about a path.
func about(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func allow(what string) (hint string) {
	if what == "" {
		return ""
	}
	return "allowed: " + what
}

func hinted(problem, hint string) string {
	if hint == "" {
		return problem
	}
	return problem + " (" + hint + ")"
}

// Join returns the path of a key below another path.
func Join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// position is a line and a column in a file, from 1.
type position struct{ line, column int }

// place holds the positions of a key and its value.
type place struct{ key, value position }

// mistake is an error with its position in a config file.
type mistake struct {
	position
	text string // FILE:LINE:COL: the problem (a hint), then the line of the file with a mark below
}

func (m *mistake) Error() string { return m.text }

// JoinErrors joins errors in the order of the file.
func JoinErrors(errs []error) error {
	at := func(err error) position {
		if m, ok := errors.AsType[*mistake](err); ok {
			return m.position
		}
		return position{}
	}
	slices.SortStableFunc(errs, func(a, b error) int {
		x, y := at(a), at(b)
		return cmp.Or(cmp.Compare(x.line, y.line), cmp.Compare(x.column, y.column))
	})
	return errors.Join(errs...)
}

// maxSource is how much of the file's line a mistake shows, in characters.
const maxSource = 200

// mistake makes the error for a position.
func (c *Config) mistake(p position, problem, hint string) error {
	if c.lines == nil { // an Override
		return errors.New(hinted(problem, hint))
	}
	text := fmt.Sprintf("%s:%d:%d: %s", c.file, p.line, p.column, hinted(problem, hint))
	if p.line < 1 || p.line > len(c.lines) || strings.TrimSpace(c.lines[p.line-1]) == "" {
		return &mistake{p, text}
	}
	line := []rune(c.lines[p.line-1])
	mark := min(max(p.column-1, 0), len(line))
	from := max(mark-maxSource/2, 0)
	shown := strings.ReplaceAll(string(line[from:min(from+maxSource, len(line))]), "\t", " ")
	number := fmt.Sprintf("%5d", p.line)
	return &mistake{p, fmt.Sprintf("%s\n%s | %s\n%*s | %*s^", text, number, shown, len(number), "", mark-from, "")}
}
