package jsonschema_test

import (
	"fmt"
	"strings"
	"testing"

	"runnel/tools/jsonschema"
)

// doubling is a schema whose n definitions each apply the next one twice.
func doubling(n int, by string) []byte {
	var defs strings.Builder
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		fmt.Fprintf(&defs, `"a%d":%s,`, i, strings.ReplaceAll(by, "NEXT", next))
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{"x":{"$ref":"#/$defs/a0"}},"$defs":{%s"a%d":{"type":"string"}}}`, &defs, n)
}

func TestExplodingSchemasAreRefused(t *testing.T) {
	for _, by := range []string{
		`{"anyOf":[NEXT,NEXT]}`, `{"allOf":[NEXT,NEXT]}`, `{"oneOf":[NEXT,NEXT]}`, `{"if":NEXT,"then":NEXT,"else":NEXT}`,
		`{"anyOf":[{"properties":{"x":NEXT}},{"properties":{"x":NEXT}}]}`, `{"anyOf":[{"items":NEXT},{"items":NEXT}]}`,
	} {
		if _, err := jsonschema.Compile(doubling(40, by)); err == nil || !strings.Contains(err.Error(), "explodes") {
			t.Errorf("%s: %v", by, err)
		}
		if _, err := jsonschema.Compile(doubling(5, by)); err != nil {
			t.Errorf("%s, five of it: %v", by, err)
		}
	}
	tree := `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`
	if _, err := jsonschema.Compile([]byte(tree)); err != nil {
		t.Errorf("a tree: %v", err)
	}
}
