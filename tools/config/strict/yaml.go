package strict

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	// These bound what aliases can unfold a small file to.
	maxNodes = 100_000 // enough for thousands of tools
	maxDepth = 100     // more than any schema that people write
)

// decoder decodes one text.
type decoder struct {
	*File
	options Options
	nodes   int // read so far, including those of aliases
	depth   int
	unfolds bool // a limit was exceeded: nothing more is read
	errs    []error
}

func (d *decoder) fail(path string, at *yaml.Node, problem, allowed string) {
	d.tell(path, at, problem, Allow(allowed))
}

// MaxMistakes is how many mistakes are reported. A person reads no more, and the mistakes of a hostile file
// of 1 MiB might not fit into memory.
const MaxMistakes = 100

// tell records a mistake. After MaxMistakes it only records that there are more.
func (d *decoder) tell(path string, at *yaml.Node, problem, hint string) {
	problem = about(path) + problem
	if len(d.errs) == MaxMistakes {
		problem, hint = fmt.Sprintf("there are more than %d mistakes", MaxMistakes), ""
	}
	if len(d.errs) <= MaxMistakes {
		d.errs = append(d.errs, d.mistake(nodePosition(at), problem, hint))
	}
}

// parse returns the values of a text's documents, except empty documents. The library is that of the YAML
// organization: it parses a config of 50 tools in 1.0 ms and 0.5 MB; goccy/go-yaml, which has better error
// messages, takes 2.7 ms and 2 MB.
func (d *decoder) parse(text []byte) (documents []*yaml.Node, err error) {
	var all []yaml.Node
	if err := yaml.Load(text, &all, yaml.WithAllDocuments(),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth)))); err != nil {
		return nil, d.syntaxError(text, err)
	}
	for _, document := range all {
		for _, value := range document.Content {
			if !isNull(value) {
				documents = append(documents, value)
			}
		}
	}
	return documents, nil
}

// syntaxError converts the library's error and adds its place. What is never closed is reported at its
// beginning.
func (d *decoder) syntaxError(text []byte, err error) error {
	wrong, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return d.mistake(position{1, 1}, err.Error(), "")
	}
	at, began := position{wrong.Mark.Line, wrong.Mark.Column},
		position{wrong.ContextMark.Line, wrong.ContextMark.Column}
	problem, hint := wrong.Message, ""
	switch {
	case at.line == 0: // a character that is not allowed in YAML
		before := text[:min(wrong.Mark.Index, len(text))]
		line := bytes.LastIndexByte(before, '\n') + 1
		at = position{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[line:])}
	case began.line > 0:
		problem += " " + wrong.ContextMsg
		if at.line >= len(d.lines) {
			at = began
		} else if began != at {
			problem += fmt.Sprintf(" that began at %d:%d", began.line, began.column)
		}
	}
	switch {
	case strings.HasPrefix(problem, "mapping values are not allowed"): // which says what the parser had to do
		problem, hint = "a key where none can stand",
			`put a text that contains ": " in quotes; indent a key like the keys around it`
	case strings.HasPrefix(problem, "did not find expected key"):
		hint = "indent a key like the keys around it"
	case strings.Contains(problem, "did not find expected ','"):
		hint = "put commas between the items, and close the bracket"
	case strings.Contains(problem, "scanning a quoted scalar"):
		hint = "close the quotes"
	case at.line < len(d.lines) && startsWrong(problem):
		hint = "put text that begins with one of -*&%@`| in quotes; indent lines with spaces, not tabs"
	}
	return d.mistake(at, problem, hint)
}

// startsWrong reports whether the library's error is about a text whose first character has a meaning in YAML.
func startsWrong(problem string) bool {
	return slices.ContainsFunc([]string{"cannot start any token", "anchor", "an alias", "node content"},
		func(words string) bool { return strings.Contains(problem, words) })
}

func nodePosition(n *yaml.Node) position { return position{n.Line, n.Column} }

// enter begins a value, and leave ends it. enter resolves an alias, and returns nil after an error.
func (d *decoder) enter(n *yaml.Node) *yaml.Node {
	d.depth++
	if d.nodes++; !d.unfolds && (d.nodes >= maxNodes || d.depth > maxDepth) {
		d.unfolds = true
		d.fail("", n, "the file expands to too much",
			fmt.Sprintf("%d values, nested at most %d deep", maxNodes, maxDepth))
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case d.unfolds:
		return nil
	case n.Style&yaml.TaggedStyle != 0:
		d.fail("", n, fmt.Sprintf("the tag %s is not known here", n.Tag),
			"plain values; quotes turn one into text")
		return nil
	}
	return n
}

func (d *decoder) leave() { d.depth-- }

// mapEntry is one line of a mapping.
type mapEntry struct {
	key   *yaml.Node
	name  string
	value *yaml.Node
}

// entries returns the entries of a mapping in order, then those that "<<" merges into it.
func (d *decoder) entries(n *yaml.Node) (list []mapEntry, ok bool) {
	if n.Kind != yaml.MappingNode {
		return nil, false
	}
	list = make([]mapEntry, 0, len(n.Content)/2)
	keys := make(map[string]*yaml.Node, len(n.Content)/2)
	var merged []mapEntry
	for pair := range slices.Chunk(n.Content, 2) {
		e := mapEntry{pair[0], pair[0].Value, pair[1]}
		first := keys[e.name]
		switch {
		case e.key.Tag == "!!merge":
			merged = append(merged, d.merge(e.value)...)
		case e.key.Kind != yaml.ScalarNode:
			d.misplaced("", e.key, "a name", "")
		case first != nil:
			d.fail("", e.key, fmt.Sprintf("key %q stands twice, first at %d:%d", e.name, first.Line,
				first.Column), "")
		default:
			keys[e.name] = e.key
			list = append(list, e)
		}
	}
	for _, e := range merged {
		if keys[e.name] == nil {
			keys[e.name] = e.key
			list = append(list, e)
		}
	}
	return list, true
}

func (d *decoder) merge(n *yaml.Node) (list []mapEntry) {
	p := d.enter(n)
	defer d.leave()
	if p == nil {
		return nil
	}
	if p.Kind == yaml.SequenceNode {
		for _, v := range p.Content {
			list = append(list, d.merge(v)...)
		}
		return list
	}
	list, ok := d.entries(p)
	d.nodes += len(list) // a copy of each
	if !ok {
		d.fail("", n, "<< merges only mappings", "a mapping, or a list of them")
	}
	return list
}

func isNull(n *yaml.Node) bool { return n.Tag == "!!null" }

func isText(n *yaml.Node) bool { return n.Tag == "!!str" || n.Tag == "!!timestamp" }

// kind returns the name of a node's kind for a message.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case isText(n):
		return "text"
	}
	return n.Value
}
