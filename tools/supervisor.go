package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tools/process"
)

// supervised is what a supervisor runs. It reads it from stdin, so that neither arguments nor variables stand in a
// list of processes.
type supervised struct {
	Detaching
	TaskID    string
	Tool      string
	Config    CommandConfig // but for Command
	Command   []RawText
	Dir       RawText
	Env       RawText // variables with a NUL between two
	Arguments json.RawMessage
	Polls     bool // get_task_result is listed for the client
}

// RawText is a path or what else the system takes as it is: JSON would make U+FFFD of what is not UTF-8.
type RawText string

// MarshalJSON writes the bytes as base64.
func (t RawText) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *RawText) UnmarshalJSON(encoded []byte) error {
	var raw []byte
	err := json.Unmarshal(encoded, &raw)
	*t = RawText(raw)
	return err
}

const (
	// supervisorLog is the file beside a state to which its supervisors write how their tasks end, and what goes wrong.
	supervisorLog = "supervisor.log"
	// maxSupervisorLog is how long that file may be, in bytes, before the next supervisor begins it anew.
	maxSupervisorLog = 1 << 20
	// supervisorStart is how long a supervisor may take until it runs its task: it may have to wait for a state that is locked.
	supervisorStart = 30 * time.Second
	// taken is what a supervisor answers when it runs its task; else it answers why not.
	taken = "taken"
)

// startSupervisor returns when a supervisor has taken its task, or why it has not.
func startSupervisor(s *supervised) error {
	spec, err := json.Marshal(s)
	if err != nil {
		return err
	}
	program, err := process.ThisProgram()
	if err != nil {
		return err
	}
	log, err := openSupervisorLog(string(s.StateDir))
	if err != nil {
		return err
	}
	defer log.Close()
	in, toIt, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer toIt.Close()
	fromIt, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer fromIt.Close()
	defer out.Close()
	// The second argument is for people.
	child, err := process.Fork(program, []string{process.SupervisorName, s.TaskID}, &os.ProcAttr{
		Dir:   "/",
		Env:   environmentOutside(),
		Files: []*os.File{in, out, log},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("starting its supervisor: %w", err)
	}
	go func() { _, _ = process.Wait(child) }() // ends with the supervisor or with this process
	_ = in.Close()
	_ = out.Close()
	answer, err := converse(spec, toIt, fromIt)
	switch {
	case answer == taken:
		return nil
	case answer != "":
		return fmt.Errorf("its supervisor: %s", answer)
	case err == nil:
		err = fmt.Errorf("it ended at once; see %s", log.Name())
	}
	_ = child.Kill()
	return fmt.Errorf("starting its supervisor: %w", err)
}

// converse tells a supervisor what to run, and returns what it answers: "" if it has ended before.
func converse(spec []byte, toIt, fromIt *os.File) (answer string, err error) {
	deadline := time.Now().Add(supervisorStart)
	_ = toIt.SetWriteDeadline(deadline)
	_ = fromIt.SetReadDeadline(deadline)
	_, err = toIt.Write(spec)
	_ = toIt.Close()
	if err != nil {
		return "", err
	}
	said, err := io.ReadAll(io.LimitReader(fromIt, maxAnswer))
	return string(said), err
}

// environmentOutside is this process's environment without what it holds about a call that it may itself be the command of: that
// call's runnel and its guard are not to take a supervisor for a part of it.
func environmentOutside() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, process.MarkVariable+"=") || strings.HasPrefix(v, variablesVariable+"=")
	})
}

// maxAnswer is how much of a supervisor's answer is read, in bytes.
const maxAnswer = 4 << 10

func openSupervisorLog(dir string) (*os.File, error) {
	name := filepath.Join(dir, supervisorLog)
	how := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if info, err := os.Stat(name); err == nil && info.Size() > maxSupervisorLog {
		how |= os.O_TRUNC
	}
	return os.OpenFile(name, how, 0o600)
}

// From here on: the supervisor itself.

// init, and not a call in main, as for the guard: every binary that has command tools must be able to be their supervisor.
func init() {
	if os.Args[0] == process.SupervisorName {
		answer := os.NewFile(uintptr(syscall.Stdout), "answer") // not the stdout of MCP: the pipe to who started this
		if err := supervise(os.Stdin, answer); err != nil {
			fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.RFC3339), strings.Join(os.Args, " ")+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// supervise runs one task and returns when it has ended.
func supervise(in io.Reader, answer io.WriteCloser) error {
	// As in main: a pipe that nobody reads, and a file that may not grow, are errors of write.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var s supervised
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("reading what to run: %w", err)
	}
	log := zerolog.New(os.Stderr).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	store := sqlite.New(sqlite.Options{Dir: string(s.StateDir), MaxState: int64(s.MaxState), Log: log})
	runner := tasks.NewRunner(tasks.Options{Store: store, Owner: string(s.Owner), MaxPending: int(s.MaxPending), ErrorsComplete: s.ErrorsComplete, Log: log})
	run, err := s.take(ctx, runner, log)
	told := taken
	if err != nil {
		told = err.Error()
	}
	_, _ = io.WriteString(answer, told) // who started this may be gone by now
	_ = answer.Close()
	if err == nil {
		select {
		case <-run.Ended():
			err = runner.Settled(ctx)
		case <-ctx.Done():
		}
	}
	runner.Close()
	return errors.Join(err, store.Close())
}

// take takes the task over and starts its work.
func (s *supervised) take(ctx context.Context, runner *tasks.Runner, log zerolog.Logger) (*tasks.Run, error) {
	command, err := s.command()
	if err != nil {
		return nil, err
	}
	e, err := newEntry(command)
	if err != nil {
		return nil, err
	}
	work, err := json.Marshal(map[string]int{"pid": os.Getpid()})
	if err != nil {
		return nil, err
	}
	svc := &service{runner: runner, polls: s.Polls, o: ServeOptions{Log: log}}
	d := deliverResult(nil)
	run, err := runner.Take(ctx, s.TaskID, work, svc.spec(e, s.Arguments, d, tasks.Spec{}))
	if err != nil {
		return nil, err
	}
	run.Delivered()
	return run, nil
}

// command is the command that the supervisor runs.
func (s *supervised) command() (*Command, error) {
	config := s.Config
	for _, element := range s.Command {
		config.Command = append(config.Command, string(element))
	}
	c, err := NewCommand(s.Tool, config, Environment{Dir: string(s.Dir), Vars: strings.Split(string(s.Env), "\x00")})
	if n := s.Config.MaxConcurrent; err == nil && n > 0 {
		c.queue = process.NewSlots(string(s.StateDir), string(s.Owner+"\x00"+s.Dir)+"\x00"+s.Tool, n)
	}
	return c, err
}
