//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"runnel/rpc/mcp"
)

// dayTool is a tool as a host lists it, with the arguments that the day calls it with: without the optional
// ones, with all, and in between.
type dayTool struct {
	name      string
	arguments []string
}

// dayCall is one call of a tool by a host.
type dayCall struct {
	host      *dayHost
	marker    string // of the config
	tool      dayTool
	arguments string
	way       string
	number    int
	starts    int    // of the host's runnel, when the call was made
	id        string // of the task, "" if there is none or it is not told
	answered  string // the result, if there is no task
}

func (c *dayCall) String() string {
	return fmt.Sprintf("call %d of %v: %s %s, %s, task %q", c.number, c.host, c.tool.name, c.arguments,
		c.way, c.id)
}

const dayPoll = 50 * time.Millisecond

// list reads tools/list until it has what the config says, and holds that it is what it was under that
// config.
func (h *dayHost) list() {
	var text string
	var tools []dayTool
	for deadline := time.Now().Add(watchdog); ; time.Sleep(dayPoll) {
		text, tools = "", nil
		marked, missing := false, h.project.prefixes()
		for cursor := ""; ; {
			members := ""
			if cursor != "" {
				members = fmt.Sprintf(`"cursor":%q`, cursor)
			}
			var page struct {
				Tools []struct {
					Name        string
					InputSchema json.RawMessage
				}
				NextCursor string
			}
			raw := h.must("tools/list", members)
			if err := json.Unmarshal(raw, &page); err != nil {
				h.d.fail("%v: tools/list: %v", h, err)
				return
			}
			// for how long it may be kept depends on the servers that are wrapped.
			text += dayFresh.ReplaceAllString(string(raw), "")
			for _, tool := range page.Tools {
				marked = marked || tool.Name == h.project.marker
				missing = slices.DeleteFunc(missing,
					func(prefix string) bool { return strings.HasPrefix(tool.Name, prefix) })
				if !slices.Contains(dayFallback, tool.Name) {
					tools = append(tools, dayTool{tool.Name, dayArguments(tool.InputSchema)})
				} else if tool.Name == "start_task" {
					h.starter = true
				}
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if marked && len(missing) == 0 {
			break
		}
		if time.Now().After(deadline) {
			h.d.fail("%v: tools/list never has %s and %v: %s\n%s", h, h.project.marker, missing, text, h.log())
			return
		}
	}
	h.d.same(h.String(), h.profile.name+" tools/list "+h.project.marker, text)
	h.tools = tools
}

var dayFresh = regexp.MustCompile(`"ttlMs":\d+,?`)

var dayFallback = []string{"start_task", "get_task_result", "list_tasks", "cancel_task", "send_to_task"}

// dayArguments are objects that fit a schema.
func dayArguments(schema json.RawMessage) (list []string) {
	var s struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	_ = json.Unmarshal(schema, &s) // tools without input have no properties
	names := slices.Sorted(maps.Keys(s.Properties))
	for set := range 4 {
		var members []string
		for i, name := range names {
			if slices.Contains(s.Required, name) || set == 1 || set > 1 && (i+set)%2 == 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, dayValue(s.Properties[name], set+i)))
			}
		}
		list = append(list, "{"+strings.Join(members, ",")+"}")
	}
	return slices.Compact(list)
}

func dayValue(schema json.RawMessage, n int) string {
	var s struct {
		Type  any
		Enum  []json.RawMessage
		Items json.RawMessage
	}
	_ = json.Unmarshal(schema, &s)
	if len(s.Enum) > 0 {
		return string(s.Enum[n%len(s.Enum)])
	}
	switch s.Type {
	case "number":
		return "0.1" // seconds, of the tools that take any
	case "integer":
		return fmt.Sprint(20 + n%3)
	case "boolean":
		return fmt.Sprint(n%2 == 0)
	case "array":
		items := []string{}
		for i := range n % 3 {
			items = append(items, dayValue(s.Items, n+i))
		}
		return "[" + strings.Join(items, ",") + "]"
	case "object":
		return "{}"
	}
	return []string{`"a"`, `"two words"`, `"$(false) 'q' ü"`}[n%3]
}

// play makes a call and returns its result, comparable; ok is false if the server has ended.
func (c *dayCall) play() (result string, ok bool) {
	if !c.start() {
		return "", false
	}
	if c.id == "" {
		return c.answered, true
	}
	return c.wait()
}

