package tools

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"runnel/partials"
)

// The pipe of a command is widened when it holds more than one read takes, and no wide one is made narrower.
func TestWidePipe(t *testing.T) {
	for _, test := range []struct{ holds, prints, want int }{
		{64 << 10, 60 << 10, widePipe},
		{64 << 10, 1 << 10, 64 << 10},
		{2 * widePipe, 60 << 10, 2 * widePipe},
	} {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		widenPipe(out, test.holds)
		text := strings.Repeat("0123456\n", test.prints/8)
		if _, err := in.WriteString(text); err != nil {
			t.Fatal(err)
		}
		in.Close()
		log := partials.NewLog(nil)
		r := newRecord(&CommandConfig{ANSI: "keep", MaxResult: minMaxResult}, nil, NewOutput(t.Context(), log, nil))
		r.stdout.pump(out)
		raw, err := out.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); n != test.want || err != nil {
				t.Errorf("a pipe of %d bytes holds %d after %d bytes of output (%v), want %d", test.holds, n, test.prints, err, test.want)
			}
		})
		if log.Size() != int64(len(text)) {
			t.Errorf("%d bytes in the log, want %d", log.Size(), len(text))
		}
	}
}
