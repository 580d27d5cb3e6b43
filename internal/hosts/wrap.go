package hosts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Wrap plans to let runnel start the server of an entry that is there: its command and arguments go behind
// "runnel wrap FLAGS --". Everything else in the entry stays, such as its environment. Uninstall undoes it.
func (h *Host) Wrap(path, name string, wrapper Server, records Records) (*Change, error) {
	f, err := read(path)
	if err != nil {
		return nil, err
	}
	wrong := func(format string, a ...any) error {
		return fmt.Errorf("%s: %w", f.path, fmt.Errorf(format, a...))
	}
	all, err := h.entries(f.text)
	if err != nil {
		return nil, unreadable(f, err)
	}
	entry, found := all[name]
	if !found {
		names := slices.Sorted(maps.Keys(all))
		return nil, wrong("it has no server %q; there are: %s", name,
			cmp.Or(strings.Join(names, ", "), "none"))
	}
	is, program := readServer(entry)
	c := &Change{Path: f.path, name: name, file: f, after: f.text, records: records}
	c.plan = func() (*Change, error) { return h.Wrap(path, name, wrapper, records) }
	wrapped := is.Runnel(wrapper.Command) && len(is.Args) > 0 && is.Args[0] == "wrap"
	args := slices.Concat(wrapper.Args, []string{"--", is.Command}, is.Args)
	switch {
	case !program:
		return nil, wrong("the server %q starts no program; to add one that wraps its URL: "+
			"runnel install %s --name ANOTHER -- wrap --url URL", name, h.ID)
	case wrapped:
		return c, nil
	case is.Runnel(wrapper.Command):
		return nil, wrong("the server %q is runnel itself: there is nothing to wrap", name)
	}
	r := &record{Host: h.ID, Path: f.path, Name: name, Entry: quote(entry)}
	if c.after, r.Before, r.Piece, err = h.restart(f.text, name,
		Server{Command: wrapper.Command, Args: args}); err != nil {
		return nil, wrong("%w; write it yourself: %s %s", err, wrapper.Command, strings.Join(args, " "))
	}
	c.record, c.Backup = r, records.Backup(f.path, name)
	return c, nil
}

// unwrap plans to undo Wrap: the entry is as it was or, if it was edited since, starts what stands behind
// "--".
func (h *Host) unwrap(c *Change, r *record) (*Change, error) {
	c.Unwraps = true
	if r.intact(c.file.text) {
		c.after = bytes.Replace(c.file.text, []byte(r.Piece), []byte(r.Before), 1)
		return c, nil
	}
	servers, err := h.Servers(c.file.text)
	if err != nil {
		return nil, err
	}
	args := servers[c.name].Args
	behind := slices.Index(args, "--") + 1
	if behind == 0 || behind == len(args) || args[0] != "wrap" {
		return nil, fmt.Errorf("%s: runnel no longer stands before another command in the server %q, "+
			"which was changed since runnel install --wrap: edit the file yourself", c.Path, c.name)
	}
	c.after, _, _, err = h.restart(c.file.text, c.name, Server{Command: args[behind], Args: args[behind+1:]})
	c.Backup = c.records.Backup(c.Path, c.name)
	return c, err
}

// restart changes what an entry starts, and nothing else in it. was and is are the entry's text before and
// after.
func (h *Host) restart(text []byte, name string, s Server) (after []byte, was, is string, err error) {
	format, isJSON := h.format.(jsonText)
	if !isJSON {
		return nil, "", "", errors.New("only entries in JSON can be wrapped by runnel")
	}
	root, skipped, err := format.parse(text)
	if err != nil {
		return nil, "", "", err
	}
	o := root.Value.(*hujson.Object)
	o = o.Members[member(o, h.key)].Value.Value.(*hujson.Object)
	value := o.Members[member(o, name)].Value
	entry := value.Value.(*hujson.Object)
	body := text[skipped:]

	// The fields that the host's own entries have: a list of words, or a program and its arguments.
	changed := slices.DeleteFunc(h.shape(s), func(f field) bool {
		return f.name != "command" && f.name != "args"
	})
	from, to := value.StartOffset, value.EndOffset
	type edit struct {
		from, to int
		text     string
	}
	var edits []edit
	for _, f := range changed {
		if n := member(entry, f.name); n >= 0 {
			v := entry.Members[n].Value
			edits = append(edits, edit{v.StartOffset, v.EndOffset, quoteList(f.value)})
			continue
		}
		between := " "
		if indent := lineIndent(body, entry); indent != "" {
			between = "\n" + indent
		}
		end := entry.Members[member(entry, "command")].Value.EndOffset
		edits = append(edits, edit{end, end, "," + between + quote(f.name) + ": " + quoteList(f.value)})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return b.from - a.from })
	edited := bytes.Clone(body[from:to])
	for _, e := range edits {
		edited = slices.Replace(edited, e.from-from, e.to-from, []byte(e.text)...)
	}
	after = slices.Concat(text[:skipped+from], edited, text[skipped+to:])

	all, err := h.entries(text)
	if err != nil {
		return nil, "", "", err
	}
	want := all[name].(map[string]any)
	for _, f := range changed {
		want[f.name] = f.value
	}
	var fields []field
	for key, value := range want {
		fields = append(fields, field{key, value})
	}
	return after, string(body[from:to]), string(edited), h.check(text, after, name, fields)
}