// start makes a call, until there is an answer.
func (c *dayCall) start() bool {
	h := c.host
	call := fmt.Sprintf(`"name":%q,"arguments":%s`, c.tool.name, c.arguments)
	switch c.way {
	case "start_task":
		call = fmt.Sprintf(`"name":"start_task","arguments":{"tool":%q,"arguments":%s}`, c.tool.name,
			c.arguments)
	case "task":
		call += `,"task":` + h.profile.task
	}
	for more := ""; ; {
		id, got, gone := h.post("tools/call", h.profile.meta, call+more)
		a, err := h.await("tools/call", call+more, got, gone)
		if err != nil {
			return false
		}
		var r struct {
			ResultType    string
			TaskID        string
			Task          mcp.Task
			RequestState  json.RawMessage
			InputRequests map[string]struct{ Params json.RawMessage }
			Meta          struct {
				Related struct{ TaskID string }         `json:"io.modelcontextprotocol/related-task"`
				Ours    struct{ TaskID, Status string } `json:"runnel/task"`
			} `json:"_meta"`
		}
		if a.Error == nil {
			_ = json.Unmarshal(a.Result, &r) // what else it is stands in the comparison
		}
		if r.ResultType == "input_required" {
			more = fmt.Sprintf(`,"inputResponses":%s,"requestState":%s`, dayResponses(r.InputRequests),
				r.RequestState)
			continue
		}
		switch c.id = r.TaskID + r.Task.TaskID; {
		case c.way == "task" && c.id == "":
			c.id = r.Meta.Related.TaskID
		case r.Meta.Ours.Status == "working":
			if c.id = r.Meta.Ours.TaskID; c.way == "plain" {
				c.way = "handed over"
			}
		}
		if c.id != "" {
			h.d.count("handles", 1)
			if h.profile.listens && c.number%3 == 0 {
				// The audit reads what comes.
				h.post("subscriptions/listen", "", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, c.id))
			}
			return true
		}
		c.answered = h.d.comparable(a, h.chunksOf(id))
		return true
	}
}

func dayResponses(requests map[string]struct{ Params json.RawMessage }) string {
	responses := map[string]json.RawMessage{}
	for key, r := range requests {
		responses[key] = json.RawMessage(dayAnswer(r.Params))
	}
	return string(rawJSON(responses))
}

// wait waits for the end of a task as its host does, and returns the result.
func (c *dayCall) wait() (result string, ok bool) {
	h := c.host
	if c.way == "start_task" || c.way == "handed over" {
		return c.gather()
	}
	id, cutOff := fmt.Sprintf(`"taskId":%q`, c.id), false
	for deadline := time.Now().Add(watchdog); ; time.Sleep(dayPoll) {
		a, err := h.ask("tasks/get", "", id)
		if err != nil {
			return "", false
		}
		var task struct {
			mcp.Task
			InputRequests map[string]struct{ Params json.RawMessage }
			Result, Error json.RawMessage
		}
		if a.Error != nil {
			h.d.fail("%v: tasks/get: %+v", c, *a.Error)
			return "", false
		}
		if err := json.Unmarshal(a.Result, &task); err != nil {
			h.d.fail("%v: %v: %s", c, err, a.Result)
		}
		if len(task.InputRequests) > 0 {
			_, _ = h.ask("tasks/update", "",
				fmt.Sprintf(`%s,"inputResponses":%s`, id, dayResponses(task.InputRequests)))
		}
		if task.Status == mcp.TaskInputRequired && strings.Contains(task.StatusMessage, dayCutOff) && !cutOff {
			cutOff = true
			_, _ = h.ask("tasks/cancel", "", id)
		}
		if task.Status.Terminal() {
			status := task.Status
			if h.profile.stateless {
				result := h.d.comparable(answer{Result: task.Result}, string(task.Error))
				if strings.HasPrefix(result, "isError true") && status == mcp.TaskCompleted {
					status = mcp.TaskFailed // which is completed in this era
				}
				h.d.ended(c, string(status), task.StatusMessage)
				return result, !cutOff
			}
			h.d.ended(c, string(status), task.StatusMessage)
			a, err := h.ask("tasks/result", "", id)
			return h.d.comparable(a, ""), err == nil && !cutOff
		}
		if time.Now().After(deadline) {
			h.d.fail("%v: is %s, %q, after %v\n%s", c, task.Status, task.StatusMessage, watchdog, h.log())
			return "", false
		}
		if !h.profile.stateless && c.number%2 == 0 && task.Status == mcp.TaskWorking {
			_, _ = h.ask("tasks/result", "", id) // blocks until the end
		}
	}
}

// dayCutOff is part of the question whether a step that was cut off with its runnel runs again. Its user gives
// up such a call.
const dayCutOff = " was cut off while it ran."

var dayLastLine = regexp.MustCompile(`(?s)^(.*?)\n?\[([^\]\n]*)\]$`)

