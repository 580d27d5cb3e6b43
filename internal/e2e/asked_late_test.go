package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A call whose user answers a question later than a host waits for calls is handed over then, in the
// handshake era: the host would give it up.
func TestAskedLate(t *testing.T) {
	t.Parallel()
	s := process(t, programCommand(t, append(writeConfig(t, `
tools:
  slow: {command: [sleep, "600"], confirm: true}
`), "--sync-wait", "1s")...))
	s.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},` +
		`"clientInfo":{"name":"late","version":"1"}}}`)
	s.line()
	s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for id := range 2 {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow","arguments":{}}}`, id+1)
		for answered := false; !answered; {
			line, err := s.next(watchdog)
			if err != nil {
				t.Fatalf("%v\nstderr: %s", err, s.stderr)
			}
			var m struct {
				ID     json.RawMessage
				Method string
				Result json.RawMessage
			}
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			switch answered = m.Result != nil; {
			case m.Method == "elicitation/create":
				time.Sleep(3 * time.Second) // the user thinks, longer than --sync-wait
				s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`, m.ID)
			case answered && !strings.Contains(string(line), "slow is still running, as task "):
				t.Errorf("answered with %s", line)
			}
		}
	}
	finished(s)
}
