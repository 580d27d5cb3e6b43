package steps

import (
	"strings"
	"testing"

	"runnel/tools/config"
)

// What is wrong with steps is said when the config is read, with its line.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"[{id: a, tool: x, needs: [b]}, {id: b, tool: x, needs: [a]}]":   "step a needs itself, through [a b]",
		`[{id: a, tool: x, with: {to: "{{steps.a.output}}"}}]`:           "step a needs itself",
		"[{id: a, tool: x, needs: [c]}]":                                 `f:4:`,
		"[{id: a, tool: nothing}]":                                       `there is no tool "nothing"`,
		"[{id: a, tool: x}, {id: a, tool: x}]":                           `"a" is the name of steps[0], too`,
		"[{id: a}]":                                                      "names nothing to do",
		"[{id: a, tool: x, ask: y}]":                                     "both a tool and a question",
		"[{id: a, ask: y, timeout: 1s}]":                                 "is impossible with ask",
		"[{id: 1a, tool: x}]":                                            "is not a name for a step",
		`[{id: a, tool: x, when: "{{b}}"}]`:                              "placeholder {{b}} names no input",
		`[{id: a, tool: x, when: "{{steps.b.output}}"}]`:                 "names no step",
		`[{id: b, tool: x}, {id: a, tool: x, when: "{{steps.b.size}}"}]`: "names nothing of a step",
		`[{id: a, tool: x, with: {to: "{{item}}"}}]`:                     "placeholder {{item}} names no input",
		"[{id: a, tool: x, retry: {times: 1000}}]":                       "1000 is out of range",
		`[{id: a, ask: "Publish {{steps.a.output"}]`:                     `"{{steps.a.output" is not closed`,
		`[{id: a, tool: x, with: {to: ["{{b}"]}}]`:                       `"{{b}" is not closed`,
		"[{id: a, tool: s}]":                                             "it runs itself, through s, s",
		"[{id: a, tool: x}]\n    shell: ls":                              "is impossible with steps",
	} {
		c, err := config.Parse("f", []byte("tools:\n  x: {command: [true]}\n  s:\n    steps: "+text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for range 2 {
			_, err = All(c, func(tool string) bool { return tool == "x" || tool == "s" }, "here")
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f:") {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
}

// The key of a tool's calls tells equal tools of two directories apart, and on servers tools with other
// steps.
func TestKeys(t *testing.T) {
	key := func(text, place string) string {
		c, err := config.Parse("f", []byte("tools:\n  s:\n    steps: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		list, err := All(c, func(string) bool { return true }, place)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].ResumeKey()
	}
	const one, same, other = "[{id: a, tool: x}]", "[{tool: x, id: a}]", "[{id: a, tool: y}]"
	if key(one, "here") != key(other, "here") || key(one, "here") == key(one, "there") {
		t.Error("on disk the directory decides")
	}
	if key(one, "") != key(same, "") || key(one, "") == key(other, "") {
		t.Error("on servers the steps decide")
	}
}

// Conditions and lists read texts as people write them.
func TestValues(t *testing.T) {
	value := func(name string) string { return map[string]string{"steps.a.exitCode": "0", "yes": "yes"}[name] }
	for text, want := range map[string]bool{"{{steps.a.exitCode}}": false, "{{steps.a.exitCode}} == 0": true,
		"{{steps.a.exitCode}} != 0": false, "{{yes}}": true, "{{nothing}}": false, "no": false, "true": true} {
		c := parseCondition(text)
		if c.holds(value) != want {
			t.Errorf("%s holds: %v", text, !want)
		}
	}
	for text, want := range map[string]string{"a\nb\r\n\nc": `"a" "b" "c"`, `["a", 1, {"b": 2}]`: `"a" 1 {"b": 2}`,
		"[not json": `"[not json"`, "": ""} {
		list, err := items(text)
		var got []string
		for _, item := range list {
			got = append(got, string(item))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