// gather fetches a task's output with get_task_result, in as many pieces as it comes in.
func (c *dayCall) gather() (result string, ok bool) {
	output, cutOff := "", false
	for deadline := time.Now().Add(watchdog); ; {
		a, err := c.host.ask("tools/call", "",
			fmt.Sprintf(`"name":"get_task_result","arguments":{"task_id":%q,"wait_ms":%d}`, c.id,
				1000*(c.number%10)))
		if err != nil {
			return "", false
		}
		var r struct {
			Content []struct{ Text string }
			Meta    struct {
				Ours struct{ Status string } `json:"runnel/task"`
			} `json:"_meta"`
		}
		if a.Error != nil || json.Unmarshal(a.Result, &r) != nil || len(r.Content) == 0 {
			c.host.d.fail("%v: get_task_result: %s %+v", c, a.Result, a.Error)
			return "", false
		}
		said, last := r.Content[0].Text, ""
		if m := dayLastLine.FindStringSubmatch(said); m != nil {
			said, last = m[1], m[2]
		}
		output += said + "\n"
		if r.Meta.Ours.Status == string(mcp.TaskInputRequired) && !cutOff &&
			strings.Contains(r.Content[0].Text, dayCutOff) {
			cutOff = true
			_, _ = c.host.ask("tools/call", "",
				fmt.Sprintf(`"name":"cancel_task","arguments":{"task_id":%q}`, c.id))
		}
		if status := r.Meta.Ours.Status; status != "working" && status != "input_required" {
			c.host.d.ended(c, status, last)
			for _, item := range r.Content[1:] {
				output += item.Text
			}
			if output = c.host.d.sideBySide(output); !strings.Contains(output, stepBegins) {
				// A line end stands before each last line, whether the piece has ended a line or not.
				output = strings.ReplaceAll(output, "\n", "")
			}
			return c.host.d.plain(output + "\n[" + last + "]"), !cutOff
		}
		if time.Now().After(deadline) {
			c.host.d.fail("%v: %s after %v", c, said, watchdog)
			return "", false
		}
		time.Sleep(dayPoll)
	}
}

// cancel cancels a task, twice, and returns how it has ended.
func (c *dayCall) cancel() bool {
	h := c.host
	for range 2 { // what has ended cannot be cancelled, which is said
		var err error
		if c.way == "start_task" || c.way == "handed over" {
			_, err = h.ask("tools/call", "",
				fmt.Sprintf(`"name":"cancel_task","arguments":{"task_id":%q}`, c.id))
		} else {
			_, err = h.ask("tasks/cancel", "", fmt.Sprintf(`"taskId":%q`, c.id))
		}
		if err != nil {
			return false
		}
	}
	_, ok := c.wait()
	return ok
}

// together makes calls side by side.
func (h *dayHost) together(calls []*dayCall) {
	var all sync.WaitGroup
	for _, c := range calls {
		all.Go(func() { h.make(c) })
	}
	all.Wait()
}

// make makes a call and holds its result against the first one.
func (h *dayHost) make(c *dayCall) {
	if result, ok := c.play(); ok {
		h.d.compare(c, result)
	}
}

func (h *dayHost) newCall(way string) *dayCall {
	tool := h.tools[h.rng.IntN(len(h.tools))]
	h.calls++
	h.d.count(h.profile.name, 1)
	return &dayCall{host: h, marker: h.project.marker, tool: tool,
		arguments: tool.arguments[h.rng.IntN(len(tool.arguments))], way: way, number: h.calls,
		starts: h.starts}
}

// some is a call in one of the ways that the host has.
func (h *dayHost) some() *dayCall {
	if way := h.byHandle(); way != "" && h.rng.IntN(2) == 0 {
		return h.newCall(way)
	}
	return h.newCall("plain")
}

// byHandle is how the host gets a handle, "" if it cannot have one.
func (h *dayHost) byHandle() string {
	switch {
	case h.profile.task != "":
		return "task"
	case h.starter:
		return "start_task"
	}
	return ""
}

// step is one thing that a host does.
func (h *dayHost) step() {
	const most = 4 // tasks that it leaves running, and calls side by side
	switch k := h.rng.IntN(20); {
	case k < 6:
		h.make(h.some())
	case k < 9:
		calls := []*dayCall{h.some()}
		for range h.rng.IntN(most) {
			next := *calls[0] // the same call, or another
			if h.rng.IntN(2) == 0 {
				next = *h.some()
			}
			calls = append(calls, &next)
		}
		h.together(calls)
	case k < 11:
		c := h.some()
		for range 3 {
			again := *c
			h.make(&again)
		}
	case k < 14:
		if c := h.some(); len(h.pending) < most && c.start() && c.id != "" {
			h.pending = append(h.pending, c)
		}
	case k < 16:
		h.collect(1)
	case k < 17:
		h.list()
	case k < 18:
		if c := h.some(); c.start() && c.id != "" && c.cancel() {
			h.d.count("cancels", 1)
		}
	case k < 19 && !h.profile.steady:
		kill := h.rng.IntN(2) == 0
		h.stop(kill)
		h.connect()
		h.list()
		h.d.count(map[bool]string{true: "kills", false: "ends of input"}[kill], 1)
	default:
		h.lists()
	}
}

// collect fetches what the host has left running, the oldest first.
func (h *dayHost) collect(n int) {
	for ; n > 0 && len(h.pending) > 0; n-- {
		c := h.pending[0]
		h.pending = h.pending[1:]
		if result, ok := c.wait(); ok {
			h.d.compare(c, result)
		}
	}
}

// lists looks for what it has left running in its own list of tasks.
func (h *dayHost) lists() {
	method, members := "tasks/list", ""
	switch {
	case h.starter:
		method, members = "tools/call", `"name":"list_tasks","arguments":{"all":true}`
	case h.profile.task == "":
		return // the era has no list
	}
	a, err := h.ask(method, "", members)
	if err != nil {
		return
	}
	if a.Error != nil {
		h.d.fail("%v: %s: %+v", h, method, *a.Error)
	}
}
