package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools/remote"
)

// doctorServer is "runnel doctor" with another server, which it tries in both eras. One of them is enough.
func (i *invocation) doctorServer(cmd *cobra.Command) error {
	_, dial, err := i.server(cmd)
	if err != nil {
		return err
	}
	d := &diagnosis{i: i}
	d.fine("version", "runnel %s", serve.Version())
	fails := map[string]error{}
	versions := []string{mcp.NewestHandshake().Name, mcp.Versions[len(mcp.Versions)-1].Name}
	for _, version := range versions {
		if said, err := i.tryServer(cmd.Context(), dial, version); err != nil {
			fails[version] = err
		} else {
			d.fine(version, "%s", said)
		}
	}
	for _, version := range versions {
		switch err := fails[version]; {
		case len(fails) == len(versions):
			d.bad(version, "%v", err)
		case err != nil:
			d.print("no   ", version, "not spoken: %v", err)
		}
	}
	return d.verdict()
}

// tryServer asks another server for its tools.
func (i *invocation) tryServer(ctx context.Context, dial dialer, version string) (said string, err error) {
	ctx, cancel := checking(ctx)
	defer cancel()
	began := time.Now()
	client, err := dial(ctx, rpc.DialOptions{Version: version, Info: mcp.Implementation{Name: "runnel doctor", Version: serve.Version()}, Capabilities: canTasks, Log: i.Logger()})
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }() // how the connection ends does not matter
	tools, err := remote.ListTools(ctx, client)
	if err != nil {
		return "", err
	}
	server := client.Server()
	return fmt.Sprintf("%s, protocol %s, %s, %d ms", term.Printable(strings.TrimSpace(server.Name+" "+server.Version)), client.Version().Name, term.Count(len(tools), "tool"), time.Since(began).Milliseconds()), nil
}
