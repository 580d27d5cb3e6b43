//go:build unix

package command

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"runnel/tools"
	"runnel/tools/config"
)

func TestExpand(t *testing.T) {
	const input = `{"s":{"type":"string"},"n":{"type":"number"},"b":{"type":"boolean"},"list":{"type":"array"},
		"d":{"type":"string","default":"dflt"},"dl":{"type":"array","default":["./..."]},"any":{}}`
	for _, test := range []struct{ command, args, want []string }{
		{command: []string{"{{s}}"}, args: []string{`"s":"a b; $(c) \"'"`}, want: []string{`a b; $(c) "'`}},
		{command: []string{"{{ s }}", "x{{s}}y{{n}}"}, args: []string{`"s":"", "n":1`},
			want: []string{"", "xy1"}},
		{command: []string{"{{n}}"}, args: []string{`"n":1e5`}, want: []string{"1e5"}},
		{command: []string{"{{n}}"}, args: []string{`"n":12345678901234567890`},
			want: []string{"12345678901234567890"}},
		{command: []string{"{{n}}"}, args: []string{`"n":-0.50`}, want: []string{"-0.50"}},
		{command: []string{"--v={{b}}"}, args: []string{`"b":false`}, want: []string{"--v=false"}},
		{command: []string{"a", "{{s}}", "-x={{s}}", "b"}, args: nil, want: []string{"a", "b"}},
		{command: []string{"{{s}}"}, args: []string{`"s":null`}, want: nil},
		{command: []string{"{{d}}", "{{dl}}"}, args: nil, want: []string{"dflt", "./..."}},
		{command: []string{"{{d}}"}, args: []string{`"d":"given"`}, want: []string{"given"}},
		{command: []string{"{{d}}"}, args: []string{`"d":null`}, want: nil},
		{command: []string{"{{list}}", "z"}, args: []string{`"list":["a b","",3,true,null]`},
			want: []string{"a b", "", "3", "true", "z"}},
		{command: []string{"{{list}}", "-I{{list}}"}, args: []string{`"list":[]`}, want: nil},
		{command: []string{"-I{{list}}/{{s}}"}, args: []string{`"list":["a","b"],"s":"c"`},
			want: []string{"-Ia/c", "-Ib/c"}},
		{command: []string{"{{any}}"}, args: []string{`"any":{"k": [1, 2]}`}, want: []string{`{"k":[1,2]}`}},
		{command: []string{"{{s}}"}, args: []string{`"s":"{{n}}","n":1`}, want: []string{"{{n}}"}},
		{command: []string{"{{.Names}}", "{{json .}}", "{s}", "{{ }}"}, args: nil,
			want: []string{"{{.Names}}", "{{json .}}", "{s}", "{{ }}"}},
	} {
		c, err := New("t", config.Command{Command: append([]string{"prog"}, test.command...),
			Input: config.Object(input)}, config.Base{})
		if err != nil {
			t.Errorf("%q: %v", test.command, err)
			continue
		}
		args, err := c.arguments(json.RawMessage("{" + strings.Join(test.args, ",") + "}"))
		if err != nil {
			t.Errorf("%q: %v", test.command, err)
			continue
		}
		got, err := expand(c.in, c.argv, args)
		if err != nil || !slices.Equal(got[1:], test.want) {
			t.Errorf("%q with %s: %q, %v, want %q", test.command, test.args, got[1:], err, test.want)
		}
	}
}

func TestArgumentsThatNoCommandCanTake(t *testing.T) {
	c := mustCommand(t, config.Command{Command: []string{"echo", "{{a}}{{b}}"},
		Input: config.Object(`{"a":{},"b":{}}`)})
	for args, want := range map[string]string{
		`{"a":"x\u0000y","b":""}`: `argument "a" holds a NUL character`,
		`{"a":[1],"b":[2]}`:       `arguments "a" and "b" are both arrays`,
	} {
		result, err := c.Call(t.Context(), &tools.Call{Arguments: json.RawMessage(args)}, nil)
		if err != nil || !result.IsError || !strings.Contains(contentText(t, result.Content[0]), want) {
			t.Errorf("%s: %+v, %v, want %q", args, result, err, want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for line, want := range map[string][]string{
		`grep -rn {{ pattern }} .`: {"grep", "-rn", "{{pattern}}", "."},
		`a 'b c' "d e"f\ g`:        {"a", "b c", "d ef g"},
		`a '' ""`:                  {"a", "", ""},
		`a "\"\\\x\$" 'it''s' \'`:  {"a", `"\\x$`, "its", "'"},
		"a\t b  |  c > d $HOME *":  {"a", "b", "|", "c", ">", "d", "$HOME", "*"},
		`a -x="{{b}}"'{{c}}'`:      {"a", "-x={{b}}{{c}}"},
	} {
		got, err := config.SplitWords(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", line, got, err, want)
		}
	}

	c, err := FromLine(`search=grep -rn {{pattern}} {{dir}} --e={{pattern}}`, config.Base{})
	if err != nil {
		t.Fatal(err)
	}
	tool := c.Describe()
	want := `{"type":"object","properties":{"pattern":{"type":"string"},"dir":{"type":"string"}},"required":["pattern","dir"],"additionalProperties":false}`
	if tool.Name != "search" || string(tool.InputSchema) != want {
		t.Errorf("tool %q with input %s, want %s", tool.Name, tool.InputSchema, want)
	}
	apart, err := FromLine(`print=echo '{{' 'x}}'`, config.Base{}) // no placeholder
	if err != nil || len(apart.in.Names) > 0 {
		t.Errorf("arguments %q, error %v", apart.in.Names, err)
	}
	for _, spec := range []string{`x=sh -c "a | b > c"`, `x=expr 1 '|' 2`, `x=find . -exec ls {} ;`} {
		if _, err := FromLine(spec, config.Base{}); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for spec, want := range map[string]string{
		"echo hi":    "is not a tool",
		"a b=echo":   "not a name for a tool",
		"x=":         "nothing to run",
		"x=a | b":    `tool "x": no shell reads the command, and | would be an argument (allowed: 'x=sh -c "..."', or the sign in quotes)`,
		"x=a 2>&1":   "2>&1 would be an argument",
		"x=echo 'hi": "Unterminated single-quoted",
		`x=echo "hi`: "Unterminated double-quoted",
		`x=echo \`:   "backslash",
	} {
		if _, err := FromLine(spec, config.Base{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", spec, err, want)
		}
	}
}

// A command without a description is described by its command line, as people write it: what stands for an
// argument stays as it is. A script is not shown.
func TestCommandLineIsTheDescription(t *testing.T) {
	for want, c := range map[string]config.Command{
		`grep -n {{pattern}} 'a b' 'it'\''s' --to={{dir}} a!`: {
			Command: []string{"grep", "-n", "{{pattern}}", "a b", "it's", "--to={{dir}}", "a!"},
		},
		`sh -c … {{x}}`:       {Command: []string{"sh", "-c", "curl https://inner/$1", "{{x}}"}},
		"runs a shell script": {Shell: "curl https://inner/"},
	} {
		if got := commandLine(&c); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
