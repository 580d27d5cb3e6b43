package strict

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// File is a text whose values' places are known.
type File struct {
	name   string // "" = there is no file, and its values have no places
	lines  []string
	places map[string]place // by the paths of values, such as tools.test.command[2]
}

// NewFile makes a File of a text, which Decode has yet to read.
func NewFile(name string, text []byte) *File {
	return &File{name, strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"),
		map[string]place{}}
}

// Nowhere makes a File for a text that comes from no file: its mistakes have no places.
func Nowhere() *File { return &File{places: map[string]place{}} }

// Name returns the name of the file, "" if there is none.
func (f *File) Name() string {
	if f == nil {
		return ""
	}
	return f.name
}

// Paths returns the paths of all values that Decode has read.
func (f *File) Paths() iter.Seq[string] { return maps.Keys(f.places) }

// Place returns where a value stands, FILE:LINE:COL; "" if it is not in the file.
func (f *File) Place(path string) string {
	if f == nil || f.places[path] == (place{}) {
		return ""
	}
	p := f.places[path].key
	return fmt.Sprintf("%s:%d:%d", f.name, p.line, p.column)
}

// Locate returns the error for a mistake in the value at the path full, with the place of that value, or of
// the nearest one above it that has one, but not above path.
func (f *File) Locate(path, full, problem, hint string) error {
	problem = about(full) + problem
	if f == nil {
		return errors.New(Hinted(problem, hint))
	}
	try := full
	for f.places[try] == (place{}) && len(try) > len(path) {
		try = try[:max(strings.LastIndexAny(try, ".["), len(path))]
	}
	p, ok := f.places[try]
	switch {
	case !ok:
		return errors.New(Hinted(problem, hint))
	case try == path || p.value == position{}: // it is about the whole value, or about a key
		return f.mistake(p.key, problem, hint)
	}
	return f.mistake(p.value, problem, hint)
}

// TooLarge returns the error for a file that is larger than a limit.
func (f *File) TooLarge(limit string) error {
	return f.mistake(position{1, 1}, "the file is too large", Allow(limit+" at most"))
}

// Error is an error about an invalid value. File.Locate adds the value's place.
type Error struct {
	Key     string // path below the value, such as "command[2]" or "input.name"; "" = the whole value
	Problem string
	Allowed string // which values are valid; may be empty
}

// Wrong makes an Error without a key.
func Wrong(allowed, problem string, args ...any) error {
	return &Error{Problem: fmt.Sprintf(problem, args...), Allowed: allowed}
}

// Error returns the key, the problem and the hint.
func (e *Error) Error() string { return about(e.Key) + Hinted(e.Problem, Allow(e.Allowed)) }

// about returns the beginning of a message about a path.
func about(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

// Allow returns the hint that names what is allowed.
func Allow(what string) (hint string) {
	if what == "" {
		return ""
	}
	return "allowed: " + what
}

// Hinted returns a problem with its hint in parentheses, if there is one.
func Hinted(problem, hint string) string {
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

// mistake is an error with its position in a file.
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
func (f *File) mistake(p position, problem, hint string) error {
	if f.lines == nil {
		return errors.New(Hinted(problem, hint))
	}
	text := fmt.Sprintf("%s:%d:%d: %s", f.name, p.line, p.column, Hinted(problem, hint))
	if p.line < 1 || p.line > len(f.lines) || strings.TrimSpace(f.lines[p.line-1]) == "" {
		return &mistake{p, text}
	}
	line := []rune(f.lines[p.line-1])
	mark := min(max(p.column-1, 0), len(line))
	from := max(mark-maxSource/2, 0)
	shown := strings.ReplaceAll(string(line[from:min(from+maxSource, len(line))]), "\t", " ")
	number := fmt.Sprintf("%5d", p.line)
	return &mistake{p, fmt.Sprintf("%s\n%s | %s\n%*s | %*s^", text, number, shown, len(number), "",
		mark-from, "")}
}
