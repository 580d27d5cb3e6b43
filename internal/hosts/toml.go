package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tomlText is TOML. A table may stand anywhere, so an entry is appended; the library only reads. It refuses a
// table below an inline table, as Codex does and other libraries do not.
type tomlText struct{}

func (tomlText) decode(text []byte) (map[string]any, error) {
	values := map[string]any{}
	err := toml.Unmarshal(bytes.TrimPrefix(text, byteOrderMark), &values)
	if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := wrong.Position()
		return nil, fmt.Errorf("line %d: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	if err == nil && deeper(values, maxDepth) {
		err = fmt.Errorf("its names nest more than %d levels deep", maxDepth)
	}
	return values, err
}

func (tomlText) insert(text []byte, key, name string, entry []field) (at int, piece string, err error) {
	var b strings.Builder
	switch {
	case len(text) == 0:
	case !bytes.HasSuffix(text, []byte("\n")):
		b.WriteString("\n\n")
	default:
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "[%s.%s]\n", key, name)
	for _, f := range entry {
		value := quoteList(f.value)
		if env, ok := f.value.(map[string]string); ok {
			value = tomlTable(env)
		}
		fmt.Fprintf(&b, "%s = %s\n", f.name, value)
	}
	return len(text), b.String(), nil
}

func (f tomlText) remove(text []byte, key, name string, _ bool) ([]byte, error) {
	header := regexp.MustCompile(fmt.Sprintf(`^\s*\[\s*["']?%s["']?\s*\.\s*["']?%s["']?\s*[.\]]`, key,
		regexp.QuoteMeta(name)))
	anyHeader := regexp.MustCompile(`^\s*\[`)
	var kept, held []byte // held: comments and blank lines, which may belong to the next table
	inside := false
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		remark := len(trimmed) == 0 || trimmed[0] == '#'
		switch {
		case header.Match(line):
			inside = true
			held = nil
		case inside && anyHeader.Match(line):
			inside = false
			kept = append(append(kept, held...), line...)
		case inside && remark:
			held = append(held, line...)
		case inside:
			held = nil
		default:
			kept = append(kept, line...)
		}
	}
	if inside {
		kept = append(kept, held...)
	}
	return kept, nil
}

// tomlTable writes an inline table.
func tomlTable(values map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		words = append(words, quote(name)+" = "+quote(values[name]))
	}
	return "{ " + strings.Join(words, ", ") + " }"
}
