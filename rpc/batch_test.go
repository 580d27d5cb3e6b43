package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const batchVersion = "2025-03-26"

func TestBatch(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const pong = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, tt := range []struct{ name, line, want string }{
		{"one", `[` + ping + `]`, `[` + pong + `]`},
		{"blanks", ` [ ` + ping + ` , ` + ping + ` ] `, `[` + pong + `,` + pong + `]`},
		{"notifications only", `[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","method":"y"}]`, ``},
		{"notification between", `[` + ping + `,{"jsonrpc":"2.0","method":"x"}]`, `[` + pong + `]`},
		{"responses only", `[{"jsonrpc":"2.0","id":1,"result":{}}]`, ``},
		{"empty", `[]`, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"empty batch"}}`},
		{"bad members", `[1,[],` + ping + `,{"jsonrpc":"2.0","id":2}]`, `[` +
			`{"jsonrpc":"2.0","error":{"code":-32600,"message":"a message is a JSON object"}},` +
			`{"jsonrpc":"2.0","error":{"code":-32600,"message":"a message is a JSON object"}},` + pong + `,` +
			`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"it has no \"method\", no \"result\" and no \"error\""}}]`},
		{"initialize", `[` + initializeLine(batchVersion) + `]`,
			`[{"jsonrpc":"2.0","id":"init","error":{"code":-32600,"message":"initialize cannot be part of a batch"}}]`},
		{"call", `[{"jsonrpc":"2.0","id":1,"sessionId":"s","method":"echo","params":[1]}]`,
			`[{"jsonrpc":"2.0","sessionId":"s","id":1,"result":[1]}]`},
		{"too long", `[` + strings.Repeat(`1,`, maxBatch) + `1]`,
			`{"jsonrpc":"2.0","error":{"code":-32600,"message":"batch too long: the limit is 1000 messages"}}`},
		{"malformed", `[` + ping + `,`,
			`{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error: unexpected end of JSON input"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := open(t, echoServer(nil), batchVersion)
				p.send(tt.line)
				if tt.want == "" {
					p.wantExactly()
				} else {
					p.wantExactly(tt.want)
				}
				p.send(ping)
				p.wantExactly(pong)
				p.bye()
			})
		})
	}
}

func TestBatchInOtherVersions(t *testing.T) {
	for _, v := range []string{"2024-11-05", "2025-06-18", "2025-11-25"} {
		bubble(t, func(t *testing.T) {
			p := open(t, NewServer(nil), v)
			p.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
			p.wantExactly(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"batches are not served in this session"}}`)
			p.bye()
		})
	}
}

// The array goes out when its last answer is there; what follows an answer comes after the array.
// A member that was cancelled has no answer; an id of a batch is in flight like any other.
func TestBatchOfCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(&Options{MaxInFlight: 3})
		g := newGate(srv)
		srv.Handle(Handshake, "go", func(_ context.Context, c *Caller, _ json.RawMessage) (any, error) {
			return After{Result: result{"handle"}, Do: func() { c.Notify("behind", nil) }}, nil
		})
		p := open(t, srv, batchVersion)
		p.send(`[` + strings.Join([]string{waitLine(`1`, "a"), waitLine(`1`, "b"), waitLine(`2`, "b"),
			`{"jsonrpc":"2.0","id":3,"method":"go"}`, waitLine(`4`, "d")}, ",") + `]`)
		time.Sleep(slotPatience) // for a slot
		p.want()
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
			waitLine(`1`, "x"))
		p.want(`"id":1,"error":{"code":-32600`)
		g.open("a") <- result{"a"}
		p.wantExactly(`[{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the id 1 is still in flight"}},`+
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"too many requests in flight: the limit is 3"}},`+
			`{"jsonrpc":"2.0","id":3,"result":{"text":"handle"}},{"jsonrpc":"2.0","id":1,"result":{"text":"a"}}]`,
			`{"jsonrpc":"2.0","method":"behind"}`)
		p.send(waitLine(`1`, "a"), waitLine(`2`, "a"), waitLine(`3`, "a")) // all slots are free
		p.want()
		for range 3 {
			g.open("a") <- nil
			p.want(`"result"`)
		}
		p.send(`[` + waitLine(`1`, "a") + `,` + waitLine(`2`, "a") + `]`)
		p.send(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`)
		p.want()
		p.bye()
	})
}

// Answers that wait for others of their batch are bounded: after them no batch is begun.
func TestBatchesThatWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		g := newGate(srv)
		p := open(t, srv, batchVersion)
		long := strings.Repeat("x", maxID-10)
		begun := 0
		for ; begun < 20; begun++ {
			p.send(`[` + waitLine(fmt.Sprint(begun), "all") +
				strings.Repeat(`,{"jsonrpc":"2.0","id":"`+long+`","method":"ping"}`, maxBatch-1) + `]`)
			if refused := p.got(); len(refused) > 0 {
				if len(refused) != 1 || !strings.Contains(refused[0], "too many answers wait to be read") {
					t.Fatalf("%.1000q", refused)
				}
				break
			}
		}
		if bytes := begun * maxBatch * maxID; bytes > maxUnread+2*maxBatch*maxID {
			t.Errorf("%d bytes of answers wait", bytes)
		}
		for range begun {
			g.open("all") <- nil
		}
		if got := p.got(); len(got) != begun {
			t.Errorf("%d answers to %d batches", len(got), begun)
		}
		p.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		p.want(`[{"jsonrpc":"2.0","id":1,"result":{}}]`)
		p.bye()
	})
}
