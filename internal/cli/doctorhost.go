package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/trace"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// hostReport collects what a host shows about itself, from the remarks of a record.
type hostReport struct {
	i *invocation

	mu   sync.Mutex
	seen []string
}

// Write takes a line of a trace.Record.
func (h *hostReport) Write(p []byte) (int, error) {
	what, _, _ := strings.Cut(string(p), " | ")
	_, what, fromHost := strings.Cut(what, " --> ")
	if fromHost && strings.Contains(what, ": ") {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !slices.Contains(h.seen, what) && len(h.seen) < maxSeen {
			h.seen = append(h.seen, what)
			h.i.Say(zerolog.InfoLevel, "runnel doctor: the host: "+what)
		}
	}
	return len(p), nil
}

// maxSeen bounds the report for a host that never repeats itself.
const maxSeen = 100

func (h *hostReport) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.seen, "\n")
}

// doctorHost serves the host that started this process, and says what the host can do.
func (i *invocation) doctorHost(cmd *cobra.Command) error {
	i.Stderr = i.PatientStderr()
	report := &hostReport{i: i}
	set := upstream.NewSet(&tools.Registry{})
	err := set.Tools.Add(tools.Func("doctor", "Says what this host can do with runnel.", func(context.Context, struct{}, *tools.Output) (*mcp.CallToolResult, error) {
		return mcp.Result("What this host says, and asks for:\n" + report.String()), nil
	}))
	if err != nil {
		return err
	}
	inner := *i
	inner.Stdin = io.TeeReader(i.Stdin, &trace.Tap{To: io.Discard, Note: trace.New(report, "", nil).Lines(trace.FromHost)})
	return inner.Connect(cmd.Context(), config.Default(), set, tasks.NewMemory(), i.Logger())
}
