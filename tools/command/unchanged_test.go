//go:build unix

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"runnel/internal/propose"
	"runnel/rpc"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/secrets"
)

// served are the tools of a config, as a client in this process calls them.
type served struct {
	t        *testing.T
	config   *config.Config
	commands []*Command
	first    string // what dump returned before the first call

	mu      sync.Mutex // guards what follows
	in      io.Writer
	waiting map[int]chan string
	results map[string]string // what the first call of each kind gave
}

// stub is what every command of a config starts: it prints its arguments and what it reads.
const stub = "#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done\nwhile IFS= read -r line; do printf '<%s\\n' \"$line\"; done\n"

// serve serves the tools of a config's text.
func serve(t *testing.T, text string) (*served, error) {
	dir := t.TempDir()
	c, err := config.Parse(filepath.Join(dir, "runnel.yaml"), []byte(text))
	if err != nil {
		return nil, err
	}
	s := &served{t: t, config: c, waiting: map[int]chan string{}, results: map[string]string{}}
	bin := filepath.Join(dir, "bin")
	if s.commands, err = All(c, []string{"PATH=" + bin}); err == nil {
		err = CheckSchemas(c, s.commands)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	// Calls of a command that reads input end when that has been sent, and a result of one that becomes ready
	// has as much output as there is then.
	s.commands = slices.DeleteFunc(s.commands,
		func(c *Command) bool { return c.config.TakesInput() || c.config.Ready != "" })
	registry := &tools.Registry{}
	for _, command := range s.commands {
		if err := registry.Add(command); err != nil {
			t.Fatal(err)
		}
		if len(command.argv) > 0 && !strings.Contains(command.argv[0].Text, "/") {
			if err := os.WriteFile(filepath.Join(bin, command.argv[0].Text), []byte(stub),
				0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	masked, _, err := c.MakeSecrets(nil, nil)
	if err != nil {
		return nil, err
	}
	hidden := &secrets.Current{}
	hidden.Replace(masked)
	srv, runner := rpc.NewServer(nil), run.NewRunner(run.Options{Secrets: hidden})
	methods.Register(srv, runner)
	tools.Serve(srv, registry, runner, tools.ServeOptions{FallbackTools: "never"})
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(context.Background(), inReader, outWriter)
		runner.Close()
		_ = outWriter.Close()
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		for lines.Buffer(nil, 64<<20); lines.Scan(); {
			var answer struct{ ID int }
			if json.Unmarshal(lines.Bytes(), &answer) != nil || answer.ID == 0 {
				continue
			}
			s.mu.Lock()
			s.waiting[answer.ID] <- lines.Text()
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = in.Close(); <-ended; <-read })
	s.in = in
	s.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	s.first = s.dump()
	return s, nil
}

// ask sends a request and returns the answer without its id.
func (s *served) ask(method, params string) string {
	s.mu.Lock()
	id := len(s.waiting) + 1
	got := make(chan string, 1)
	s.waiting[id] = got
	_, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	s.mu.Unlock()
	if err != nil {
		s.t.Error(err)
		return ""
	}
	select {
	case answer := <-got:
		_, rest, _ := strings.Cut(answer, fmt.Sprintf(`"id":%d,`, id))
		return rest
	case <-time.After(watchdog):
		s.t.Errorf("%s %s: no answer", method, params)
		return ""
	}
}

// differs matches what differs between two equal calls: how long each took.
var differs = regexp.MustCompile(`"duration[A-Za-z]*":[0-9.e+-]+|after [0-9.]+ s`)

// call calls a tool, and compares what comes with what came before.
func (s *served) call(call string) {
	result := differs.ReplaceAllString(s.ask("tools/call", call), "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.results[call]; !ok {
		s.results[call] = result
	} else if before != result {
		s.t.Errorf("%s\n gave %s\n then %s", call, before, result)
	}
}

// play makes so many calls, four side by side: of each tool with some sets of arguments, again and again.
func (s *served) play(rng *rand.Rand, calls int) {
	var kinds []string
	for _, c := range s.commands {
		for i := range 4 {
			arguments := "{}"
			if i > 0 {
				arguments = randomArguments(rng, c.in.Schema)
			}
			kinds = append(kinds, fmt.Sprintf(`{"name":%q,"arguments":%s}`, c.name, arguments))
		}
	}
	todo := make([]string, calls)
	for i := range todo {
		todo[i] = kinds[rng.IntN(len(kinds))]
	}
	list := s.ask("tools/list", `{}`)
	var wait sync.WaitGroup
	for n := range 4 {
		wait.Go(func() {
			for i := n; i < len(todo) && !s.t.Failed(); i += 4 {
				s.call(todo[i])
			}
		})
	}
	wait.Wait()
	if again := s.ask("tools/list", `{}`); again != list {
		s.t.Errorf("the list of tools became\n%s, was\n%s", again, list)
	}
	if now := s.dump(); now != s.first {
		s.t.Errorf("the config became\n%s\nwas\n%s", now, s.first)
	}
}

// dump returns all that the calls of a config's tools share, byte for byte.
func (s *served) dump() string {
	var b strings.Builder
	seen := map[uintptr]bool{}
	dump(&b, reflect.ValueOf(s.config), seen)
	for _, c := range s.commands {
		for _, shared := range []any{c.config, c.in, c.argv, c.stdin, c.asks, c.dir, c.outputSchema, c.env(),
			c.Describe()} {
			dump(&b, reflect.ValueOf(shared), seen)
		}
	}
	return b.String()
}

// dump writes a value with all that it points to. Of a slice, it also writes what lies behind its end, where
// an append would write.
func dump(b *strings.Builder, v reflect.Value, seen map[uintptr]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Pointer()] {
			seen[v.Pointer()] = true
			dump(b, v.Elem(), seen)
		}
	case reflect.Interface:
		if !v.IsNil() {
			dump(b, v.Elem(), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprintf(b, "\n%s: ", v.Type().Field(i).Name)
			dump(b, v.Field(i), seen)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int {
			return strings.Compare(fmt.Sprint(a),
				fmt.Sprint(b))
		})
		for _, key := range keys {
			fmt.Fprintf(b, "\n%v = ", key)
			dump(b, v.MapIndex(key), seen)
		}
	case reflect.Slice:
		fmt.Fprintf(b, " %d of ", v.Len())
		if whole := v.Slice(0, v.Cap()); v.Type().Elem().Kind() == reflect.Uint8 {
			fmt.Fprintf(b, "%q", whole.Bytes())
		} else {
			for i := range whole.Len() {
				dump(b, whole.Index(i), seen)
			}
		}
	case reflect.Func, reflect.Chan:
	default:
		fmt.Fprintf(b, "%v;", v)
	}
}

// randomArguments makes arguments for a schema: some given, some not, some spelled as models do, some wrong.
func randomArguments(rng *rand.Rand, schema json.RawMessage) string {
	var s struct {
		Properties map[string]json.RawMessage
	}
	_ = json.Unmarshal(schema, &s) // a schema that is true has no properties
	var members []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if rng.IntN(3) > 0 {
			members = append(members, fmt.Sprintf("%q:%s", name, randomValue(rng, s.Properties[name])))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func pick[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

func randomValue(rng *rand.Rand, schema json.RawMessage) string {
	var s struct {
		Type any
		Enum []json.RawMessage
	}
	_ = json.Unmarshal(schema, &s) // true is a schema, too
	if len(s.Enum) > 0 && rng.IntN(4) > 0 {
		return string(pick(rng, s.Enum...))
	}
	if rng.IntN(6) == 0 {
		return pick(rng, "null", `"x"`, "3", "[]", "{}", "true")
	}
	switch s.Type {
	case "integer":
		return pick(rng, "3", "-1", "1.0", `"3"`, "12345678901234567890")
	case "number":
		return pick(rng, "0.5", "3", `"1e3"`, "1E-2")
	case "boolean":
		return pick(rng, "true", "false", `"true"`)
	case "array":
		return pick(rng, "[]", `["a","b c"]`, `[1,2.50]`, `"[\"a\"]"`, `[null,{"a":[ 1 ]}]`)
	case "object":
		return pick(rng, "{}", `{ "a" : [1, {"b":null}] }`, `"{\"a\":1}"`)
	}
	return pick(rng, `"a"`, `""`, `"two words"`, `"-n"`, `"schön\n"`, `"{{a}}"`, `"$(id)"`, `"<&>"`)
}

// The config, the schemas and the defaults are after a thousand calls what they were before, byte for byte,
// and the last call gives what the first one gave: for the tools of all documents and of what init proposes.
func TestCallsChangeNothing(t *testing.T) {
	texts := map[string]string{}
	documents, _ := filepath.Glob("../../internal/manual/*.md")
	for _, file := range append(documents, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(text, -1) {
			texts[fmt.Sprintf("%s/%d", filepath.Base(file), i)] = string(block[1])
		}
	}
	trees, _ := filepath.Glob("../../internal/propose/testdata/*.txtar")
	more, _ := filepath.Glob("../../testdata/day/trees/*.txtar")
	for _, file := range append(trees, more...) {
		archive, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tree := fstest.MapFS{}
		files := regexp.MustCompile(`(?m)^-- (.+) --\n`).FindAllSubmatchIndex(archive, -1)
		for i, at := range append(files, []int{len(archive)})[:len(files)] {
			end := append(files, []int{len(archive)})[i+1][0]
			tree[string(archive[at[2]:at[3]])] = &fstest.MapFile{Data: archive[at[1]:end]}
		}
		delete(tree, "runnel.yaml")
		texts["init "+filepath.Base(file)], _ = propose.Propose(tree, "/project", nil)
	}
	const calls = 50 // of each config
	var sum int
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t.Run(name, func(t *testing.T) {
			s, err := serve(t, texts[name])
			if err != nil || len(s.commands) == 0 { // a part of a config, or one of servers
				return
			}
			sum += calls
			s.play(rand.New(rand.NewPCG(29, uint64(sum))), calls)
		})
	}
	if t.Logf("%d calls", sum); sum < 1000 {
		t.Error("the documents have more configs with tools")
	}
}

// randomConfigs is how many configs TestRandomConfigs makes, and how many calls of each; make configs makes
// 200, which takes some minutes.
const (
	configsVariable = "RUNNEL_TEST_CONFIGS"
	randomConfigs   = 20
	randomCalls     = 50
)

// Configs made from the config's own JSON Schema: equal calls give equal results, and no call changes what
// the next one finds.
func TestRandomConfigs(t *testing.T) {
	n := randomConfigs
	if given := os.Getenv(configsVariable); given != "" {
		if _, err := fmt.Sscan(given, &n); err != nil {
			t.Fatalf("%s: %v", configsVariable, err)
		}
	}
	var schema jsonSchema
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	keys, refused := map[string]int{}, 0
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := &configMaker{rand.New(rand.NewPCG(2029, uint64(seed))), schema.Defs}
			all := map[string]any{}
			for want := 1 + g.rng.IntN(3); len(all) < want; {
				tool := g.tool()
				text, err := json.Marshal(map[string]any{"tools": map[string]any{"tool": tool}})
				if err != nil {
					t.Fatal(err)
				}
				if !accepted(t, text) { // keys that exclude each other
					refused++
					continue
				}
				for key := range tool {
					keys[key]++
				}
				all[fmt.Sprint("tool", len(all))] = tool
			}
			whole := map[string]any{"tools": all}
			for _, key := range []string{"server", "limits", "partials", "tasks", "compat", "fallbackTools",
				"secrets", "notify"} {
				if g.rng.IntN(2) == 0 {
					continue
				}
				section := g.value(schema.Properties[key])
				if key == "secrets" {
					section = map[string]any{"patterns": []string{pick(g.rng, `two \w+`, "last", "sch.n")},
						"env": []string{"VARIABLE"}}
				}
				text, err := json.Marshal(map[string]any{key: section})
				if err != nil {
					t.Fatal(err)
				}
				if accepted(t, text) {
					whole[key] = section
					keys[key]++
				}
			}
			text, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			s, err := serve(t, string(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if s.play(g.rng, randomCalls); t.Failed() {
				t.Logf("the config: %s", text)
			}
		})
	}
	t.Logf("%d configs, %d calls; %d tools were refused; keys: %v", n, n*randomCalls, refused, keys)
	for key := range schema.Defs["tool"].Properties {
		if n >= 200 && keys[key] == 0 && !slices.Contains(timely, key) {
			t.Errorf("no tool had the key %s", key)
		}
	}
}

// accepted reports whether runnel takes a config.
func accepted(t *testing.T, text []byte) bool {
	c, err := config.Parse(filepath.Join(t.TempDir(), "runnel.yaml"), text)
	if err != nil {
		return false
	}
	commands, err := All(c, nil)
	return err == nil && CheckSchemas(c, commands) == nil
}

// jsonSchema is what configMaker reads of a schema.
type jsonSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Properties map[string]*jsonSchema
	Additional any `json:"additionalProperties"`
	Items      *jsonSchema
	Minimum    int
	Defs       map[string]*jsonSchema `json:"$defs"`
}

// timely are the keys with which equal calls may give different results (see serve).
var timely = []string{"interactive", "ready"}

// configMaker makes tools by the schema of the config.
type configMaker struct {
	rng  *rand.Rand
	defs map[string]*jsonSchema
}

// tool makes a tool that has some of the keys. The keys that belong together are made together; timeouts are
// never reached.
func (g *configMaker) tool() map[string]any {
	tool := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(g.defs["tool"].Properties)) {
		if g.rng.IntN(4) == 0 {
			tool[key] = g.value(g.defs["tool"].Properties[key])
		}
	}
	for _, key := range slices.Concat(timely,
		[]string{"command", "shell", "input", "required", "options", "stdin", "confirm", "progress",
			"outputSchema", "dir"}) {
		delete(tool, key)
	}
	names := []string{"a", "list", "type", "n_1", "Mixed"}
	g.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:g.rng.IntN(len(names)+1)]
	input := map[string]any{}
	required := []string{}
	placeholders := ""
	for _, name := range names {
		input[name] = g.input()
		if g.rng.IntN(4) == 0 {
			required = append(required, name)
		}
	}
	if g.rng.IntN(2) == 0 {
		words := []string{"stub"}
		for _, name := range names {
			words = append(words, pick(g.rng, "{{"+name+"}}", "-I{{"+name+"}}", "x {{ "+name+" }} y"))
		}
		tool["command"] = append(words, "last")
	} else {
		tool["shell"] = pick(g.rng, `printf '%s|' "$a" "$list" "$type" "$n_1" "$Mixed"`,
			"env | while read -r line; do :; done; echo done", `echo '{"a": "'$0'"}'`,
			"echo out; exit 3", "cat")
	}
	if len(names) > 0 {
		if g.rng.IntN(3) == 0 {
			tool["options"] = names[:1]
		}
		placeholders = " {{" + names[0] + "}}"
	}
	if g.rng.IntN(3) == 0 {
		tool["stdin"] = "read" + placeholders + "\nand more\n"
	}
	if g.rng.IntN(6) == 0 {
		tool["confirm"] = "Do it with" + placeholders + "?"
	}
	if g.rng.IntN(6) == 0 {
		tool["progress"] = `(\d+)/(\d+)`
	}
	if g.rng.IntN(6) == 0 {
		tool["dir"] = pick(g.rng, ".", "bin", "/")
	}
	if tool["structured"] == "json" && g.rng.IntN(2) == 0 {
		tool["outputSchema"] = map[string]any{"properties": map[string]any{"a": map[string]any{"type": "string"}}}
	}
	if tool["input"] = any(input); g.rng.IntN(4) == 0 {
		tool["input"] = map[string]any{"type": "object", "properties": input, "required": required,
			"additionalProperties": g.rng.IntN(2) == 0}
	} else if len(required) > 0 {
		tool["required"] = required
	}
	return tool
}

