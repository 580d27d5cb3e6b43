package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"runnel/internal/selftest"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/remote"
	"runnel/tools/upstream"
)

// trySession serves the self-test tools in process and calls one whose output streams.
func (i *invocation) trySession(ctx context.Context, version string) (said string, err error) {
	ctx, cancel := checking(ctx)
	defer cancel()
	call := remote.New(remote.Options{Token: json.RawMessage(`"doctor"`)})
	set := upstream.NewSet(&tools.Registry{})
	for _, tool := range selftest.Tools() {
		if err := set.Tools.Add(tool); err != nil {
			return "", err
		}
	}
	began := time.Now()
	client, disconnect, err := i.DialTools(ctx, rpc.DialOptions{
		Version:        version,
		Info:           mcp.Implementation{Name: "runnel doctor", Version: "1"},
		Capabilities:   mcp.ClientCapabilities{PartialResults: &mcp.Present{}},
		OnNotification: func(method string, params json.RawMessage) { call.Notification(method, params) },
	}, config.Default(), set, tasks.NewMemory())
	if err != nil {
		return "", err
	}
	defer disconnect()
	if _, err := call.Run(ctx, client, &remote.Params{Tool: "stream", Arguments: json.RawMessage(`{"count":100}`)}); err != nil {
		return "", fmt.Errorf("tools/call: %w", err)
	}
	stats := call.Tracker().Stats()
	if stats.Gaps > 0 || stats.Partials == 0 {
		return "", fmt.Errorf("%d partials of %d bytes, %d gaps", stats.Partials, stats.Bytes, stats.Gaps)
	}
	return fmt.Sprintf("%s, a tool's output streamed whole, %d ms", client.Version().Name, time.Since(began).Milliseconds()), nil
}
