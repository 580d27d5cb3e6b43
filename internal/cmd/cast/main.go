// Cast draws a terminal session as an SVG that moves: cast -o FILE RUNNEL. The session is real: a shell on a
// pseudo-terminal runs what script.sh says, with the program RUNNEL, and the picture shows what was on the
// screen, when.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/creack/pty"
)

const (
	columns, rows = 88, 22
	keystroke     = 30 * time.Millisecond // between two letters that are typed
	reading       = 1000 * time.Millisecond
	prompt        = "$ "
	green, normal = "\x1b[32m", "\x1b[0m"
	most          = time.Minute // for a command
)

//go:embed script.sh
var script string

func main() {
	out := flag.String("o", "session.svg", "the `FILE` to write")
	flag.Parse()
	log.SetFlags(0)
	if flag.NArg() != 1 {
		log.Fatal("cast: which runnel? cast -o FILE RUNNEL")
	}
	recording, err := record(flag.Arg(0))
	if err != nil {
		log.Fatalf("cast: %v", err)
	}
	if err := os.WriteFile(*out, []byte(draw(recording)), 0o644); err != nil {
		log.Fatalf("cast: %v", err)
	}
}

// record plays the script. Its part above the line of dashes is run before, and not shown.
func record(runnel string) (*recording, error) {
	dir, err := os.MkdirTemp("", "cast")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	runnel, err = filepath.Abs(runnel)
	if err != nil {
		return nil, err
	}
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		return nil, err
	}
	env := []string{"HOME=" + dir, "PATH=" + filepath.Dir(runnel) + ":" + os.Getenv("PATH"), "TERM=xterm", "PS1=" + green + prompt + normal, "LANG=C.UTF-8"}

	before, shown, _ := strings.Cut(script, "# ----\n")
	setUp := exec.Command("sh", "-e", "-c", before)
	setUp.Dir = project
	setUp.Env = env
	setUp.Stderr = os.Stderr
	if err := setUp.Run(); err != nil {
		return nil, fmt.Errorf("setting up: %w", err)
	}

	shell := exec.Command("sh", "-i")
	shell.Dir, shell.Env = project, env
	terminal, err := pty.StartWithSize(shell, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		return nil, err
	}
	defer func() { _ = terminal.Close(); _ = shell.Process.Kill(); _ = shell.Wait() }()

	r := newRecording()
	go r.read(terminal)
	for command := range strings.Lines(shown) {
		if err := r.awaitPrompt(); err != nil {
			return nil, fmt.Errorf("before %q: %w", command, err)
		}
		if !strings.HasPrefix(command, "#") { // it is read together with what follows
			time.Sleep(reading)
		}
		for _, letter := range strings.Split(command, "") {
			if _, err := terminal.WriteString(letter); err != nil {
				return nil, err
			}
			time.Sleep(keystroke)
		}
	}
	if err := r.awaitPrompt(); err != nil {
		return nil, err
	}
	time.Sleep(4 * reading)
	return r, nil
}
