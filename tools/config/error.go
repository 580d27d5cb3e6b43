package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A FileError is one mistake in a config file.
type FileError struct {
	File         string
	Line, Column int    // from 1
	Problem      string // the mistake
	Allowed      string // a hint at the right values; may be empty
	Source       string // the line it stands on, of a long one what is around

	mark int // characters of Source before the place
}

// Error writes FILE:LINE:COL: what is wrong (what is allowed), and below it the line with a mark.
func (e *FileError) Error() string {
	s := e.Summary()
	if strings.TrimSpace(e.Source) == "" {
		return s
	}
	number := fmt.Sprintf("%5d", e.Line)
	return fmt.Sprintf("%s\n%s | %s\n%*s | %*s^", s, number, e.Source, len(number), "", e.mark, "")
}

// Summary is the error without the line it stands on.
func (e *FileError) Summary() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
	if e.Allowed != "" {
		s += " (" + e.Allowed + ")"
	}
	return s
}

// JoinErrors joins errors in the order of the file.
func JoinErrors(errs []error) error {
	place := func(err error) (line, column int) {
		if at, ok := errors.AsType[*FileError](err); ok {
			return at.Line, at.Column
		}
		return 0, 0
	}
	slices.SortStableFunc(errs, func(a, b error) int {
		lineA, columnA := place(a)
		lineB, columnB := place(b)
		return cmp.Or(cmp.Compare(lineA, lineB), cmp.Compare(columnA, columnB))
	})
	return errors.Join(errs...)
}

// position is a place in a file, from 1.
type position struct{ line, column int }

// place is where a value and the key before it stand.
type place struct{ key, value position }

// source is the text of a config file.
type source struct {
	file  string   // its name, "" if there is none
	lines []string // nil until it is read
}

// mistake makes the error for a position.
func (c *source) mistake(p position, problem, allowed string) *FileError {
	e := &FileError{File: c.file, Line: p.line, Column: p.column, Problem: problem, Allowed: allowed}
	if p.line >= 1 && p.line <= len(c.lines) {
		line := c.lines[p.line-1]
		e.mark = min(max(p.column-1, 0), len(line))
		if from := max(e.mark-maxSource/2, 0); from > 0 || len(line) > maxSource {
			characters := []rune(line)
			from = min(from, len(characters))
			line = string(characters[from:min(from+maxSource, len(characters))])
			e.mark -= from
		}
		e.Source = strings.ReplaceAll(line, "\t", " ")
	}
	return e
}

// maxSource is how much of a line is shown with a mistake, in characters.
const maxSource = 200

// An Error is a value that cannot be used.
type Error struct {
	Key     string // path below the tool, such as "command[2]" or "input.name"; "" = the tool as a whole
	Problem string
	Allowed string // a hint at the right values; may be empty
}

// Wrong makes an Error about text that has no key.
func Wrong(allowed, problem string, args ...any) error {
	return &Error{Problem: fmt.Sprintf(problem, args...), Allowed: allowed}
}

func (e *Error) Error() string {
	s := e.Problem + parenthesis(allow(e.Allowed))
	if e.Key != "" {
		s = e.Key + ": " + s
	}
	return s
}

// Join is the path of a key below a path.
func Join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

func allow(what string) string {
	if what == "" {
		return ""
	}
	return "allowed: " + what
}

func parenthesis(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
