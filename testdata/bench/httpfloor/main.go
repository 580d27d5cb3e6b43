// Httpfloor is the floor over HTTP: what net/http and the client leave room for. It is a program of its own,
// so that net/http does not weigh on the floor.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

const (
	head  = `{"jsonrpc":"2.0","id":`
	hello = `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"1"}}}`
	pong  = `,"result":{}}`
	echo  = `,"result":{"content":[{"type":"text","text":"hello"}]}}`
	block = 64 << 10

	progress = "event: message\ndata: " +
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1000000,"message":"chunk 000000 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"}}` + "\n\n"
	done = "event: message\ndata: " + `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n\n"
)

func main() {
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[2], http.HandlerFunc(serve)))
	os.Exit(1)
}

func serve(w http.ResponseWriter, r *http.Request) {
	line, _ := io.ReadAll(r.Body)
	id := member(line, `"id":`)
	result := echo
	switch {
	case id == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case bytes.Contains(line, []byte(`"initialize"`)):
		result = hello
		w.Header().Set("Mcp-Session-Id", "floor")
	case bytes.Contains(line, []byte(`"ping"`)):
		result = pong
	case bytes.Contains(line, []byte(`"stream"`)):
		w.Header().Set("Content-Type", "text/event-stream")
		count, _ := strconv.Atoi(string(member(line, `"count":`)))
		n := block / len(progress)
		lines := bytes.Repeat([]byte(progress), n)
		for ; count >= n; count -= n {
			_, _ = w.Write(lines)
		}
		_, _ = w.Write(append(lines[:count*len(progress)], done...))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(append([]byte(head), id...), result...))
}

// member is the value after name, up to the next comma or brace.
func member(line []byte, name string) []byte {
	i := bytes.Index(line, []byte(name))
	if i < 0 {
		return nil
	}
	value := line[i+len(name):]
	return value[:bytes.IndexAny(value, ",}")]
}