// input makes the schema of an argument, often with a default.
func (g *configMaker) input() any {
	kind := pick(g.rng, "string", "integer", "number", "boolean", "array", "object", "any", "enum",
		"maybe", "true")
	schema := map[string]any{"type": kind}
	defaults := map[string][]any{
		"string": {"", "a b", "{{a}}", "ä"}, "integer": {0, -7, 1e3}, "number": {0.25, 3},
		"boolean": {true, false}, "array": {[]any{}, []any{"./...", " "}, []any{1, nil, "x"}},
		"object": {map[string]any{}, map[string]any{"a": []any{1, map[string]any{"b": nil}}}},
		"any":    {nil, "x", 3, []any{"y"}}, "enum": {"x", 2}, "maybe": {nil, 4},
	}[kind]
	switch kind {
	case "true":
		return true
	case "any":
		delete(schema, "type")
	case "enum":
		schema = map[string]any{"enum": []any{"x", 2, nil}}
	case "maybe":
		schema = map[string]any{"anyOf": []any{map[string]any{"type": "integer"},
			map[string]any{"type": "null"}}}
	}
	if g.rng.IntN(2) == 0 {
		schema["default"] = pick(g.rng, defaults...)
	}
	if g.rng.IntN(2) == 0 {
		schema["description"] = "what it is"
	}
	return schema
}

