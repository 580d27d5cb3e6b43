package rpc

import (
	"context"
	"encoding/json"
	"io"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

// DialOptions say to [Dial] which server to reach, how, and as which client. Either Command, or In and Out must be set, nothing else need
// be.
type DialOptions struct {
	Command []string  // the server's program and its arguments
	Env     []string  // the server's, "NAME=value"; nil = that of this process
	Dir     string    // the server's; "" = that of this process
	Stderr  io.Writer // gets what the server writes to stderr; nil = nobody

	// OnStart is called before each start of the server: there may be two (see Dial). nil = nobody.
	OnStart func()
	// Guard is told the process group of a server that has been started; what it returns is called when the group is gone.
	// nil = nobody.
	Guard func(pgid int) (release func())
	// EndGroup ends what still runs in the process group of a server that has ended; nil = it gets KILL.
	EndGroup func(pgid int)

	In  io.WriteCloser // instead of Command: what the server reads
	Out io.Reader      // and what it writes; closed if it can be, to end a read that waits

	// Unordered: what the server sends on one of its streams may overtake what it sent before on another.
	Unordered bool

	// Version is the protocol version to speak. "" = server/discover is tried first, then initialize.
	Version      string
	Info         mcp.Implementation
	Capabilities mcp.ClientCapabilities
	MaxLine      int // bytes of the longest incoming line; 0 = 16 MiB
	Log          zerolog.Logger

	// All messages are handed out by the one goroutine that reads, in the order on the wire; while a function has not
	// returned nothing more is read. None of them may wait for an answer of the server's, and none may keep its bytes.

	// OnMessage sees every message, before anything else does; nil = nobody.
	OnMessage func(line []byte)
	// OnGarbage sees every line that is not a message; nil = nobody.
	OnGarbage func(line []byte)
	// OnNotification gets the server's notifications; nil = they are dropped. params is nil if there are none.
	OnNotification func(method string, params json.RawMessage)
	// OnRequest answers the server's requests, each in a goroutine of its own; nil = -32601. An error is answered as
	// a [Handler]'s is. ctx ends when the server cancels its request and when the connection ends. It may keep params.
	OnRequest func(ctx context.Context, method string, params json.RawMessage) (any, error)
}
