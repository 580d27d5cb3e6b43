package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	newestHandshake = "2025-11-25"
	partialMethod   = "notifications/tasks/partial"
)

// schema is the JSON Schema of one protocol version, closed: a member that the version
// does not name is an error, because the server never sends what the negotiated version does not know.
type schema struct {
	version       string
	compiler      *jsonschema.Compiler
	pointer       string            // the prefix of a type's name
	notifications map[string]string // type by method, of what a server may send
	requests      map[string]string // likewise

	elsewhere map[string]string // the prefix of a type's name in a proposal

	mu    sync.Mutex
	types map[string]*jsonschema.Schema
}

// resultTypes names the type of the result of a request. tools/call with a task is answered by
// CreateTaskResult, tasks/result by what the task's own request would have got.
var resultTypes = map[string]string{
	"initialize":       "InitializeResult",
	"ping":             "EmptyResult",
	"logging/setLevel": "EmptyResult",
	"tools/list":       "ListToolsResult",
	"tools/call":       "CallToolResult",
	"tasks/get":        "GetTaskResult",
	"tasks/result":     "CallToolResult",
	"tasks/list":       "ListTasksResult",
	"tasks/cancel":     "CancelTaskResult",
	"resources/list":   "ListResourcesResult",

	"resources/read":        "ReadResourceResult",
	"resources/subscribe":   "EmptyResult",
	"resources/unsubscribe": "EmptyResult",
}

var schemas = struct {
	mu        sync.Mutex
	byVersion map[string]*schema
}{byVersion: map[string]*schema{}}

// schemaOf returns the schema of a version.
func schemaOf(t testing.TB, version string) *schema {
	t.Helper()
	schemas.mu.Lock()
	defer schemas.mu.Unlock()
	if s := schemas.byVersion[version]; s != nil {
		return s
	}
	s, err := loadSchema(version)
	if err != nil {
		t.Fatalf("loading the schema of %s: %v", version, err)
	}
	schemas.byVersion[version] = s
	return s
}

func loadSchema(version string) (*schema, error) {
	s := &schema{version: version, compiler: jsonschema.NewCompiler(), types: map[string]*jsonschema.Schema{},
		notifications: map[string]string{}, requests: map[string]string{}, elsewhere: map[string]string{}}
	doc, err := readJSON(filepath.Join("testdata", "schema", version, "schema.json"))
	if err != nil {
		return nil, err
	}
	key := "definitions"
	if _, ok := doc["$defs"]; ok {
		key = "$defs"
	}
	defs := doc[key].(map[string]any)
	s.pointer = schemaURL(version) + "#/" + key + "/"
	for _, union := range []struct {
		name string
		into map[string]string
	}{{"ServerNotification", s.notifications}, {"ServerRequest", s.requests}} {
		for _, name := range alternatives(defs[union.name]) {
			union.into[constOf(defs[name], "method")] = name
		}
	}
	if version == newestStateless {
		openMeta(defs)
	}
	closeTypes(defs)
	addPartialResult(defs)
	if version == newestStateless {
		if err := s.addExtensions(defs); err != nil {
			return nil, err
		}
	}
	if version == newestHandshake {
		// SEP-2679 2.1 and 3 add these two members to 2025-11-25, SEP-1905 ("Server Capabilities") the third.
		member(defs, "ServerCapabilities",
			"tasks")["streaming"] = closed(map[string]any{"partial": map[string]any{"type": "object"}})
		member(defs, "ToolExecution")["streamPartial"] = map[string]any{"type": "boolean"}
		member(defs, "ServerCapabilities", "tasks")["responses"] = closed(map[string]any{
			"modes": map[string]any{"type": "array",
				"items": map[string]any{"$ref": schemaURL("sep-1905") + "#/$defs/ResponseMode"}}})
		addSegment(defs)
		for sep, types := range proposals {
			doc, err := readJSON(filepath.Join("testdata", "schema", sep, "schema.json"))
			if err != nil {
				return nil, err
			}
			types1905(doc["$defs"].(map[string]any), version)
			closeTypes(doc["$defs"].(map[string]any))
			if err := s.compiler.AddResource(schemaURL(sep), doc); err != nil {
				return nil, err
			}
			for _, typ := range types {
				s.elsewhere[typ] = schemaURL(sep) + "#/$defs/"
			}
		}
		s.notifications[partialMethod] = "TaskPartialNotification"
	}
	return s, s.compiler.AddResource(schemaURL(version), doc)
}

