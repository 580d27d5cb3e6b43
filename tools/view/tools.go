package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/logs"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/view/page"
)

// Installed is a host that starts runnel, and the file that says so.
type Installed struct {
	Host string `json:"host"`
	File string `json:"file"`
}

// Session is a session of runnel that a host has open.
type Session struct {
	Host  string    `json:"host"`
	Dir   string    `json:"dir"`
	Since time.Time `json:"since"`
}

// Hosts is what the view shows of hosts.
type Hosts struct {
	Installed []Installed
	Sessions  []Session
}

// App returns the live view of a runner's tasks. hosts finds the hosts that the view shows; nil = none.
func App(runner *run.Runner, hosts func() Hosts) *tools.App {
	v := &view{runner: runner, hosts: hosts}
	const taskID = `"taskId":{"type":"string"}`
	const position = `{"type":"integer","minimum":0}`
	return &tools.App{Page: resource, Tools: []tools.Tool{
		tool("view_tasks", "List tasks, the newest first.",
			fmt.Sprintf(`"cursor":{"type":"string"},"max":{"type":"integer","minimum":1,"maximum":%d},"ids":{"type":"array","items":{"type":"string"},"maxItems":%[1]d}`, maxListPage),
			"", v.tasks),
		tool("view_task", "Get a task.", taskID, `"taskId"`, v.task),
		tool("view_mine", "Find the task of a call that this client has made.",
			`"tool":{"type":"string"},"arguments":{"type":"object"}`, "", v.mine),
		tool("view_output", "Read the output of a task from a position on, or before one, and wait for news.",
			fmt.Sprintf(`%s,"after":%s,"before":%[2]s,"maxBytes":{"type":"integer","minimum":1024,"maximum":%d},"waitMs":{"type":"integer","minimum":0,"maximum":%d}`,
				taskID, position, maxOutput, maxWait.Milliseconds()), `"taskId"`, v.output),
		tool("view_search", "Find the lines of a task's output that match a regular expression (RE2).",
			fmt.Sprintf(`%s,"pattern":{"type":"string","minLength":1,"maxLength":%d},"after":%s,"max":{"type":"integer","minimum":1,"maximum":%d}`,
				taskID, maxPattern, position, maxMatches), `"taskId","pattern"`, v.search),
		tool("view_history", "List the last runs of a tool.", `"tool":{"type":"string"}`, `"tool"`,
			v.history),
		tool("view_times", "Get when the output of a task came, as pairs of milliseconds since its beginning and bytes.", taskID, `"taskId"`, v.times),
		tool("view_screen", "Show the screen of a task's terminal, and wait for news.",
			fmt.Sprintf(`%s,"after":%s,"waitMs":{"type":"integer","minimum":0,"maximum":%d}`, taskID,
				position, maxWait.Milliseconds()), `"taskId"`, v.screen),
		tool("view_type", "Type into a task's terminal, as a person: keys, and then a text.",
			fmt.Sprintf(`%s,"keys":{"type":"array","items":{"type":"string"},"maxItems":%d},"text":{"type":"string","maxLength":%d}`,
				taskID, maxKeys, maxTyped), `"taskId"`, v.typeInto),
		tool("view_files", "List the files that a task has made.", taskID, `"taskId"`, v.files),
		tool("view_cancel", "Cancel a task.", taskID, `"taskId"`, v.cancel),
		tool("view_answer", "Answer the question that a task asks, as a person: yes or no.",
			taskID+`,"message":{"type":"string"},"yes":{"type":"boolean"}`, `"taskId","message","yes"`, v.answer),
		tool("view_tools", "List the tools that can be run, with their schemas.", "", "", v.tools),
		tool("view_run", "Run a tool as a task.", `"tool":{"type":"string"},"arguments":{"type":"object"}`,
			`"tool"`, v.run),
		tool("view_again", "Run the tool of a task again, with the same arguments.", taskID,
			`"taskId"`, v.again),
	}}
}

// tool makes a tool that only the page calls. The page reads the structured content.
func tool[P any](name, description, properties, required string,
	call func(ctx context.Context, in *tools.Call, p P) (any, error)) tools.Tool {
	return tools.FuncWith(mcp.Tool{
		Name:        name,
		Description: description,
		InputSchema: tools.ObjectSchema(properties, required),
		Execution:   &mcp.ToolExecution{TaskSupport: mcp.TaskForbidden},
	}, func(ctx context.Context, in *tools.Call, p P, _ *tools.Output) (*mcp.CallToolResult, error) {
		answer, err := call(ctx, in, p)
		if wire, ok := errors.AsType[*rpc.Error](tasks.WireError(err)); ok {
			return nil, errors.New(wire.Message) // the page shows it
		} else if err != nil {
			return nil, err
		}
		structured, ok := answer.(json.RawMessage)
		if !ok {
			structured = rawjson.Encode(answer)
		}
		return &mcp.CallToolResult{Content: []mcp.ContentBlock{mcp.Text("The structured content is for the live view.")}, StructuredContent: structured}, nil
	})
}

// URI identifies the page as a resource.
const URI = "ui://runnel/task"

// resource is the page as a resource, with a policy that forbids it to load anything.
var resource = logs.Page{
	Entry: mcp.Resource{
		URI:   URI,
		Name:  "task",
		Title: "Live view of a task",
		Description: "Shows a task's output while it comes, how the last runs ended, and lets its user " +
			"cancel it and run it again.",
		MimeType: mcp.AppType,
	},
	Contents: func() json.RawMessage {
		type csp struct { // "Empty or omitted = no external connections (secure default)"
			Connect  []string `json:"connectDomains"`
			Resource []string `json:"resourceDomains"`
			Frame    []string `json:"frameDomains"`
			BaseURI  []string `json:"baseUriDomains"`
		}
		type ui struct {
			CSP           csp  `json:"csp"`
			PrefersBorder bool `json:"prefersBorder"`
		}
		none := []string{}
		return rawjson.Encode(struct {
			URI      string        `json:"uri"`
			MimeType string        `json:"mimeType"`
			Text     string        `json:"text"`
			Meta     map[string]ui `json:"_meta"`
		}{URI, mcp.AppType, string(page.HTML()), map[string]ui{"ui": {csp{none, none, none, none}, true}}})
	},
}
