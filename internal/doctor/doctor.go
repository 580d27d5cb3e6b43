// Package doctor checks whether runnel can work on this machine, as "runnel doctor" shows it: a line for each
// thing, which begins with ok or WRONG.
//
//	Here    config, tools, other servers, state, limits, and a session with itself (here.go, state.go)
//	Hosts   the entries in the files of hosts, started as the host would (hosts.go)
//	Server  another server, in both eras (doctor.go)
//
// Goroutines: one for each other server that Here starts; it waits for them. It has no locks.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools/remote"
)

// Doctor checks what runnel needs, and writes a line about each thing to Setup.Stdout. Each of Here, Hosts
// and Server is a whole check; Verdict comes after it.
type Doctor struct {
	*serve.Setup
	wrong int
	err   error // from writing to stdout

	sandboxed bool // a tool or an upstream has a sandbox
}

// Verdict returns how many things are wrong, and why the lines about them could not be written.
func (d *Doctor) Verdict() (wrong int, err error) {
	if d.err != nil {
		return d.wrong, fmt.Errorf("writing the output: %w", d.err)
	}
	return d.wrong, nil
}

func (d *Doctor) fine(what, format string, args ...any) { d.print("ok   ", what, format, args...) }

func (d *Doctor) bad(what, format string, args ...any) {
	d.wrong++
	d.print("WRONG", what, format, args...)
}

// check is bad with an error, fine without.
func (d *Doctor) check(what string, err error, format string, args ...any) {
	if err != nil {
		d.bad(what, "%v", err)
		return
	}
	d.fine(what, format, args...)
}

func (d *Doctor) print(verdict, what, format string, args ...any) {
	text := strings.ReplaceAll(strings.TrimSpace(term.PrintableLines(fmt.Sprintf(format, args...))), "\n",
		"\n        ")
	// A reader that has left, as head does, wants no more.
	if _, err := fmt.Fprintf(d.Stdout, "%s  %s: %s\n", verdict, what, text); !errors.Is(err, syscall.EPIPE) {
		d.err = cmp.Or(d.err, err)
	}
}

// checkTime is how long each of doctor's sessions may take, and each start of a server. A test shortens it.
var checkTime = 30 * time.Second

func checking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("no answer within %v", checkTime))
}

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
