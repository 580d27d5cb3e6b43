// Jsonrpc2 is the least that one would write with sourcegraph/jsonrpc2 and its own stream.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

type pipes struct {
	io.Reader
	io.WriteCloser
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type result struct {
	Content []text `json:"content"`
}

type call struct {
	Name      string `json:"name"`
	Arguments struct {
		Text       string `json:"text"`
		Count      int    `json:"count"`
		IntervalMs int    `json:"intervalMs"`
	} `json:"arguments"`
}

type partial struct {
	TaskID  string `json:"taskId"`
	Content []text `json:"content"`
	Seq     int    `json:"seq"`
}

func main() {
	stream := jsonrpc2.NewBufferedStream(pipes{os.Stdin, os.Stdout}, jsonrpc2.PlainObjectCodec{})
	handler := jsonrpc2.AsyncHandler(jsonrpc2.HandlerWithError(handle))
	<-jsonrpc2.NewConn(context.Background(), stream, handler).DisconnectNotify()
}

func handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	switch r.Method {
	case "initialize":
		return json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"jsonrpc2","version":"1"}}`), nil
	case "ping":
		return struct{}{}, nil
	case "tools/call":
		var c call
		if err := json.Unmarshal(*r.Params, &c); err != nil {
			return nil, err
		}
		if c.Name == "stream" {
			return streamed(ctx, conn, r.ID.String(), &c)
		}
		return result{[]text{{"text", c.Arguments.Text}}}, nil
	}
	return nil, nil
}

func streamed(ctx context.Context, conn *jsonrpc2.Conn, id string, c *call) (any, error) {
	for i := range c.Arguments.Count {
		stamp := ""
		if c.Arguments.IntervalMs > 0 {
			if i > 0 {
				time.Sleep(time.Duration(c.Arguments.IntervalMs) * time.Millisecond)
			}
			stamp = fmt.Sprintf("t=%d ", time.Now().UnixNano())
		}
		chunk := fmt.Sprintf("chunk %06d %s%s\n", i, stamp, strings.Repeat("x", 36-len(stamp)))
		if err := conn.Notify(ctx, "notifications/tasks/partial",
			partial{id, []text{{"text", chunk}}, i}); err != nil {
			return nil, err
		}
	}
	return result{[]text{{"text", "done"}}}, nil
}
