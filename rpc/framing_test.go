package rpc

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// echoServer answers "echo" with its params.
func echoServer(o *Options) *Server {
	s := NewServer(o)
	s.Handle(Handshake, "echo", func(_ context.Context, _ *Caller, params json.RawMessage) (any, error) {
		if params == nil {
			return nil, nil
		}
		return params, nil
	})
	return s
}

// Each line is answered as WIRE's rules of framing say, and the session goes on.
func TestFraming(t *testing.T) {
	const (
		parse    = `{"jsonrpc":"2.0","error":{"code":-32700,`
		bad      = `{"jsonrpc":"2.0","error":{"code":-32600,`
		badID1   = `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`
		pingOne  = `{"jsonrpc":"2.0","id":1,"result":{}}`
		pingLine = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	)
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	for _, tt := range []struct {
		name, line string
		want       string // start of the answer, "" = silence
	}{
		{"ping", pingLine, pingOne},
		{"carriage return", pingLine + "\r", pingOne},
		{"blanks around", " \t" + pingLine + "  \r", pingOne},
		{"blank line", "", ""},
		{"blank line with blanks", " \t\r", ""},
		{"members in any order and blanks between",
			`{ "params" : { } , "method" : "ping" , "id" : 1 , "jsonrpc" : "2.0" }`, pingOne},
		{"escaped names", `{"\u006asonrpc":"\u0032.0","\u0069d":1,"method":"pin\u0067"}`, pingOne},
		{"names in other case are other names", `{"jsonrpc":"2.0","ID":1,"method":"ping"}`, ""},
		{"unknown members", `{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":[2,"}"]}`, pingOne},

		{"no JSON", `hello`, parse},
		{"cut off", `{"jsonrpc":"2.0","id":1,"method":"pi`, parse},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, parse},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", parse},
		{"NUL", "\x00", parse},
		{"BOM that is not at the start", "\n\ufeff" + pingLine, parse},
		{"deep nesting", deep, parse},
		{"deep nesting in params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + deep + `}`, parse},

		{"number", `1`, bad},
		{"string", `"ping"`, bad},
		{"null", `null`, bad},
		{"empty object", `{}`, bad},
		{"no jsonrpc", `{"id":1,"method":"ping"}`, badID1},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, badID1},
		{"jsonrpc a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, badID1},
		{"no method", `{"jsonrpc":"2.0","id":1}`, badID1},
		{"method a number", `{"jsonrpc":"2.0","id":1,"method":1}`, badID1},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, badID1},
		{"params a string", `{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}`, badID1},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, badID1},
		{"params of a notification a string", `{"jsonrpc":"2.0","method":"x","params":"x"}`, bad},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, badID1},
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`, badID1},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`, bad},
		{"id twice, once escaped", `{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"ping"}`, bad},
		{"batch before initialize", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, bad},
		{"empty batch", `[]`, bad},

		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, bad},
		{"id a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, bad},
		{"id a whole fraction", `{"jsonrpc":"2.0","id":1.0,"method":"ping"}`, bad},
		{"id with an exponent", `{"jsonrpc":"2.0","id":1e0,"method":"ping"}`, bad},
		{"id a bool", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, bad},
		{"id an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, bad},
		{"id too long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", maxID) + `","method":"ping"}`, bad},
		{"id negative", `{"jsonrpc":"2.0","id":-7,"method":"ping"}`, `{"jsonrpc":"2.0","id":-7,"result":{}}`},
		{"id zero", `{"jsonrpc":"2.0","id":0,"method":"ping"}`, `{"jsonrpc":"2.0","id":0,"result":{}}`},
		{"id large", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":{}}`},
		{"id a string", `{"jsonrpc":"2.0","id":"1","method":"ping"}`,
			`{"jsonrpc":"2.0","id":"1","result":{}}`},
		{"id an empty string", `{"jsonrpc":"2.0","id":"","method":"ping"}`,
			`{"jsonrpc":"2.0","id":"","result":{}}`},
		{"id with escapes and beyond ASCII", `{"jsonrpc":"2.0","id":"\u0041\/é\ud83d","method":"ping"}`,
			`{"jsonrpc":"2.0","id":"\u0041\/é\ud83d","result":{}}`},

		{"session id", `{"jsonrpc":"2.0","id":1,"sessionId":"s-1","method":"ping"}`,
			`{"jsonrpc":"2.0","sessionId":"s-1","id":1,"result":{}}`},
		{"session id of an unknown method", `{"jsonrpc":"2.0","id":1,"sessionId":7,"method":"no/such"}`,
			`{"jsonrpc":"2.0","sessionId":7,"id":1,"error":{"code":-32601,`},
		{"session id of an invalid message", `{"jsonrpc":"2.0","id":null,"sessionId":"s","method":"ping"}`,
			`{"jsonrpc":"2.0","sessionId":"s","error":{"code":-32600,`},
		{"session id null", `{"jsonrpc":"2.0","id":1,"sessionId":null,"method":"ping"}`, pingOne},

		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"no/such"}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		{"notification as a request", `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		{"before initialize", `{"jsonrpc":"2.0","id":1,"method":"echo"}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no session: send initialize first"}}`},
		{"unknown notification", `{"jsonrpc":"2.0","method":"no/such"}`, ""},
		{"request as a notification", `{"jsonrpc":"2.0","method":"ping"}`, ""},
		{"cancelled for nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, ""},
		{"cancelled without id", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, ""},

		{"response to nothing", `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		{"response to nothing, a string id", `{"jsonrpc":"2.0","id":"x","result":{}}`, ""},
		{"error response to nothing", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, ""},
		{"error response without id", `{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`, ""},
		{"error response with id null", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, ""},
		// The id is one of ours: sent back it would answer a request of the client's.
		{"response with result and error",
			`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`, bad},
		{"error response without jsonrpc", `{"id":1,"error":{"code":1,"message":"x"}}`, bad},
		{"response with a fraction as id", `{"jsonrpc":"2.0","id":1.5,"result":{}}`, bad},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, bad},

		{"too long", `{"jsonrpc":"2.0","method":"x","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`,
			bad},
		{"too long, id behind", `{"method":"x","params":{"id":2,"x":"\"id\":3,` + strings.Repeat("x", 1<<20) +
			`"},"jsonrpc":"2.0","id":"a\"b"}`, `{"jsonrpc":"2.0","id":"a\"b","error":{"code":-32600,`},
		{"too long, id null", `{"method":"x","id":null,"params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`,
			bad},
		{"too long, two ids", `{"method":"x","id":1,"params":{"x":"` + strings.Repeat("x", 1<<20) +
			`"},"id":2}`, bad},
		{"too long, id before", `{"method":"x", "id" : -1 , "params":{"x":"\"id\":3,` +
			strings.Repeat("x", 1<<20) + `"}}`, `{"jsonrpc":"2.0","id":-1,"error":{"code":-32600,`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := dial(t, echoServer(&Options{MaxLine: 900_000}))
				p.send(tt.line, `{"jsonrpc":"2.0","id":"good","method":"ping"}`)
				want := []string{`{"jsonrpc":"2.0","id":"good","result":{}}`}
				if tt.want != "" {
					want = append([]string{tt.want}, want...)
				}
				lines := p.got()
				if len(lines) != len(want) {
					t.Fatalf("got %q, want %q", lines, want)
				}
				for i := range want {
					if !strings.HasPrefix(lines[i], want[i]) {
						t.Errorf("got  %s\nwant %s", lines[i], want[i])
					}
				}
				if err := p.bye(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestByteOrderMark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := dial(t, NewServer(nil))
		p.send("\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		p.want(`"result":{}`)
		p.bye()
	})
}

func TestLastLineWithoutNewline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := dial(t, NewServer(nil))
		p.in.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err := p.bye(); err != nil {
			t.Error(err)
		}
		p.want(`"result":{}`)
	})
}
