//go:build unix

package stdio

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A reader who reads stderr late is told what is missing. A line that only had room for its beginning ends
// there.
func TestPatient(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stderr := Patient(w, func(direct io.Writer, lines int) {
		fmt.Fprintf(direct, `{"lines":%d,"message":"nobody read stderr"}`+"\n", lines)
	}).(*patient)
	long := strings.Repeat("x", 3*pipeRoom) + "\n"
	lines := 0
	write := func(line string) {
		lines++
		if n, err := stderr.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	for range 200 { // several pipes full
		write(long)
	}
	var all []byte
	for some := make([]byte, len(long)); stderr.left > 0; {
		n, err := r.Read(some)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some[:n]...)
		write("again\n")
	}
	_ = w.Close()
	rest, _ := io.ReadAll(r)
	for line := range strings.Lines(string(all) + string(rest)) {
		var note struct{ Lines int }
		switch {
		case line == long || line == "again\n":
			lines--
		case strings.Contains(line, "nobody read stderr") && json.Unmarshal([]byte(line), &note) == nil:
			lines -= note.Lines
		case strings.Trim(line, "x") != "\n":
			t.Errorf("no whole line, and no part of one: %q", line)
		}
	}
	if lines != 0 {
		t.Errorf("%d lines are missing, and not told", lines)
	}
}

// A line that fits is written in one piece: another process may write to the same pipe.
func TestPatientWritesWholeLines(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere fewer lines fit")
	}
	// A piece that is written to such a socket is read as one piece.
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(ends[0]), "read"), os.NewFile(uintptr(ends[1]), "written")
	defer r.Close()
	defer w.Close()
	line := strings.Repeat("x", 4095) + "\n"
	if _, err := (&patient{to: newOutlet(w)}).Write([]byte(line)); err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 2*len(line))
	if n, err := r.Read(piece); err != nil || string(piece[:n]) != line {
		t.Errorf("%d bytes in one piece, %v", n, err)
	}
}
