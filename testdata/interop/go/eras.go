package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (p *program) handshake(ctx context.Context) error {
	s, err := p.connect(ctx, &mcp.ClientOptions{}, handshake, nil, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(s.speaks(handshake), s.works(ctx)); err != nil {
		return err
	}
	if err := s.Ping(ctx, nil); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return s.end()
}

// stateless is the SDK's own way: server/discover first. It subscribes to the list of tools.
func (p *program) stateless(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	s, err := p.connect(ctx, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	}, "", nil, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(s.speaks(stateless), s.works(ctx)); err != nil {
		return err
	}

	// "must" requires a task, which this client does not take.
	_, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "must"})
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != missingCapability {
		return fmt.Errorf("a tool that needs a task gives %w", err)
	}

	config, err := os.OpenFile(p.config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := config.WriteString("  added:\n    command: [echo, added]\n"); err != nil {
		return err
	}
	if err := config.Close(); err != nil {
		return err
	}
	select {
	case <-changed:
	case <-ctx.Done():
		return errors.New("a change of the tools is not told")
	}
	if err := s.call(ctx, "added", nil, "added\n"); err != nil {
		return err
	}
	return s.end()
}

// corrected asks for a version that the server does not serve and goes on with one from its list.
func (p *program) corrected(ctx context.Context) error {
	s, err := p.connect(ctx, &mcp.ClientOptions{}, "2099-01-01", nil, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(s.speaks(stateless), s.works(ctx)); err != nil {
		return err
	}
	return s.end()
}

// fallBack has the probe fail, because it lost its _meta: the SDK opens a session with initialize on the same
// connection.
func (p *program) fallBack(ctx context.Context) error {
	probes := 0
	s, err := p.connect(ctx, &mcp.ClientOptions{}, "", func(c *mcp.Client) {
		c.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
				if method == "server/discover" {
					probes++
					r.GetParams().SetMeta(nil)
				}
				return next(ctx, method, r)
			}
		})
	}, nil)
	if err != nil {
		return err
	}
	if probes != 1 {
		return fmt.Errorf("%d probes", probes)
	}
	if err := errors.Join(s.speaks(handshake), s.works(ctx)); err != nil {
		return err
	}
	return s.end()
}
