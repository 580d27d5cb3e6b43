package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// newestStateless is the version of the stateless era.
const newestStateless = "2026-07-28"

// extensionTypes are the types of the tasks extension that messages are checked against, as published: open.
var extensionTypes = []string{"CreateTaskResult", "GetTaskResult", "UpdateTaskResult", "CancelTaskResult",
	"TaskStatusNotification"}

// The closed types of the tasks extension, of 2026-07-28 with it, and of SEP-2998.
const (
	closedTask         = "ClosedTask"         // GetTaskResult
	closedNotification = "ClosedNotification" // TaskStatusNotification
	closedCreated      = "ClosedCreated"      // CreateTaskResult
	subscribedPartial  = "ModernTaskPartialNotification"
	partialToolResult  = "PartialToolResultNotification"
)

// openMeta keeps _meta open, where closing the types would close it.
func openMeta(defs map[string]any) {
	for name, def := range defs {
		if strings.HasSuffix(name, "MetaObject") {
			def.(map[string]any)["additionalProperties"] = true
		}
	}
	// The errors with data of their own are put together with allOf.
	for _, name := range []string{"MissingRequiredClientCapabilityError", "UnsupportedProtocolVersionError"} {
		e := member(defs, name)["error"].(map[string]any)
		flatten(defs, e, e["allOf"].([]any)) // in this order: the data of the second part is the narrower one
	}
}

// addExtensions adds to the closed types of 2026-07-28 those of the tasks extension, of SEP-2679 carried over
// to subscriptions and of SEP-2998.
func (s *schema) addExtensions(defs map[string]any) error {
	member(defs, "SubscriptionFilter")["taskIds"] = map[string]any{"type": "array",
		"items": map[string]any{"type": "string"}}
	ref := func(name string) map[string]any { return map[string]any{"$ref": s.pointer + name} }
	text, integer := map[string]any{"type": "string"}, map[string]any{"type": "integer"}
	is := func(v string) map[string]any { return map[string]any{"const": v} }
	task := func(status, extra string, as any, more map[string]any) map[string]any {
		properties := map[string]any{"taskId": text, "status": is(status), "statusMessage": text,
			"createdAt": text, "lastUpdatedAt": text,
			"ttlMs": map[string]any{"type": []any{"integer", "null"}}, "pollIntervalMs": integer}
		required := []any{"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"}
		if extra != "" {
			properties[extra] = as
			required = append(required, extra)
		}
		for name, p := range more {
			properties[name] = p
			required = append(required, name)
		}
		return closed(properties, required...)
	}
	detailed := func(more map[string]any) map[string]any {
		return map[string]any{"anyOf": []any{
			task("working", "", nil, more),
			task("input_required", "inputRequests", ref("InputRequests"), more),
			task("completed", "result", ref("CallToolResult"), more),
			task("failed", "error", ref("Error"), more),
			task("cancelled", "", nil, more),
		}}
	}
	defs[closedTask] = detailed(map[string]any{"resultType": is("complete"),
		"_meta": ref("ResultMetaObject")})
	defs[closedCreated] = task("working", "", nil,
		map[string]any{"resultType": is("task"), "_meta": ref("ResultMetaObject")})
	notification := func(method string, params map[string]any) map[string]any {
		return closed(map[string]any{"jsonrpc": is("2.0"), "method": is(method), "params": params}, "jsonrpc",
			"method", "params")
	}
	defs[closedNotification] = notification("notifications/tasks",
		detailed(map[string]any{"_meta": ref("NotificationMetaObject")}))
	defs[partialToolResult] = notification("notifications/tools/partial_result", closed(map[string]any{
		"partialResultToken": ref("ProgressToken"), "seq": map[string]any{"type": "integer", "minimum": 0},
		"content": member(defs, "CallToolResult")["content"], "final": map[string]any{"type": "boolean"},
	}, "partialResultToken", "seq", "content", "final"))

	extension, err := readJSON(filepath.Join("testdata", "schema", "ext-tasks", "schema.json"))
	if err != nil {
		return err
	}
	url := extension["$id"].(string)
	if err := s.compiler.AddResource(url, extension); err != nil {
		return err
	}
	for _, typ := range extensionTypes {
		s.elsewhere[typ] = url + "#/$defs/"
	}
	partials, err := readJSON(filepath.Join("testdata", "schema", "sep-2679", "schema.json"))
	if err != nil {
		return err
	}
	closeTypes(partials["$defs"].(map[string]any))
	s.elsewhere[subscribedPartial] = schemaURL("sep-2679") + "#/$defs/"
	member(partials["$defs"].(map[string]any), subscribedPartial,
		"params")["_meta"].(map[string]any)["additionalProperties"] = true
	s.notifications["notifications/tasks"] = closedNotification
	s.notifications["notifications/tools/partial_result"] = partialToolResult
	s.notifications[partialMethod] = subscribedPartial
	return s.compiler.AddResource(schemaURL("sep-2679"), partials)
}

