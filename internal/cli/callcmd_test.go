package cli

import (
	"context"
	"io"
	"strings"
	"testing"
)

// canceller ends a context when something is written.
type canceller struct{ cancel context.CancelFunc }

func (c canceller) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

// A Ctrl-C may come while a call ends by itself. The race detector looks at what is said about it.
func TestInterruptedAtTheEnd(t *testing.T) {
	t.Parallel()
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "RUNNEL_CONFIG=/dev/null"}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		Run(ctx, []string{"call", "stream", "count=1", "--selftest", "-o", "json"}, env, nil, canceller{cancel}, io.Discard)
		cancel()
	}
}

// A server may send output of a call that has not been made yet. The race detector looks at when that began.
func TestOutputBeforeTheCall(t *testing.T) {
	t.Parallel()
	const server = `read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"early","version":"1"}}}'
read -r _; read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}'
i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"runnel-call","progress":'$i',"partialResult":{"chunk":{"content":[{"type":"text","text":"early"}]},"append":true}}}'; done
read -r _; echo '{"jsonrpc":"2.0","id":3,"result":{"content":[]}}'; cat >/dev/null`
	var said strings.Builder
	env := []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	code := Run(t.Context(), []string{"call", "x", "--protocol", "2025-11-25", "--summary", "--", "/bin/sh", "-c", server}, env, nil, io.Discard, &said)
	if code != 0 || !strings.Contains(said.String(), "300 partials, gaps 2, first after ") {
		t.Error(code, said.String())
	}
}
