package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

// DialOptions say which server to reach, how, and who asks. Either Command or In and Out must be set.
type DialOptions struct {
	Command []string  // the server's program and its arguments
	Env     []string  // of the server, "NAME=value"; nil = that of this process
	Dir     string    // of the server; "" = that of this process
	Stderr  io.Writer // gets what the server writes to stderr; nil = nobody

	// OnStart is called before each start of the server: there may be two (see Dial). nil = nobody.
	OnStart func()
	// Guard is told the process group of a server that has been started; what it returns is called when the group is gone.
	// nil = nobody.
	Guard func(pgid int) (release func())
	// EndGroup ends what a server that has ended leaves behind in its process group; nil = it gets KILL.
	EndGroup func(pgid int)

	In  io.WriteCloser // instead of Command: what the server reads
	Out io.Reader      // and what it writes; closed if it can be, to end a read that waits

	// Version is the protocol version to speak. "" = server/discover is tried first, then initialize.
	Version      string
	Info         mcp.Implementation
	Capabilities mcp.ClientCapabilities
	MaxLine      int // bytes of the longest incoming line; 0 = 16 MiB
	Log          zerolog.Logger

	// What comes is handed out by the one goroutine that reads, in the order on the wire; while a function has not
	// returned nothing more is read. None of them may wait for an answer of the server's, and none may keep its bytes.

	// OnMessage sees every message, before anything else does; nil = nobody.
	OnMessage func(line []byte)
	// OnGarbage sees every line that is no message; nil = nobody.
	OnGarbage func(line []byte)
	// OnNotification gets the server's notifications; nil = they are dropped. params is nil if there are none.
	OnNotification func(method string, params json.RawMessage)
	// OnRequest answers the server's requests, each in a goroutine of its own; nil = -32601. An error is answered as
	// a [Handler]'s is. ctx ends when the server cancels its request and when the connection ends. It may keep params.
	OnRequest func(ctx context.Context, method string, params json.RawMessage) (any, error)
}

// probeTime is how long a server may take to answer server/discover. One that knows only the handshake answers an unknown
// method at once, or never; one that is slow to start is only a little later with initialize.
const probeTime = 10 * time.Second

// Dial starts a server, or takes its pipes, and agrees with it on a protocol version. ctx bounds only that:
// the connection lasts until [Client.Close], or until the server ends it.
//
// The newest era is tried first: "A client that supports both eras [...] sends server/discover first", and where that is
// not understood it falls back to initialize (2026-07-28 basic/versioning). A server that ends because of the
// unknown request is started a second time.
func Dial(ctx context.Context, o DialOptions) (*Client, error) {
	version := mcp.LookupVersion(o.Version)
	switch {
	case o.Version != "" && version == nil:
		return nil, fmt.Errorf("protocol version %q is unknown", o.Version)
	case len(o.Command) == 0 && (o.In == nil || o.Out == nil):
		return nil, errors.New("no server: neither a command nor pipes")
	}
	c, err := begin(&o)
	if err != nil {
		return nil, err
	}
	if version == nil || version.Stateless {
		err = c.discover(ctx)
		if err == nil {
			return c, nil
		}
		if version != nil || ctx.Err() != nil || c.Err() != nil && len(o.Command) == 0 {
			return nil, fmt.Errorf("server/discover: %w", c.giveUp(err))
		}
		c.opt.Log.Debug().Err(err).Msg("no server/discover: falling back to initialize")
		if c.Err() != nil {
			_ = c.Close()
			if c, err = begin(&o); err != nil {
				return nil, err
			}
		}
		version = mcp.NewestHandshake()
	}
	if err := c.initialize(ctx, version); err != nil {
		return nil, fmt.Errorf("initialize: %w", c.giveUp(err))
	}
	return c, nil
}

// giveUp closes a connection that could not be opened. How the server's process ended tells more than that it did.
func (c *Client) giveUp(err error) error {
	if ended := c.Close(); ended != nil && errors.Is(err, ErrClosed) {
		return ended
	}
	return err
}

// begin makes the connection, without a word to the server.
func begin(o *DialOptions) (*Client, error) {
	var child *child
	opt := *o
	opt.MaxLine = cmp.Or(opt.MaxLine, defaultMaxLine)
	if len(o.Command) > 0 {
		if o.OnStart != nil {
			o.OnStart()
		}
		var err error
		if child, err = startChild(o); err != nil {
			return nil, err
		}
		opt.In, opt.Out = child.stdin, child.stdout
	}
	c := newClient(opt, child)
	if child != nil && o.Guard != nil {
		child.release = o.Guard(child.cmd.Process.Pid)
	}
	if child != nil && o.EndGroup != nil {
		child.endGroup = o.EndGroup
	}
	c.start()
	return c, nil
}

// discover opens a connection of the stateless era.
func (c *Client) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, fmt.Errorf("no answer within %v", probeTime))
	defer cancel()
	for i := len(mcp.Versions) - 1; i >= 0 && mcp.Versions[i].Stateless; i-- {
		c.version = mcp.Versions[i]
		var r struct {
			mcp.DiscoverResult
			Meta struct {
				Server mcp.Implementation `json:"io.modelcontextprotocol/serverInfo"`
			} `json:"_meta"`
		}
		raw, err := c.Do(ctx, &Request{Method: "server/discover"})
		if err != nil {
			c.version = nil
			return err
		}
		// Unmarshal goes on behind a member of the wrong type, which then reads as absent.
		_ = json.Unmarshal(raw, &r)
		if !slices.Contains(r.SupportedVersions, c.version.Name) {
			continue
		}
		c.server, c.capabilities, c.instructions = r.Meta.Server, r.Capabilities, r.Instructions
		return nil
	}
	c.version = nil
	return errors.New("no version of the stateless era in common")
}

// initialize opens a session of the handshake era (basic/lifecycle, "Initialization").
func (c *Client) initialize(ctx context.Context, version *mcp.Version) error {
	var r mcp.InitializeResult
	raw, err := c.Do(ctx, &Request{Method: "initialize", Params: mcp.InitializeParams{
		ProtocolVersion: version.Name,
		Capabilities:    c.opt.Capabilities,
		ClientInfo:      c.opt.Info,
	}})
	if err != nil {
		return err
	}
	_ = json.Unmarshal(raw, &r) // as in discover
	// "If the client does not support the version in the server's response, it SHOULD disconnect."
	v := mcp.LookupVersion(r.ProtocolVersion)
	if v == nil || v.Stateless {
		return fmt.Errorf("the server answers with protocol version %.100q, which is unknown", r.ProtocolVersion)
	}
	c.version = v
	c.server, c.capabilities, c.instructions = r.ServerInfo, r.Capabilities, r.Instructions
	return c.Notify("notifications/initialized", nil)
}
