package rpc

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"

	"github.com/rs/zerolog"
)

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
