package main

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStdoutIsWide(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command(builtProgram(t), "version")
	cmd.Stdout = write
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if n, err := unix.FcntlInt(read.Fd(), unix.F_GETPIPE_SZ, 0); n != stdoutPipe || err != nil {
		t.Errorf("the pipe holds %d bytes (%v), want %d", n, err, stdoutPipe)
	}
}
