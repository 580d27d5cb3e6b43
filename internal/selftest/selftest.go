package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools"
)

// Tools returns the tools that "runnel serve --selftest" offers. The names that begin with test_ are those of
// the conformance suite.
func Tools() []tools.Tool {
	return []tools.Tool{
		written("echo", "Returns its text.", mcp.TaskOptional, `"text":{"type":"string"}`, `"text"`,
			typed(echo)),
		written("stream", "Writes count chunks of one line each.", mcp.TaskOptional,
			`"count":{"type":"integer","description":"how many chunks"},`+
				`"bytes":{"type":"integer","description":"bytes of a chunk, its newline included; at least 14; default 50"},`+
				`"intervalMs":{"type":"integer","description":"milliseconds before each chunk but the first; chunks then carry their time"}`, `"count"`, typed(stream)).Streams(),
		written("sleep", "Does nothing for some time.", mcp.TaskOptional,
			`"ms":{"type":"integer","description":"milliseconds"}`, `"ms"`, typed(sleep)),
		written("fail", "Fails, after some chunks of output.", mcp.TaskOptional,
			`"afterChunks":{"type":"integer","description":"chunks to write before"},`+
				`"intervalMs":{"type":"integer","description":"milliseconds before each chunk but the first"},`+
				`"message":{"type":"string","description":"what the error says"},`+
				`"protocol":{"type":"boolean","description":"fail with a JSON-RPC error, not a tool error"}`,
			`"message"`, typed(fail)).Streams(),
		written("panic", "Panics.", mcp.TaskOptional, "",
			"", func(context.Context, *tools.Call, *tools.Output) (*mcp.CallToolResult, error) {
				panic("the self-test tool panic was called")
			}),
		written("ask", "Asks the user a question.", mcp.TaskOptional,
			`"message":{"type":"string"},"delayMs":{"type":"integer","description":"how long it works before it asks"}`, `"message"`, ask),
		written("blob", "Returns an image of some bytes.", mcp.TaskOptional,
			`"bytes":{"type":"integer","description":"bytes of the image before it is encoded, 716800 at most"}`, `"bytes"`, typed(blob)).Streams(),
		fixture("test_simple_text", "a text.", mcp.TaskOptional, "",
			"", func(context.Context, *tools.Call, *tools.Output) (*mcp.CallToolResult, error) {
				return mcp.Result("This is a simple text response for testing."), nil
			}),
		fixture("test_error_handling", "a tool error.", mcp.TaskOptional, "",
			"", func(context.Context, *tools.Call, *tools.Output) (*mcp.CallToolResult, error) {
				return mcp.ErrorResult("This tool intentionally returns an error for testing"), nil
			}),
		fixture("test_tool_with_progress", "progress 0, 50, 100 of 100.", mcp.TaskOptional, "", "",
			testProgress),
		fixture("greet", "Greets by name.", mcp.TaskForbidden, `"name":{"type":"string"}`, `"name"`,
			typed(greet)),
		fixture("slow_compute", "Computes for some seconds.", mcp.TaskOptional,
			`"seconds":{"type":"number"},"label":{"type":"string"}`, `"seconds"`, typed(slowCompute)),
		fixture("failing_job", "Fails with a tool error after a second.", mcp.TaskRequired, "", "",
			failingJob),
		fixture("protocol_error_job", "Fails with a JSON-RPC error.", mcp.TaskRequired, "", "",
			protocolErrorJob),
		fixture("confirm_delete", "Asks before it deletes (nothing).", mcp.TaskRequired,
			`"filename":{"type":"string"}`, `"filename"`, confirmDelete),
		fixture("multi_input", "Asks two questions at once.", mcp.TaskRequired, "", "", multiInput),
		fixture("test_tool_with_task", "Asks for a name, then works as a task.", mcp.TaskOptional, "", "",
			testToolWithTask),
	}
}

func echo(_ context.Context, in struct {
	Text string `json:"text"`
}, _ *tools.Output) (*mcp.CallToolResult, error) {
	return mcp.Result(in.Text), nil
}

type streamInput struct {
	Count      int `json:"count"`
	Bytes      int `json:"bytes,omitempty"`
	IntervalMs int `json:"intervalMs,omitempty"`
}

// minChunk is the length of a chunk's head and newline: "chunk 000123 \n".
const minChunk = 14

// maxChunk bounds one write.
const maxChunk = 16 << 20

