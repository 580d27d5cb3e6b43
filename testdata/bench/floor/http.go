package main

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

const (
	progress = "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1000000,"message":"chunk 000000 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"}}` + "\n\n"
	done     = "event: message\ndata: " + `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n\n"
)

// serve is the same over HTTP: what net/http and the client leave room for.
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
