package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"runnel/internal/term"
)

func TestArguments(t *testing.T) {
	schema := term.ReadForm(json.RawMessage(`{"type":"object","properties":{
		"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},"o":{"type":"object"},
		"list":{"type":"array","items":{"type":"integer"}},"words":{"type":"array"},"maybe":{"type":["null","integer","string"]},
		"any":{},"true":true,"either":{"anyOf":[{"type":"boolean"},{"type":"string"}]},"one":{"enum":["1","2"]},"some":{"enum":[1,2,true,null]},"const":{"oneOf":[{"const":4},{"const":"x"}]}},"required":["s"]}`))
	input := func() ([]byte, error) { return []byte("of stdin\n"), nil }
	for _, c := range []struct{ Words, want string }{
		{"", `{}`},
		{"s=1", `{"s":"1"}`}, {"s=", `{"s":""}`}, {"s=a=b", `{"s":"a=b"}`}, {`s="`, `{"s":"\""}`},
		{"i=-3", `{"i":-3}`}, {"i=1e3", `{"i":1e3}`}, {"i=1.5", `i: "1.5" is not of type integer`},
		{"i=0x1", `i: "0x1" is not of type integer`},
		{"n=1.50", `{"n":1.50}`}, {"n=", `n: "" is not of type number`},
		{"n=NaN", `n: "NaN" is not of type number`}, {"i=12345678901234567890", `{"i":12345678901234567890}`},
		{"b=true", `{"b":true}`}, {"b=yes", `b: "yes" is not of type boolean`},
		{`o={"a":1}`, `{"o":{"a":1}}`}, {"o=1", `o: "1" is not of type object`},
		{"list=1 list=2", `{"list":[1,2]}`}, {"list=[1,2] list=3", `{"list":[1,2,3]}`},
		{"list=x", `list: "x" is not a JSON array, nor an element of one (integer): write list= once for each element, or list='[...]'`},
		{"list=1,2", `list: "1,2" is not a JSON array, nor an element of one (integer): write list= once for each element, or list='[...]'`},
		{"words=x words=1", `{"words":["x",1]}`},
		{"maybe=null", `{"maybe":null}`}, {"maybe=4", `{"maybe":4}`}, {"maybe=x", `{"maybe":"x"}`},
		{"any=1 true=x", `{"any":1,"true":"x"}`}, {"either=true", `{"either":true}`},
		{"either=1", `{"either":"1"}`}, {"one=1", `{"one":"1"}`},
		{"some=1", `{"some":1}`}, {"some=true", `{"some":true}`}, {"some=null", `{"some":null}`},
		{"some=x", `{"some":"x"}`},
		{"const=4", `{"const":4}`}, {"const=x", `{"const":"x"}`},
		{"s=\xff", "the arguments are not UTF-8, as JSON must be; base64 makes text of any bytes"},
		{"\xff=1", "the arguments are not UTF-8, as JSON must be; base64 makes text of any bytes"},
		{"unknown=1", `{"unknown":1}`},
		{"s", `"s" is not an argument (allowed: key=value, key=@FILE, key=@- for stdin)`},
		{"s=@-", `{"s":"of stdin\n"}`}, {"s=@@-", `{"s":"@-"}`},
		{"s=@/no/such", `s: open /no/such: no such file or directory`},
	} {
		got, err := parseArguments(schema, strings.Fields(c.Words), "", input)
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.Words, text, c.want)
		}
	}
	if got, err := parseArguments(schema, nil, "{\"s\":\"\xff\"}", input); err == nil ||
		err.Error() != "the arguments are not UTF-8, as JSON must be; base64 makes text of any bytes" {
		t.Errorf("%q, error %v", got, err)
	}
}
