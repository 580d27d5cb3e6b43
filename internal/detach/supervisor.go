package detach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/system"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tools"
	"runnel/tools/command"
	"runnel/tools/notify"
	"runnel/tools/process"
	"runnel/tools/secrets"
)

// Supervisors starts the processes that run detached calls. Its fields are the settings of this process that
// they need.
type Supervisors struct {
	StateDir       []byte // absolute
	MaxState       int64
	Owner          []byte
	MaxPending     int  // run.Options.MaxPending
	ErrorsComplete bool // run.Options.ErrorsComplete
	Notices        *notify.Rules
}

// order tells a supervisor what to run. It goes through stdin, so that a list of processes shows neither
// arguments nor variables.
type order struct {
	Supervisors
	Call *tools.Detached
}

const (
	// supervisorLog is the file in a state's directory to which its supervisors log.
	supervisorLog = "supervisor.log"
	// maxSupervisorLog is the length of that file, in bytes, above which the next supervisor truncates it.
	maxSupervisorLog = 1 << 20
	// supervisorStart is how long a supervisor may take until it runs its task: it may have to wait for a
	// locked state.
	supervisorStart = 30 * time.Second
	// taken is the answer of a supervisor that runs its task. Otherwise it answers why not.
	taken = "taken"
	// known follows the order when the client knows the task. Without it, the supervisor ends with the pipe.
	known = "true"
)

// Start starts a supervisor and returns when it has taken over the task of a call; an error says why it has
// not.
func (s *Supervisors) Start(call *tools.Detached) error {
	spec, err := json.Marshal(order{*s, call})
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
	fromIt, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer fromIt.Close()
	defer out.Close()
	// The second argument is for people who list processes.
	in, orders, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	child := &exec.Cmd{
		Path: program,
		Args: []string{process.SupervisorName, call.TaskID},
		Dir:  "/",
		// Environ drops the mark of a call whose command this process may be: that call's runnel and its
		// guard must not end the supervisor with it.
		Env:         process.Environ(os.Environ(), "/", nil),
		Stdin:       in,
		Stdout:      out,
		Stderr:      log,
		SysProcAttr: process.Apart(),
	}
	if err := process.Fork(child); err != nil {
		_ = orders.Close()
		return fmt.Errorf("starting its supervisor: %w", err)
	}
	go func() { // ends with the call
		defer orders.Close()
		_, _ = orders.Write(spec) // fails if it has ended, which has no answer
		select {
		case <-call.Known:
			_, _ = orders.WriteString(known)
		case <-call.Ended:
		}
	}()
	_ = out.Close()
	_ = fromIt.SetReadDeadline(time.Now().Add(supervisorStart))
	said, err := io.ReadAll(io.LimitReader(fromIt, maxAnswer))
	answer := string(said)
	switch {
	case answer == taken:
		return nil
	case answer != "":
		return fmt.Errorf("its supervisor: %s", answer)
	case err == nil: // it has answered nothing
		err = fmt.Errorf("it ended at once; see %s", log.Name())
	}
	_ = child.Process.Kill()
	return fmt.Errorf("starting its supervisor: %w", err)
}

// maxAnswer limits a supervisor's answer, in bytes.
const maxAnswer = 4 << 10

func openSupervisorLog(dir string) (*os.File, error) {
	name := filepath.Join(dir, supervisorLog)
	how := os.O_WRONLY | os.O_CREATE | os.O_APPEND | system.NoWait
	if info, err := os.Stat(name); err == nil && info.Size() > maxSupervisorLog {
		how |= os.O_TRUNC
	}
	return os.OpenFile(name, how, 0o600)
}

// The rest of this file runs in the supervisor.

// This is in init, as for the guard, since every binary that has command tools must be able to be their
// supervisor.
func init() {
	if os.Args[0] == process.SupervisorName {
		// The pipe to the process that started this one.
		answer := os.NewFile(uintptr(syscall.Stdout), "answer")
		if err := supervise(os.Stdin, answer); err != nil {
			fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.RFC3339),
				strings.Join(os.Args, " ")+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// supervise runs one task and returns when it has ended.
func supervise(in io.Reader, answer io.WriteCloser) error {
	// As in main, a pipe that nobody reads and a file that may not grow are errors of write, not signals.
	system.KeepWriteErrors()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var o order
	orders := json.NewDecoder(in)
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	knows := make(chan struct{})
	o.Call.Known = knows
	go func() { // ends with the process
		var is bool
		if orders.Decode(&is) != nil {
			stop()
			return
		}
		close(knows)
	}()
	hidden := &secrets.Current{}
	hidden.Replace(o.Call.Secrets)
	log := zerolog.New(hidden.Writer(os.Stderr)).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	notices := notify.New(hidden, log)
	if o.Notices != nil {
		if err := o.Notices.Make(nil, func(path string,
			err error) error {
			return fmt.Errorf("%s: %w", path, err)
		}); err != nil {
			log.Warn().Err(err).Msg("nobody is notified of the end of this task")
			o.Notices = nil
		}
		notices.Replace(o.Notices)
	}
	store := sqlite.New(sqlite.Options{Dir: string(o.StateDir), MaxState: o.MaxState,
		Recovered: notices.Tell, Log: log})
	runner := run.NewRunner(run.Options{State: store, Owner: string(o.Owner), MaxPending: o.MaxPending,
		ErrorsComplete: o.ErrorsComplete, Ended: notices.Tell, Matched: notices.Tell,
		Secrets: hidden, Log: log})
	run, err := o.take(ctx, runner, log)
	said := taken
	if err != nil {
		said = err.Error()
	}
	_, _ = io.WriteString(answer, said) // fails if the process that waits for it is gone
	_ = answer.Close()
	if err == nil {
		select {
		case <-run.Ended():
			err = run.Settled(ctx)
		case <-ctx.Done():
		}
	}
	runner.Close()
	err = errors.Join(err, store.Close())
	notices.Close()
	return err
}

// take takes over the task and starts its work.
func (o *order) take(ctx context.Context, runner *run.Runner, log zerolog.Logger) (*run.Run, error) {
	var recipe command.Recipe
	if err := json.Unmarshal(o.Call.Tool, &recipe); err != nil {
		return nil, err
	}
	c, err := recipe.Make(string(o.StateDir), string(o.Owner))
	if err != nil {
		return nil, err
	}
	return tools.Take(ctx, runner, o.Call, c, fmt.Appendf(nil, `{"pid":%d}`, os.Getpid()), log)
}
