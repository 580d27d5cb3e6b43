package rpc

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

func TestInitialize(t *testing.T) {
	for _, tt := range []struct{ asked, got string }{
		{"2024-11-05", "2024-11-05"},
		{"2025-03-26", "2025-03-26"},
		{"2025-06-18", "2025-06-18"},
		{"2025-11-25", "2025-11-25"},
		{"2026-07-28", newest()}, // not a version of the handshake
		{"1999-01-01", newest()},
		{"x", newest()},
	} {
		t.Run(tt.asked, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := NewServer(&Options{Info: mcp.Implementation{Name: "n", Title: "T", Version: "v"},
					Instructions: "read <this>"})
				srv.Declare(func(c *Caller, caps *mcp.ServerCapabilities) {
					caps.Tools = &mcp.ListCapability{}
					if c.Version.Tasks {
						caps.Tasks = &mcp.ServerTasks{}
					}
				})
				p := dial(t, srv)
				p.send(initializeLine(tt.asked))
				title, tasks := "", ""
				if v := mcp.LookupVersion(tt.got); v.Titles {
					title = `"title":"T",`
				}
				if mcp.LookupVersion(tt.got).Tasks {
					tasks = `,"tasks":{}`
				}
				p.wantExactly(`{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"` + tt.got +
					`","capabilities":{"tools":{}` + tasks + `},` +
					`"serverInfo":{"name":"n",` + title + `"version":"v"},"instructions":"read <this>"}}`)
				p.send(initializeLine(tt.asked))
				p.want(`"error":{"code":-32600,"message":"initialize: the session is open already`)
				p.bye()
			})
		})
	}
}

func TestInitializeRefused(t *testing.T) {
	for _, params := range []string{``, `,"params":{}`, `,"params":[]`, `,"params":{"protocolVersion":5}`,
		`,"params":{"protocolVersion":""}`} {
		bubble(t, func(t *testing.T) {
			p := dial(t, echoServer(nil))
			p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize"` + params + `}`)
			p.want(`"error":{"code":-32602,"message":"initialize: \"protocolVersion\" is missing"}`)
			p.send(`{"jsonrpc":"2.0","id":2,"method":"echo"}`)
			p.want(`send initialize first`)
			p.send(initializeLine(newest()))
			p.want(`"result"`)
			p.bye()
		})
	}
}

// A capability of a shape that is unknown here is no reason to refuse, and reads as absent.
func TestCallerKnowsTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		var got *Caller
		srv.Handle(Handshake, "who", func(_ context.Context, c *Caller, _ json.RawMessage) (any, error) {
			got = c
			return nil, nil
		})
		p := dial(t, srv)
		p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + newest() +
			`","clientInfo":{"name":"c","version":3},` +
			`"capabilities":{"elicitation":7,"tasks":{"list":{},"streaming":{"partial":{"x":1}}},"roots":[]}}}`)
		p.want(`"result"`)
		p.send(`{"jsonrpc":"2.0","id":-5,"sessionId":"s","method":"who","params":{"a":{"_meta":{"progressToken":9}},"_meta":{"x":1,"progressToken":"t\/1"}}}`)
		p.want(`{"jsonrpc":"2.0","sessionId":"s","id":-5,"result":{}}`)
		if got.Era != Handshake || got.Version.Name != newest() || got.Client.Name != "c" ||
			!got.Capabilities.StreamsPartials() {
			t.Errorf("got %+v", got)
		}
		if string(got.ID()) != "-5" || string(got.Head()) != `{"jsonrpc":"2.0","sessionId":"s"` ||
			string(got.Meta.ProgressToken) != `"t\/1"` {
			t.Errorf("got id %s, head %s, token %s", got.ID(), got.Head(), got.Meta.ProgressToken)
		}
		for _, token := range []string{`{}`, `null`, `1.5`, `true`} {
			p.send(`{"jsonrpc":"2.0","id":1,"method":"who","params":{"_meta":{"progressToken":` +
				token + `}}}`)
			p.want(`"result"`)
			if got.Meta.ProgressToken != nil {
				t.Errorf("token %s was taken", token)
			}
		}
		p.bye()
	})
}

func TestMethods(t *testing.T) {
	got := echoServer(nil).Methods()
	want := []string{"handshake echo", "handshake initialize", "handshake notifications/cancelled",
		"handshake notifications/initialized", "handshake ping",
		"stateless notifications/cancelled", "stateless server/discover"}
	if !slices.Equal(got, want) {
		t.Errorf("got %s", strings.Join(got, ", "))
	}
}

// A probe of the stateless era without its _meta is told what is missing, whatever method of that era it is.
func TestProbeWithoutMeta(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := dial(t, NewServer(nil))
		p.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`)
		p.want(`"error":{"code":-32602,"message":"server/discover needs params._meta`)
		p.bye()
	})
}
