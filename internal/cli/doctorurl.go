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
	httpclient "runnel/rpc/http/client"
	"runnel/rpc/mcp"
	"runnel/tools/remote"
)

// doctorURL is "runnel doctor --url": it tries a server in both eras. One of them is enough.
func (i *invocation) doctorURL(cmd *cobra.Command) error {
	at, err := i.remote(cmd)
	if err != nil {
		return err
	}
	d := &diagnosis{i: i}
	d.fine("version", "runnel %s", serve.Version())
	fails := map[string]error{}
	versions := []string{mcp.NewestHandshake().Name, mcp.Versions[len(mcp.Versions)-1].Name}
	for _, version := range versions {
		if said, err := tryURL(cmd.Context(), at, version); err != nil {
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

// tryURL asks a server at a URL for its tools.
func tryURL(ctx context.Context, at httpclient.Options, version string) (said string, err error) {
	ctx, cancel := checking(ctx)
	defer cancel()
	began := time.Now()
	client, err := httpclient.Dial(ctx, at, rpc.DialOptions{Version: version, Info: mcp.Implementation{Name: "runnel doctor", Version: serve.Version()}, Log: at.Log})
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