func stream(ctx context.Context, in streamInput, out *tools.Output) (*mcp.CallToolResult, error) {
	if in.Bytes == 0 {
		in.Bytes = 50
	}
	if in.Bytes < minChunk || in.Bytes > maxChunk {
		return nil, fmt.Errorf("argument \"bytes\": must be %d to %d", minChunk, maxChunk)
	}
	if in.Count < 0 {
		return nil, errors.New("argument \"count\": must be 0 or more")
	}
	line := make([]byte, 0, max(in.Bytes, 64))
	// look is how many chunks come between two looks at ctx, which a stream that never waits would miss
	// otherwise.
	const look = 1024
	for i := range in.Count {
		switch {
		case i > 0 && in.IntervalMs > 0:
			if err := wait(ctx, in.IntervalMs); err != nil {
				return nil, err
			}
		case i%look == 0 && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		line = appendChunk(line[:0], i, in)
		if _, err := out.Write(line); err != nil {
			return nil, err
		}
	}
	return mcp.Result(fmt.Sprintf("streamed %d chunks", in.Count)), nil
}

// appendChunk appends chunk i, "chunk 000123 xxx…\n", which has in.Bytes bytes, or more if its head is
// longer.
func appendChunk(line []byte, i int, in streamInput) []byte {
	line = append(line, "chunk "...)
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], int64(i), 10)
	line = append(line, "000000"[min(len(number), 6):]...)
	line = append(line, number...)
	if in.IntervalMs > 0 {
		line = append(line, " t="...)
		line = strconv.AppendInt(line, time.Now().UnixNano(), 10)
	}
	if len(line) < in.Bytes-1 {
		line = append(line, ' ')
	}
	const xs = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	for len(line) < in.Bytes-1 {
		line = append(line, xs[:min(in.Bytes-1-len(line), len(xs))]...)
	}
	return append(line, '\n')
}

func sleep(ctx context.Context, in struct {
	Ms int `json:"ms"`
}, _ *tools.Output) (*mcp.CallToolResult, error) {
	if err := wait(ctx, in.Ms); err != nil {
		return nil, err
	}
	return mcp.Result(fmt.Sprintf("slept %d ms", in.Ms)), nil
}

func fail(ctx context.Context, in struct {
	AfterChunks int    `json:"afterChunks,omitempty"`
	IntervalMs  int    `json:"intervalMs,omitempty"`
	Message     string `json:"message"`
	Protocol    bool   `json:"protocol,omitempty"`
}, out *tools.Output) (*mcp.CallToolResult, error) {
	if _, err := stream(ctx, streamInput{Count: in.AfterChunks, IntervalMs: in.IntervalMs}, out); err != nil {
		return nil, err
	}
	if in.Protocol {
		return nil, rpc.Errorf(mcp.CodeInternalError, "%s", in.Message)
	}
	return mcp.ErrorResult(in.Message), nil
}

// maxBlob is the longest blob whose base64 fits into a line, in bytes.
const maxBlob = (mcp.MaxContent - 1<<10) / 4 * 3

func blob(_ context.Context, in struct {
	Bytes int `json:"bytes"`
}, out *tools.Output) (*mcp.CallToolResult, error) {
	if in.Bytes < 0 || in.Bytes > maxBlob {
		return nil, fmt.Errorf("argument \"bytes\": must be 0 to %d", maxBlob)
	}
	data := []byte(strings.Repeat("runnel", in.Bytes/6+1))[:in.Bytes]
	image := mcp.Image(data, "image/png")
	if err := out.Content(image); err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{image}}, nil
}

func ask(ctx context.Context, call *tools.Call, _ *tools.Output) (*mcp.CallToolResult, error) {
	var in struct {
		Message string
		DelayMs int
	}
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	if err := wait(ctx, in.DelayMs); err != nil {
		return nil, err
	}
	answer, err := question(ctx, call, in.Message, "answer", "string")
	switch {
	case err != nil:
		return nil, err
	case answer.Action == mcp.ElicitAccept:
		var content struct{ Answer string }
		if err := json.Unmarshal(answer.Content, &content); err != nil {
			return nil, fmt.Errorf("reading the answer: %w", err)
		}
		return mcp.Result("accepted: " + content.Answer), nil
	case answer.Action == mcp.ElicitDecline:
		return mcp.Result("declined"), nil
	}
	return mcp.Result("cancelled"), nil
}

func testProgress(ctx context.Context, _ *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
	for done := 0.0; done <= 100; done += 50 {
		if done > 0 {
			if err := wait(ctx, 50); err != nil {
				return nil, err
			}
		}
		out.Progress(done, 100, "")
	}
	return mcp.Result("progress reported"), nil
}

// written makes a tool with a written input schema. Func would infer it from a struct, which took a tenth of
// a start for the tools of this package.
func written(name, description string, support mcp.TaskSupport, properties, required string,
	do do) *tools.Function {
	return &tools.Function{
		Tool: mcp.Tool{
			Name:        name,
			Description: description,
			InputSchema: tools.ObjectSchema(properties, required),
			Execution:   &mcp.ToolExecution{TaskSupport: support},
		},
		Do: do,
	}
}

// do is the function of a tool.
type do = func(context.Context, *tools.Call, *tools.Output) (*mcp.CallToolResult, error)

// typed makes the function of a tool from one that takes the decoded arguments.
func typed[In any](f func(context.Context, In, *tools.Output) (*mcp.CallToolResult, error)) do {
	return func(ctx context.Context, call *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
		var in In
		if err := call.Decode(&in); err != nil {
			return nil, err
		}
		return f(ctx, in, out)
	}
}

// soon is how long a cancelled tool may go on without anybody noticing.
const soon = 50 * time.Millisecond

// wait waits for some milliseconds, or until ctx ends. A short time is slept: waiting for two things takes a
// timer and two channels, which was a tenth of the cost of a chunk with a thousand tasks that write one now
// and then.
func wait(ctx context.Context, ms int) error {
	d := min(time.Duration(ms), math.MaxInt64/time.Millisecond) * time.Millisecond
	if d <= soon {
		time.Sleep(d)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
