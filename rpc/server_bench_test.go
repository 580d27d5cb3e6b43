package rpc

import (
	"fmt"
	"io"
	"testing"
)

// How many calls a second one client gets answered, all overhead but the tool's.
func BenchmarkCalls(b *testing.B) {
	r, w := io.Pipe()
	go func() {
		buf := []byte(initializeLine(newest()) + "\n")
		for i := range b.N {
			buf = fmt.Appendf(buf, `{"jsonrpc":"2.0","id":%d,"method":"echo","params":{"name":"echo","arguments":{"text":"hello"}}}`+"\n", i)
			if len(buf) > readSize/2 || i == b.N-1 {
				w.Write(buf)
				buf = buf[:0]
			}
		}
		w.Close()
	}()
	b.ReportAllocs()
	var lines countLines
	if err := echoServer(&Options{MaxInFlight: 1 << 30, Drain: -1}).Serve(b.Context(), r, &lines); err != nil {
		b.Fatal(err)
	}
	if int(lines) != b.N+1 {
		b.Fatalf("%d answers to %d calls", lines, b.N)
	}
}