func TestStatelessSchemasAreClosed(t *testing.T) {
	const (
		task = `"taskId":"a","status":"working","createdAt":"","lastUpdatedAt":"","ttlMs":null`
		done = `"taskId":"a","status":"completed","createdAt":"","lastUpdatedAt":"","ttlMs":1`
		meta = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a","version":"1"}}`
		on   = `"_meta":{"io.modelcontextprotocol/subscriptionId":1}`
	)
	for _, c := range []struct {
		typ, value string
		ok         bool
	}{
		{"CallToolResult", `{"resultType":"complete","content":[]}`, true},
		{"CallToolResult", `{"content":[]}`, false},
		{"CallToolResult", `{"resultType":"complete","content":[],"task":{}}`, false},
		{"EmptyResult", `{"resultType":"complete",` + meta + `}`, true},
		{"EmptyResult", `{"resultType":"complete","ok":true}`, false},
		{"ListToolsResult", `{"resultType":"complete","ttlMs":1,"cacheScope":"public","tools":[{"name":"a","inputSchema":{"type":"object"}}]}`, true},
		{"ListToolsResult", `{"resultType":"complete","tools":[]}`, false},
		{"ListToolsResult", `{"resultType":"complete","ttlMs":1,"cacheScope":"public","tools":[{"name":"a","inputSchema":{"type":"object"},"execution":{}}]}`, false},
		{"DiscoverResult", `{"resultType":"complete","ttlMs":1,"cacheScope":"public","supportedVersions":[],"capabilities":{"extensions":{"a/b":{}}}}`, true},
		{"DiscoverResult", `{"resultType":"complete","ttlMs":1,"cacheScope":"public","supportedVersions":[],"capabilities":{"tasks":{}}}`, false},
		{"GetTaskResult", `{"resultType":"complete",` + task + `}`, true},
		{"GetTaskResult", `{"resultType":"complete","taskId":"a"}`, false},
		{closedTask, `{"resultType":"complete",` + task + `,` + meta + `}`, true},
		{closedTask, `{"resultType":"task",` + task + `,` + meta + `}`, false},
		{closedTask, `{"resultType":"complete",` + task + `,` + meta + `,"ttl":1}`, false},
		{closedTask, `{"resultType":"complete",` + done + `,` + meta +
			`,"result":{"resultType":"complete","content":[]}}`, true},
		{closedTask, `{"resultType":"complete",` + done + `,` + meta + `,"result":{"content":[]}}`, false},
		{closedTask, `{"resultType":"complete",` + done + `,` + meta + `}`, false},
		{closedCreated, `{"resultType":"task",` + task + `,` + meta + `}`, true},
		{closedNotification, `{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + task + `,` + on +
			`}}`, true},
		{closedNotification, `{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + task + `}}`,
			false},
		{closedNotification, `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"resultType":"complete",` + task + `,` + on + `}}`, false},
		{subscribedPartial, `{"jsonrpc":"2.0","method":"notifications/tasks/partial","params":{"taskId":"a","seq":0,"content":[{"type":"text","text":"a"}],` + on + `}}`, true},
		{subscribedPartial, `{"jsonrpc":"2.0","method":"notifications/tasks/partial","params":{"taskId":"a","seq":0,"content":[{"type":"text","text":"a"}]}}`, false},
		{partialToolResult, `{"jsonrpc":"2.0","method":"notifications/tools/partial_result","params":{"partialResultToken":"a","seq":0,"content":[],"final":true}}`, true},
		{"MissingRequiredClientCapabilityError",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"a","data":{"requiredCapabilities":{"extensions":{"a/b":{}}}}}}`, true},
		{"MissingRequiredClientCapabilityError",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"a"}}`, false},
		{"UnsupportedProtocolVersionError",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"a","data":{"supported":["b"],"requested":"c"}}}`, true},
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(c.value))
		if err != nil {
			t.Fatal(err)
		}
		if err := schemaOf(t, newestStateless).check(c.typ, v); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.typ, c.value, err)
		}
	}
}
