package hosts

import (
	"strings"
	"testing"
)

// However deep a host's file is nested, it is an error with a reason, not the end of the process.
func TestNestedFiles(t *testing.T) {
	t.Parallel()
	const levels = 1_500_000 // 3 MB, which took the stack
	lists := strings.Repeat("[", levels) + strings.Repeat("]", levels)
	for name, c := range map[string]struct {
		format format
		text   string
	}{
		"arrays": {jsonText{}, `{"a":` + lists + `}`},
		"objects": {jsonText{true},
			strings.Repeat("{\"a\":\n", levels) + "1" + strings.Repeat("}", levels)},
		"after a comment":  {jsonText{true}, "// \"\n/* \" */ /**/ {\"a\\\"\": " + lists + `}`},
		"no end":           {jsonText{true}, strings.Repeat("[", levels)},
		"TOML arrays":      {tomlText{}, "a = " + lists + "\n"},
		"TOML dotted name": {tomlText{}, strings.Repeat("a.", 20_000) + "a = 1\n"},
		"YAML flow":        {yamlText{}, "a: " + lists + "\n"},
		"YAML blocks":      {yamlText{}, strings.Repeat("- ", levels) + "a\n"},
	} {
		for range 2 {
			if _, err := c.format.decode([]byte(c.text)); err == nil ||
				!strings.Contains(err.Error(), "10000") || len(err.Error()) > 200 {
				t.Errorf("%s: %.300v", name, err)
			}
			if _, _, err := c.format.insert([]byte(c.text), "mcpServers", "runnel", nil); err == nil &&
				c.format != (tomlText{}) {
				t.Errorf("%s: an entry was inserted", name)
			}
		}
	}
	// What only looks deep is not.
	for _, text := range []string{
		`{"a": "` + strings.Repeat("[", 20_000) + `"}`, "{} //" + strings.Repeat("{", 20_000) + "\n",
		"/*" + strings.Repeat("[", 20_000) + "*/ {}",
		`{"a": "\"` + strings.Repeat("[", 20_000) + `"}`, `{"a": [` + strings.Repeat("[],", 20_000) + `[]]}`,
	} {
		if _, err := (jsonText{true}).decode([]byte(text)); err != nil {
			t.Errorf("%.20s: %.300v", text, err)
		}
	}
}
