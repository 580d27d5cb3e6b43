package rpc

import "context"

// Lane carries the notifications of one stream.
type Lane struct{}

// Write waits its turn, then calls encode.
func (l *Lane) Write(ctx context.Context, encode func(dst []byte) []byte) error {
	panic("internal error: not built yet")
}