// proposals are the schemas beside the versions', with the types that messages are checked against.
var proposals = map[string][]string{
	"sep-2679": {"TaskPartialNotification"},
	"sep-1905": {streamingResult, failedStream},
}

const (
	streamingResult = "StreamingResult"
	failedStream    = "FailedStream"
)

func closed(properties map[string]any, required ...any) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "required": required,
		"additionalProperties": false}
}

// types1905 adds to the types of SEP-1905 what closed types need.
func types1905(defs map[string]any, version string) {
	streaming, ok := defs[streamingResult].(map[string]any)
	if !ok {
		return
	}
	defs["Segment"] = map[string]any{"$ref": schemaURL(version) + "#/$defs/Segment"}
	defs[failedStream] = failedStreamType(version)
	for _, named := range streaming["anyOf"].([]any) {
		named.(map[string]any)["additionalProperties"] = true // it only says which members there must be
	}
}

// failedStreamType is the last response of a stream that failed before it had a segment (SEP-1905, "Streaming
// Behavior": "standard content format with the error message").
func failedStreamType(version string) map[string]any {
	always := map[string]any{"const": true}
	return closed(map[string]any{
		"content": map[string]any{"type": "array",
			"items": map[string]any{"$ref": schemaURL(version) + "#/$defs/ContentBlock"}},
		"isError": always, "isComplete": always,
		"task":  map[string]any{"$ref": schemaURL(version) + "#/$defs/Task"},
		"_meta": map[string]any{"type": "object", "required": []any{"io.modelcontextprotocol/related-task"}},
	}, "content", "isError", "isComplete", "_meta")
}

// addPartialResult adds what PR #383 adds to a progress notification. Its content is a result's.
func addPartialResult(defs map[string]any) {
	params := defs["ProgressNotification"].(map[string]any)["properties"].(map[string]any)["params"].(map[string]any)
	if ref, ok := params["$ref"].(string); ok {
		params = defs[path.Base(ref)].(map[string]any)
	}
	flag := map[string]any{"type": "boolean"}
	params["properties"].(map[string]any)["partialResult"] = closed(map[string]any{
		"chunk":  closed(map[string]any{"content": member(defs, "CallToolResult")["content"]}, "content"),
		"append": flag, "lastChunk": flag,
	}, "chunk", "append", "lastChunk")
}

// addSegment adds SEP-1905's "valid ContentBlock with an additional required seqNr": closed types cannot be
// put together with allOf.
func addSegment(defs map[string]any) {
	var kinds []any
	for _, name := range alternatives(defs["ContentBlock"]) {
		kind := maps.Clone(defs[name].(map[string]any))
		properties := maps.Clone(kind["properties"].(map[string]any))
		properties["seqNr"] = map[string]any{"type": "integer", "minimum": 1}
		required, _ := kind["required"].([]any)
		kind["properties"], kind["required"] = properties, append(slices.Clone(required), "seqNr")
		kinds = append(kinds, kind)
	}
	defs["Segment"] = map[string]any{"anyOf": kinds}
}

// schemaURL keeps the folders apart as the relative references of sep-2679 expect it.
func schemaURL(version string) string { return "file:///schema/" + version + "/schema.json" }

func readJSON(file string) (map[string]any, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return v.(map[string]any), nil
}

