package jsonschema_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"runnel/tools/jsonschema"
)

// refused is how many groups of the suite have schemas that refer to other documents, the meta-schemas among them.
var refused = map[string]int{"draft2020-12": 22, "draft7": 13}

// TestSuite runs the official test suite (https://github.com/json-schema-org/JSON-Schema-Test-Suite) as a module has it
// that this one requires anyway.
func TestSuite(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	for draft, uri := range map[string]string{"draft2020-12": "https://json-schema.org/draft/2020-12/schema", "draft7": "http://json-schema.org/draft-07/schema#"} {
		files, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "jsonschema", "testdata", draft, "*.json"))
		if len(files) < 30 {
			t.Fatalf("%s: %d files of the suite", draft, len(files))
		}
		ran, others := 0, 0
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var groups []struct {
				Description string
				Schema      json.RawMessage
				Tests       []struct {
					Description string
					Data        json.RawMessage
					Valid       bool
				}
			}
			if err := json.Unmarshal(b, &groups); err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				where := draft + "/" + filepath.Base(file) + ": " + g.Description
				s, err := jsonschema.Compile(named(g.Schema, uri))
				if err != nil {
					if others++; !strings.Contains(err.Error(), "cannot be loaded") {
						t.Errorf("%s: %v", where, err)
					}
					continue
				}
				for _, c := range g.Tests {
					wrong, err := s.Validate(c.Data)
					if err != nil || (len(wrong) == 0) != c.Valid {
						t.Errorf("%s: %s: valid: %v, %v, %v", where, c.Description, c.Valid, wrong, err)
					}
					ran++
				}
			}
		}
		if ran < 500 || others != refused[draft] {
			t.Errorf("%s: ran %d tests, refused %d schemas, want %d", draft, ran, others, refused[draft])
		}
	}
}

// named is a schema that says its draft.
func named(schema json.RawMessage, uri string) []byte {
	if rest, ok := strings.CutPrefix(strings.TrimSpace(string(schema)), "{"); ok && !strings.Contains(rest, `"$schema"`) {
		comma := ","
		if strings.TrimSpace(rest) == "}" {
			comma = ""
		}
		return []byte(`{"$schema":"` + uri + `"` + comma + rest)
	}
	return schema
}
