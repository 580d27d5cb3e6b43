package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools/remote"
)

// Dialer connects to a server.
type Dialer func(context.Context, rpc.DialOptions) (*rpc.Client, error)

// Server checks another server, which it tries in both eras. One of them is enough.
func (d *Doctor) Server(ctx context.Context, dial Dialer) {
	d.fine("version", "runnel %s", serve.Version())
	fails := map[string]error{}
	versions := []string{mcp.NewestHandshake().Name, mcp.Versions[len(mcp.Versions)-1].Name}
	for _, version := range versions {
		if said, err := d.tryServer(ctx, dial, version); err != nil {
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
}

// tryServer asks another server for its tools.
func (d *Doctor) tryServer(ctx context.Context, dial Dialer, version string) (said string, err error) {
	ctx, cancel := checking(ctx)
	defer cancel()
	began := time.Now()
	info := mcp.Implementation{Name: "runnel doctor", Version: serve.Version()}
	client, err := dial(ctx, rpc.DialOptions{Version: version, Info: info, Log: d.Logger()})
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }() // how the connection ends does not matter
	tools, err := remote.ListTools(ctx, client)
	if err != nil {
		return "", err
	}
	server := client.Server()
	name := term.Printable(strings.TrimSpace(server.Name + " " + server.Version))
	return fmt.Sprintf("%s, protocol %s, %s, %d ms", name, client.Version().Name,
		term.Count(len(tools), "tool"),
		time.Since(began).Milliseconds()), nil
}