// closeTypes makes every object of the types closed where its schema does not say that it is open.
func closeTypes(defs map[string]any) {
	for _, def := range defs {
		def, _ := def.(map[string]any)
		if parts, ok := def["allOf"].([]any); ok {
			flatten(defs, def, parts)
		}
	}
	// Result is open in the schema because every result extends it; by itself it is the empty result.
	if result, ok := defs["Result"].(map[string]any); ok {
		delete(result, "additionalProperties")
	}
	for name, def := range defs {
		closeObjects(def)
		if name == "Tool" {
			for _, schema := range []string{"inputSchema", "outputSchema"} {
				if p, ok := def.(map[string]any)["properties"].(map[string]any)[schema].(map[string]any); ok {
					p["additionalProperties"] = true // a tool's schema may use all of JSON Schema
				}
			}
		}
		if constOf(def, "method") != "" {
			// Up to 2025-06-18 the types of messages leave the envelope out.
			p := def.(map[string]any)["properties"].(map[string]any)
			for _, m := range []string{"jsonrpc", "id"} {
				if _, ok := p[m]; !ok {
					p[m] = true
				}
			}
		}
	}
}

// flatten makes one object of a type that is put together with allOf: closed parts would exclude each other.
func flatten(defs, def map[string]any, parts []any) {
	properties, required := map[string]any{}, []any{}
	for _, part := range parts {
		part := part.(map[string]any)
		if ref, ok := part["$ref"].(string); ok {
			part = defs[path.Base(ref)].(map[string]any)
		}
		p, _ := part["properties"].(map[string]any)
		maps.Copy(properties, p)
		r, _ := part["required"].([]any)
		for _, name := range r {
			if !slices.Contains(required, name) {
				required = append(required, name)
			}
		}
	}
	delete(def, "allOf")
	def["type"] = "object"
	def["properties"] = properties
	def["required"] = required
}

func closeObjects(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			closeObjects(e)
		}
	case map[string]any:
		properties, isObject := v["properties"].(map[string]any)
		if _, says := v["additionalProperties"]; isObject && !says {
			v["additionalProperties"] = false
		}
		for key, e := range v {
			if key == "properties" {
				for _, p := range properties {
					closeObjects(p)
				}
			} else {
				closeObjects(e)
			}
		}
	}
}

// member descends through properties to the properties of a type's member.
func member(defs map[string]any, typ string, names ...string) map[string]any {
	p := defs[typ].(map[string]any)["properties"].(map[string]any)
	for _, name := range names {
		p = p[name].(map[string]any)["properties"].(map[string]any)
	}
	return p
}

func alternatives(union any) []string {
	var names []string
	u, _ := union.(map[string]any)
	list, _ := u["anyOf"].([]any)
	for _, e := range list {
		names = append(names, path.Base(e.(map[string]any)["$ref"].(string)))
	}
	return names
}

func constOf(def any, property string) string {
	d, _ := def.(map[string]any)
	p, _ := d["properties"].(map[string]any)
	m, _ := p[property].(map[string]any)
	c, _ := m["const"].(string)
	return c
}

// check validates a decoded value against a type of the version.
func (s *schema) check(typ string, v any) error {
	compiled, err := s.compiled(typ)
	if err != nil {
		return err
	}
	if err := compiled.Validate(v); err != nil {
		return fmt.Errorf("not valid as %s of %s: %w", typ, s.version, err)
	}
	return nil
}

// compiled is a type, compiled when it is first looked at. Sessions that are held against it do not wait for
// each other.
func (s *schema) compiled(typ string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	compiled := s.types[typ]
	if compiled == nil {
		pointer := s.pointer
		if other, ok := s.elsewhere[typ]; ok {
			pointer = other
		}
		var err error
		if compiled, err = s.compiler.Compile(pointer + typ); err != nil {
			return nil, err
		}
		s.types[typ] = compiled
	}
	return compiled, nil
}

// errorType is the type of an error response. One without an id is held against the version
// that allows it (and forbids null); older ones have no way to say it.
func (s *schema) errorType() string {
	if strings.HasPrefix(s.pointer, schemaURL(newestHandshake)) {
		return "JSONRPCErrorResponse"
	}
	return "JSONRPCError"
}

