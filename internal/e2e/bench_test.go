package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"runnel/internal/cli"
	"runnel/partials"
	"runnel/rpc"
)

// The cost of a partial on its way from the log over the dialect to the output, in either era,
// chunk by chunk (pace 0) and in full batches: they must not differ by more than the bytes that the
// subscription's id takes.
func BenchmarkPartials(b *testing.B) {
	const task = "786512e2-9e0d-44bd-8f29-789f320fe840"
	line := []byte("chunk 000123 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n")
	for _, era := range []struct {
		name    string
		dialect func(head []byte) partials.Dialect
	}{
		{"handshake", func(head []byte) partials.Dialect { return partials.NewSEP2679(head, task, nil) }},
		{"stateless", func(head []byte) partials.Dialect {
			return partials.NewSEP2679(head, task,
				json.RawMessage(`{"io.modelcontextprotocol/subscriptionId":1}`))
		}},
	} {
		for _, pace := range []time.Duration{0, partials.DefaultPace} {
			b.Run(fmt.Sprintf("%s/pace=%v", era.name, pace), func(b *testing.B) {
				caller := benchmarkCaller(b)
				log := partials.NewLog(nil)
				reader, done := log.NewReader(0), make(chan error)
				go func() {
					pacing := partials.DeliverOptions{Pace: pace}
					done <- partials.Deliver(context.Background(), reader, era.dialect(caller.Head()),
						caller, pacing)
				}()
				b.SetBytes(int64(len(line)))
				b.ReportAllocs()
				for b.Loop() {
					_ = log.Append(context.Background(), partials.Chunk{Data: line})
				}
				log.Close()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// benchmarkCaller is a caller whose client takes all that is written and looks at nothing.
func benchmarkCaller(b *testing.B) *rpc.Caller {
	callers := make(chan *rpc.Caller, 1)
	server := rpc.NewServer(nil)
	server.Handle(rpc.Handshake, "call", func(_ context.Context, c *rpc.Caller,
		_ json.RawMessage) (any, error) {
		callers <- c
		return nil, nil
	})
	in, client := io.Pipe()
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(context.Background(), in, io.Discard) }()
	b.Cleanup(func() { _ = client.Close(); <-served })
	if _, err := fmt.Fprintf(client, "%s\n"+`{"jsonrpc":"2.0","id":1,"method":"call"}`+"\n",
		initialize); err != nil {
		b.Fatal(err)
	}
	return <-callers
}

// The cost of a call in either era, from the request's line to the response's, through the whole program.
func BenchmarkEcho(b *testing.B) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s"name":"echo","arguments":{"text":"hello"}}}` + "\n"
	for _, era := range []struct{ name, meta string }{
		{"handshake", ""},
		{"stateless", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`},
	} {
		b.Run(era.name, func(b *testing.B) {
			in, client := io.Pipe()
			server, out := io.Pipe()
			exited := make(chan struct{})
			env := append(environ(b), noConfig)
			go func() {
				defer close(exited)
				_ = cli.Run(context.Background(), []string{"--selftest", "--log-level", "error"}, env, in,
					out, io.Discard)
				_ = out.Close()
			}()
			answers := bufio.NewReader(server)
			defer func() {
				_ = client.Close()
				_, _ = io.Copy(io.Discard, answers)
				<-exited
			}()
			exchange := func(line []byte) {
				if _, err := client.Write(line); err != nil {
					b.Fatal(err)
				}
				if _, err := answers.ReadSlice('\n'); err != nil {
					b.Fatal(err)
				}
			}
			exchange([]byte(initialize + "\n"))
			line := fmt.Appendf(nil, call, era.meta)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				exchange(line)
			}
		})
	}
}
