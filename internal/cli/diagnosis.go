package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"runnel/internal/term"
)

// diagnosis collects what doctor finds.
type diagnosis struct {
	i     *invocation
	wrong int
	err   error // from writing to stdout

	sandboxed bool // a tool or an upstream has a sandbox
}

func (d *diagnosis) fine(what, format string, args ...any) { d.print("ok   ", what, format, args...) }

func (d *diagnosis) bad(what, format string, args ...any) {
	d.wrong++
	d.print("WRONG", what, format, args...)
}

// check is bad with an error, fine without.
func (d *diagnosis) check(what string, err error, format string, args ...any) {
	if err != nil {
		d.bad(what, "%v", err)
		return
	}
	d.fine(what, format, args...)
}

func (d *diagnosis) print(verdict, what, format string, args ...any) {
	text := strings.ReplaceAll(strings.TrimSpace(term.PrintableLines(fmt.Sprintf(format, args...))), "\n", "\n        ")
	if _, err := fmt.Fprintf(d.i.Stdout, "%s  %s: %s\n", verdict, what, text); !errors.Is(err, syscall.EPIPE) { // a reader that has left, as head does, wants no more
		d.err = cmp.Or(d.err, err)
	}
}

// verdict is the end of the command.
func (d *diagnosis) verdict() error {
	switch {
	case d.err != nil:
		return fmt.Errorf("writing the output: %w", d.err)
	case d.wrong > 0:
		return exitError(exitFailure)
	}
	return nil
}

// checkTime is how long each of doctor's sessions may take, and each start of a server. A test shortens it.
var checkTime = 30 * time.Second

func checking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("no answer within %v", checkTime))
}
