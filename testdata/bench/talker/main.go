// Talker is the fastest server that runnel can stand before: its one tool writes progress notifications that
// were encoded beforehand. It writes the members of a message in the order of an SDK: "go" (jsonrpc first) or
// "typescript" (jsonrpc last, and the token after the message).
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
)

const block = 64 << 10

func main() {
	in := bufio.NewReaderSize(os.Stdin, block)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		id := member(line, `"id":`)
		if id == nil {
			continue
		}
		result := `{}`
		switch {
		case bytes.Contains(line, []byte(`"initialize"`)):
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"talker","version":"1"}}`
		case bytes.Contains(line, []byte(`"tools/list"`)):
			result = `{"tools":[{"name":"stream","inputSchema":{"type":"object"}}]}`
		case bytes.Contains(line, []byte(`"tools/call"`)):
			id = bytes.Clone(id)
			stream(bytes.Clone(line))
			result = `{"content":[{"type":"text","text":"done"}]}`
		}
		write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result))
	}
}

// stream writes as many notifications as the call asks for, of 50 bytes of text.
func stream(call []byte) {
	count, _ := strconv.Atoi(string(member(call, `"count":`)))
	token := member(call, `"progressToken":`)
	const chunk = "chunk 000000 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	var out []byte
	for i := range count {
		if len(os.Args) > 1 && os.Args[1] == "typescript" {
			out = fmt.Appendf(out, `{"method":"notifications/progress","params":{"progress":%d,"total":%d,"message":"%s","progressToken":%s},"jsonrpc":"2.0"}`+"\n", i, count, chunk, token)
		} else {
			out = fmt.Appendf(out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"%s","progress":%d,"progressToken":%s,"total":%d}}`+"\n", chunk, i, token, count)
		}
		if len(out) >= block || i == count-1 {
			write(out)
			out = out[:0]
		}
	}
}

func write(b []byte) {
	if _, err := os.Stdout.Write(b); err != nil {
		os.Exit(1)
	}
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
