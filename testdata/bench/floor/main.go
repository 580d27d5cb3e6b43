// Floor answers as fast as a Go program can that knows its few messages by heart: nothing is parsed but the
// id and the few arguments, every line is encoded beforehand, and a stream is one block written again and
// again. It is no MCP server that anybody could use; it is what the pipe and the client leave room for.
package main

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	head  = `{"jsonrpc":"2.0","id":`
	hello = `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"1"}}}` + "\n"
	pong  = `,"result":{}}` + "\n"
	echo  = `,"result":{"content":[{"type":"text","text":"hello"}]}}` + "\n"

	list = `,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"large","inputSchema":{"type":"object"}}]}}` + "\n"

	partial = `{"jsonrpc":"2.0","method":"notifications/tasks/partial","params":{"taskId":"00000000-0000-4000-8000-000000000000","content":[{"type":"text","text":"`
	tail    = `"}],"seq":1000000}}` + "\n"
	block   = 64 << 10
)

// large is a result of 7 MiB. It is made when it is asked for: the start of the floor is measured, and its
// memory.
var large = sync.OnceValue(func() string {
	return `,"result":{"content":[{"type":"text","text":"` + strings.Repeat("text ", 7<<20/5) + `"}]}}` + "\n"
})

var (
	mu  sync.Mutex // guards stdout
	out = make([]byte, 0, block)
)

func main() {
	in := bufio.NewReaderSize(os.Stdin, block)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		answer(line)
		if in.Buffered() == 0 && len(out) > 0 {
			flush(out)
			out = out[:0]
		}
	}
}

func flush(b []byte) {
	mu.Lock()
	defer mu.Unlock()
	if _, err := os.Stdout.Write(b); err != nil {
		os.Exit(1)
	}
}

func answer(line []byte) {
	id := member(line, `"id":`)
	if id == nil {
		return
	}
	result := echo
	switch {
	case bytes.Contains(line, []byte(`"tools/list"`)):
		result = list
	case bytes.Contains(line, []byte(`"large"`)):
		flush(out)
		flush(append(append([]byte(head), id...), large()...))
		out = out[:0]
		return
	case bytes.Contains(line, []byte(`"initialize"`)):
		result = hello
	case bytes.Contains(line, []byte(`"ping"`)):
		result = pong
	case bytes.Contains(line, []byte(`"stream"`)):
		count, _ := strconv.Atoi(string(member(line, `"count":`)))
		interval, _ := strconv.Atoi(string(member(line, `"intervalMs":`)))
		go stream(bytes.Clone(id), count, time.Duration(interval)*time.Millisecond)
		return
	}
	out = append(append(append(out, head...), id...), result...)
}

// stream writes count chunks of 50 bytes.
func stream(id []byte, count int, interval time.Duration) {
	if interval == 0 {
		line := []byte(partial + `chunk 000000 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n` + tail)
		n := block / len(line)
		lines := bytes.Repeat(line, n)
		for ; count >= n; count -= n {
			flush(lines)
		}
		flush(lines[:count*len(line)])
	} else {
		line := []byte(partial)
		for i := range count {
			if i > 0 {
				time.Sleep(interval)
			}
			line = append(line[:len(partial)], "chunk 000000 t="...)
			line = strconv.AppendInt(line, time.Now().UnixNano(), 10)
			line = append(append(line, ` xxxxxxxxxxxxxx\n`...), tail...)
			flush(line)
		}
	}
	flush(append(append([]byte(head), id...), echo...))
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
