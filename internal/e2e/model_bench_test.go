package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// stampedTokens is a provider whose tokens are the times at which they are sent, in nanoseconds. It sends one
// for each that a channel gives, or count at a pace if there is none.
func stampedTokens(tick <-chan struct{}, pace time.Duration, count int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(delta, finish string) {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":%s}]}\n\n", delta, finish)
			w.(http.Flusher).Flush()
		}
		w.(http.Flusher).Flush()
		for n := 0; tick != nil || n < count; n++ {
			if tick == nil {
				time.Sleep(pace)
			} else if _, more := <-tick; !more {
				break
			}
			send(strconv.FormatInt(time.Now().UnixNano(), 10)+" ", "null")
		}
		send("", `"stop"`)
	}
}

// dialModel starts runnel with a model at a URL, and a client that gets how long each token was on its way.
func dialModel(b *testing.B, url string, took func(time.Duration), flags ...string) *rpc.Client {
	b.Helper()
	config := writeConfig(b, fmt.Sprintf("tasks: {maxLive: 2000}\ntools: {say: {model: {api: openai, url: %q, name: m, prompt: x}}}", url))
	client, err := rpc.Dial(b.Context(), rpc.DialOptions{
		Command: append(append([]string{builtProgram(b), "--state", "memory", "--log-level", "error"}, config...), flags...),
		Env:     environ(b), Version: newestHandshake, Stderr: os.Stderr,
		Capabilities: json.RawMessage(`{"tasks":{"streaming":{"partial":{}}}}`),
		OnNotification: func(method string, params json.RawMessage) {
			var p struct {
				TaskID  string
				Content []json.RawMessage
			}
			if method != "notifications/tasks/partial" || json.Unmarshal(params, &p) != nil {
				return
			}
			for _, item := range p.Content {
				text, _ := mcp.TextOf(item)
				for word := range strings.FieldsSeq(text) {
					if sent, err := strconv.ParseInt(word, 10, 64); err == nil {
						took(time.Duration(time.Now().UnixNano() - sent))
					}
				}
			}
		}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// sayAsTask calls the model as a task, and returns the task's id.
func sayAsTask(b *testing.B, client *rpc.Client) string {
	var handle mcp.CreateTaskResult
	if err := client.Call(context.Background(), "tools/call",
		map[string]any{"name": "say", "arguments": struct{}{}, "task": struct{}{}}, &handle); err != nil {
		b.Error(err)
	}
	return handle.Task.TaskID
}

// BenchmarkModelToken is how long a token is on its way from a provider to the client, through the real
// program.
func BenchmarkModelToken(b *testing.B) {
	tick, came := make(chan struct{}), make(chan time.Duration, 1)
	provider := httptest.NewServer(stampedTokens(tick, 0, 0))
	defer provider.Close()
	client := dialModel(b, provider.URL, func(d time.Duration) { came <- d }, "--pace", "0")
	sayAsTask(b, client)
	var all []time.Duration
	for b.Loop() {
		tick <- struct{}{}
		all = append(all, <-came)
	}
	close(tick)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkModelStreams is the same for a thousand streams of 50 tokens a second, for three seconds each.
func BenchmarkModelStreams(b *testing.B) {
	const streams, tokens = 1000, 150
	provider := httptest.NewServer(stampedTokens(nil, 20*time.Millisecond, tokens))
	defer provider.Close()
	var all []time.Duration // the client's reader alone adds to it, until all results have come
	client := dialModel(b, provider.URL, func(d time.Duration) { all = append(all, d) }, "--max-in-flight", "3000")
	for b.Loop() {
		all = nil
		var calls sync.WaitGroup
		for range streams {
			calls.Go(func() {
				id := sayAsTask(b, client)
				if err := client.Call(context.Background(), "tasks/result", map[string]string{"taskId": id}, &mcp.CallToolResult{}); err != nil {
					b.Error(err)
				}
			})
		}
		calls.Wait()
	}
	if len(all) != streams*tokens {
		b.Errorf("%d tokens came, want %d", len(all), streams*tokens)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Milliseconds()), "p99-ms")
}