// The checks of all other tests stand on these schemas: they must see what they are there to see.
func TestSchemasAreClosed(t *testing.T) {
	result := func(s string) any {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(s))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}`
	const task = `"taskId":"a","status":"working","createdAt":"","lastUpdatedAt":"","ttl":null`
	for _, c := range []struct {
		version, typ, value string
		ok                  bool
	}{
		{"2024-11-05", "CallToolResult", `{"content":[{"type":"text","text":"a"}]}`, true},
		{"2024-11-05", "CallToolResult",
			`{"content":[{"type":"text","text":"a"}],"structuredContent":{}}`, false},
		{"2024-11-05", "CallToolResult", `{"content":[{"type":"text","text":"a","_meta":{}}]}`, false},
		{"2024-11-05", "EmptyResult", `{}`, true},
		{"2024-11-05", "EmptyResult", `{"ok":true}`, false},
		{"2024-11-05", "ProgressNotification",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
			true},
		{"2024-11-05", "ProgressNotification",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"a"}}`, false},
		{"2025-03-26", "ListToolsResult",
			`{"tools":[{"name":"a","inputSchema":{"type":"object","additionalProperties":false},"annotations":{"readOnlyHint":true}}]}`, true},
		{"2025-03-26", "ListToolsResult",
			`{"tools":[{"name":"a","title":"A","inputSchema":{"type":"object"}}]}`, false},
		{"2025-06-18", "ListToolsResult",
			`{"tools":[{"name":"a","title":"A","inputSchema":{"type":"object"},"execution":{}}]}`, false},
		{newestHandshake, "ListToolsResult",
			`{"tools":[{"name":"a","title":"A","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional","streamPartial":true}}]}`, true},
		{newestHandshake, "GetTaskResult", `{` + task + `}`, true},
		{newestHandshake, "GetTaskResult", `{` + task + `,"owner":"a"}`, false},
		{newestHandshake, "TaskPartialNotification",
			`{"jsonrpc":"2.0","method":"notifications/tasks/partial","params":{"taskId":"a","seq":0,"content":[{"type":"text","text":"a"}]}}`, true},
		{newestHandshake, "TaskPartialNotification",
			`{"jsonrpc":"2.0","method":"notifications/tasks/partial","params":{"taskId":"a","seq":0,"content":[]}}`, false},
		{newestHandshake, streamingResult,
			`{"partial-content":[{"seqNr":1,"type":"text","text":"a"}],"isError":false,"isComplete":false,` +
				related + `}`, true},
		{newestHandshake, streamingResult,
			`{"partial-content":[{"type":"text","text":"a"}],"isComplete":false,` + related + `}`, false},
		{newestHandshake, streamingResult,
			`{"partial-content":[{"seqNr":0,"type":"text","text":"a"}],"isComplete":false,` + related + `}`,
			false},
		{newestHandshake, streamingResult,
			`{"partial-content":[{"seqNr":1,"type":"text","text":"a","more":1}],"isComplete":false,` +
				related + `}`, false},
		{newestHandshake, streamingResult, `{"partial-content":[],"isComplete":false}`, false},
		{newestHandshake, streamingResult,
			`{"partial-content":[],"isComplete":true,"content":[],` + related + `}`, false},
		{newestHandshake, failedStream,
			`{"content":[{"type":"text","text":"a"}],"isError":true,"isComplete":true,` + related + `}`,
			true},
		{newestHandshake, failedStream,
			`{"content":[{"type":"text","text":"a"}],"isError":false,"isComplete":true,` + related + `}`,
			false},
		{"2024-11-05", "ProgressNotification",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"partialResult":{"chunk":{"content":[{"type":"text","text":"a"}]},"append":false,"lastChunk":false}}}`, true},
		{"2024-11-05", "ProgressNotification",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"partialResult":{"chunk":{},"append":false,"lastChunk":false}}}`, false},
		{newestHandshake, "ProgressNotification",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"partialResult":{"chunk":{"content":[]},"append":true,"lastChunk":true}}}`, true},
		{newestHandshake, "ProgressNotification",
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"partialResult":{"chunk":{"content":[]},"append":true}}}`, false},
	} {
		if err := schemaOf(t, c.version).check(c.typ, result(c.value)); (err == nil) != c.ok {
			t.Errorf("%s %s %s: %v", c.version, c.typ, c.value, err)
		}
	}
}
