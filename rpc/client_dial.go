package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// probeTime is how long a server may take to answer server/discover before initialize is tried. A server that
// only knows the handshake answers an unknown method right away or never; one that starts slowly only gets
// initialize a little later.
const probeTime = 10 * time.Second

// Dial starts a server, or takes its pipes, and negotiates a protocol version with it. ctx bounds only the
// negotiation: the connection lasts until [Client.Close], or until the server ends it.
//
// The newest era is tried first: "A client that supports both eras [...] sends server/discover first", and if
// the server does not understand that, Dial falls back to initialize (2026-07-28 basic/versioning). A server
// that exits because of the unknown request is started a second time.
func Dial(ctx context.Context, o DialOptions) (*Client, error) {
	version := mcp.LookupVersion(o.Version)
	switch {
	case o.Version != "" && version == nil:
		return nil, fmt.Errorf("protocol version %q is unknown", o.Version)
	case len(o.Command) == 0 && (o.In == nil || o.Out == nil):
		return nil, errors.New("no server: neither a command nor pipes")
	}
	c, err := dialOnce(&o)
	if err != nil {
		return nil, err
	}
	if version == nil || version.Stateless {
		probe, cancel := ctx, context.CancelFunc(func() {})
		if version == nil { // else nothing comes after it
			probe, cancel = context.WithTimeoutCause(ctx, probeTime,
				fmt.Errorf("no answer within %v", probeTime))
		}
		err = c.discover(probe)
		cancel()
		if err == nil {
			return c, nil
		}
		if version != nil || ctx.Err() != nil || c.Err() != nil && len(o.Command) == 0 {
			return nil, fmt.Errorf("server/discover: %w", c.giveUp(err))
		}
		c.opt.Log.Debug().Err(err).Msg("no server/discover: falling back to initialize")
		if c.Err() != nil {
			_ = c.Close()
			if c, err = dialOnce(&o); err != nil {
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

// giveUp closes a connection that could not be opened, and returns the reason: if the server's process has
// ended, how it ended.
func (c *Client) giveUp(err error) error {
	if ended := c.Close(); ended != nil && errors.Is(err, ErrClosed) {
		return ended
	}
	return err
}

// dialOnce makes the connection without sending anything yet.
func dialOnce(o *DialOptions) (*Client, error) {
	var child *child
	opt := *o
	opt.MaxLine = cmp.Or(opt.MaxLine, DefaultMaxLine)
	if opt.Info == nil {
		opt.Info = mcp.Implementation{}
	}
	if opt.Capabilities == nil {
		opt.Capabilities = mcp.ClientCapabilities{}
	}
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

// discover opens a connection of the stateless era, with its newest version.
func (c *Client) discover(ctx context.Context) error {
	var r struct {
		mcp.DiscoverResult
		Meta struct {
			Server mcp.Implementation `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	c.version = mcp.Versions[len(mcp.Versions)-1]
	raw, err := c.Do(ctx, &Request{Method: "server/discover"})
	if err == nil {
		// Unmarshal continues after a member of the wrong type, which then reads as absent.
		_ = json.Unmarshal(raw, &r)
		if !slices.Contains(r.SupportedVersions, c.version.Name) {
			err = errors.New("no version of the stateless era in common")
		}
	}
	if err != nil {
		c.version = nil
		return err
	}
	c.server = r.Meta.Server
	c.capabilities = r.Capabilities
	c.instructions = r.Instructions
	c.declared = rawjson.Member(raw, "capabilities")
	return nil
}

// sameAs are versions from before the first one, which official clients still take, and the version that they
// are read as.
var sameAs = map[string]string{"2024-10-07": mcp.Versions[0].Name}

// initialize opens a session of the handshake era (basic/lifecycle, "Initialization").
func (c *Client) initialize(ctx context.Context, version *mcp.Version) error {
	var r mcp.InitializeResult
	raw, err := c.Do(ctx, &Request{Method: "initialize", Params: map[string]any{
		"protocolVersion": version.Name,
		"capabilities":    c.opt.Capabilities,
		"clientInfo":      c.opt.Info,
	}})
	if err != nil {
		return err
	}
	_ = json.Unmarshal(raw, &r) // as in discover
	// "If the client does not support the version in the server's response, it SHOULD disconnect."
	v := mcp.LookupVersion(cmp.Or(sameAs[r.ProtocolVersion], r.ProtocolVersion))
	if v == nil || v.Stateless {
		return fmt.Errorf("the server answers with protocol version %.100q, which is unknown",
			r.ProtocolVersion)
	}
	c.version = v
	c.server = r.ServerInfo
	c.capabilities = r.Capabilities
	c.instructions = r.Instructions
	c.declared = rawjson.Member(raw, "capabilities")
	return c.Notify("notifications/initialized", nil)
}

// DialOptions tell [Dial] which server to reach, how, and as which client. Either Command, or both In and Out
// must be set; everything else is optional.
type DialOptions struct {
	Command []string  // the server's program and its arguments
	Env     []string  // the server's environment, "NAME=value"; nil = that of this process
	Dir     string    // the server's working directory; "" = that of this process
	Stderr  io.Writer // gets what the server writes to stderr; nil = it is dropped

	// OnStart, if set, is called before each start of the server; there may be two (see Dial).
	OnStart func()
	// Start, if set, starts the server's process instead of cmd.Start. The function that it returns is called
	// when the process has been waited for.
	Start func(cmd *exec.Cmd) (ended func(), err error)
	// Guard, if set, gets the process group of each server that is started. The function that it returns is
	// called when the group is gone.
	Guard func(pgid int) (release func())
	// EndGroup ends what still runs in the process group of a server that has exited; nil = KILL.
	EndGroup func(pgid int)

	In  io.WriteCloser // with Out, instead of Command: what the server reads
	Out io.Reader      // what the server writes; closed, if it is an io.Closer, to end a read that waits

	// Unordered: the server may send on several streams, where a later message can overtake an earlier one.
	Unordered bool

	// Version is the protocol version to speak; "" = try server/discover, then initialize.
	Version      string
	Info         any // encodes to a mcp.Implementation
	Capabilities any // encodes to the client's capabilities; nil = none
	MaxLine      int // bytes of the longest incoming line; 0 = 16 MiB
	Log          zerolog.Logger

	// The functions below are called by the one goroutine that reads, in the order on the wire; nothing more
	// is read until they return. They must not wait for an answer of the server, and must not keep the bytes
	// that they get.

	// OnMessage, if set, sees every message before anything else does.
	OnMessage func(line []byte)
	// OnGarbage, if set, sees every line that is not a message.
	OnGarbage func(line []byte)
	// OnNotification, if set, gets the server's notifications. params is nil if there are none.
	OnNotification func(method string, params json.RawMessage)
	// OnRequest answers the server's requests, each in its own goroutine, and may keep params; nil = -32601.
	// Its errors are sent as those of a [Handler] are, other errors with their text. ctx ends when the server
	// cancels the request and when the connection ends.
	OnRequest func(ctx context.Context, method string, params json.RawMessage) (any, error)
}