// value makes a value by a schema.
func (g *configMaker) value(s *jsonSchema) any {
	switch {
	case s.Ref == "#/$defs/text":
		return pick[any](g.rng, "some text", "x", 1.5, true, "class_1")
	case s.Ref == "#/$defs/duration":
		return pick[any](g.rng, "1h", "90s", "3600000ms")
	case s.Ref == "#/$defs/size":
		return pick(g.rng, "1KiB", "64KiB", "900KiB")
	case s.Ref == "#/$defs/notify":
		return pick[any](g.rng, "never", "1h", map[string]any{"after": "2h", "on": []string{"failed"}})
	case s.Ref != "":
		return nil
	case len(s.Enum) > 0:
		return pick(g.rng, s.Enum...)
	}
	kind := s.Type
	if kinds, ok := kind.([]any); ok {
		kind = kinds[0]
	}
	switch kind {
	case "boolean":
		return g.rng.IntN(2) == 0
	case "integer":
		return s.Minimum + g.rng.IntN(4)
	case "array":
		list := []any{}
		for range g.rng.IntN(3) {
			list = append(list, g.value(s.Items))
		}
		return list
	case "object":
		object := map[string]any{}
		for key, inner := range s.Properties {
			if g.rng.IntN(2) == 0 {
				object[key] = g.value(inner)
			}
		}
		if len(s.Properties) == 0 {
			object["VARIABLE"] = "its value"
		}
		return object
	}
	return "text"
}
