package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// asLiar makes the test binary an upstream that flaps and lies; its value is a seed.
const asLiar = "RUNNEL_TEST_AS_LIAR"

func liarMain() {
	seed, _ := strconv.ParseUint(os.Getenv(asLiar), 10, 64)
	rng := rand.New(rand.NewPCG(seed, uint64(os.Getpid())))
	out := bufio.NewWriter(os.Stdout)
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format+"\n", args...)
		_ = out.Flush()
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments struct{ How int }
				Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue
		}
		text := func(s string) {
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, m.ID, s)
		}
		switch m.Method {
		case "initialize":
			if rng.IntN(10) == 0 {
				return
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"liar","version":"1"}}}`, m.ID)
		case "tools/list":
			next := ""
			if rng.IntN(8) == 0 {
				next = `,"nextCursor":"again"` // for ever, most likely
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"other%d","description":%q,"inputSchema":{"type":"object"}}]%s}}`,
				m.ID, rng.IntN(3), "\x1b[2Jnothing", next)
		case "tools/call":
			switch m.Params.Arguments.How {
			case 0: // dies
				return
			case 1: // a helper holds stdout
				helper := exec.Command("sleep", "5")
				helper.Stdout = os.Stdout
				_ = helper.Start()
				return
			case 2: // is slow
				time.Sleep(10 * time.Second)
				text("late")
			case 3: // answers twice, and whom nobody asked
				text("one")
				text("two")
				say(`{"jsonrpc":"2.0","id":"nobody","result":{}}`)
			case 4:
				say(`nonsense %s`, strings.Repeat("x", 1<<20))
				text("after nonsense")
			case 5: // an answer of the wrong kind
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":"text"}}`, m.ID)
			case 6:
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":"x"}}`, m.ID)
				text("then")
			case 7:
				for range 2000 {
					say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				text("changed")
			case 8:
				for i := range 200 {
					say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":"\u001b[31mred"}}`, orNull(m.Params.Meta.ProgressToken), -i)
				}
				text("progress")
			case 9:
				say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%q}}`,
					strings.Repeat("\x1b]0;x\a", 1000))
				text("\x1b[2J\x07{\"jsonrpc\":\"2.0\"}\n")
			case 10: // asks what cannot be asked
				say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`)
				text("asked")
			case 11:
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, m.ID,
					strings.Repeat("y", 3<<20))
			case 12:
				os.Exit(3)
			default:
				text("done")
			}
		case "ping":
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		default:
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}
	}
}

func orNull(v json.RawMessage) json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	return v
}
