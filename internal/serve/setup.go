package serve

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rs/zerolog"

	"runnel/internal/stdio"
	"runnel/internal/system"
	"runnel/internal/term"
	"runnel/internal/trust"
	httpserver "runnel/rpc/http"
	"runnel/tools/config"
	"runnel/tools/every"
	"runnel/tools/notify"
	"runnel/tools/process"
	"runnel/tools/secrets"
	"runnel/tools/view"
)

// Setup is what a server is made from: the environment, flags and variables.
type Setup struct {
	Env            []string // "NAME=value"
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Hangups        <-chan os.Signal // SIGHUP; nil = none comes

	Options options

	Wrapped *config.Upstream // the server that runnel wraps; nil = none
	// The tool whose calls are detached, even if the config does not say so.
	Detach      string
	Only        string                  // the only tool that is wanted in this process; "" = all
	NoUpstreams bool                    // start no other server, for completions
	NeedsState  bool                    // Dial fails if the state cannot be opened for calls of Only
	Watches     bool                    // the config file is watched
	Installed   func() []view.Installed // finds the hosts for the live view; nil = it shows none
	Colors      bool                    // the client shows output in colours, to a person

	scheduler *every.Scheduler   // nil = this process starts nothing by itself
	session   bool               // a host has started this process, which serves it alone
	view      *liveView          // the live view; nil = it is not served
	project   string             // the project's config file, which needs trust; "" if another one is named
	seen      os.FileInfo        // the config file's info from before the last read; nil if it did not exist
	front     httpserver.Options // the options of the HTTP server
	owners    *owners            // the owners that come over HTTP; nil = HTTP is not served
	// Why the project's config file is left out, nil if it is not.
	untrusted *atomic.Pointer[trust.Refusal] // nil before LoadConfig
	// The number of tools of the config and the command line, once the registry is made.
	Tools     int
	Upstreams int // the number of upstreams, likewise
	Classes   int // the number of classes of workers whose tools are served, likewise
	// A call of Only reads what "runnel attach" types; set by Dial.
	Typed bool

	secrets *secrets.Current // the secrets of the newest registry; nil before the first config
	Unset   []string         // the names of secrets without a value, once the registry is made

	Notices *notify.Notices // about tasks that have ended; nil before the first config
}

// UntilHangup returns a context that ends with ctx or at SIGHUP, for a command that does not read its config
// again.
func (s *Setup) UntilHangup(ctx context.Context) context.Context {
	hangups := s.Hangups // the goroutine's own: a caller that takes all of them clears the field
	if hangups == nil {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-hangups:
			cancel(system.SignalError(syscall.SIGHUP))
		case <-ctx.Done():
		}
	}()
	return ctx
}

// Trust returns the trust of the user whose variables these are.
func (s *Setup) Trust() trust.Files { return trust.Files{Getenv: s.Getenv} }

// Getenv returns the value of a variable, "" if it is not set. Use it instead of os.Getenv: tests have a
// separate environment.
func (s *Setup) Getenv(name string) string {
	value, _ := process.LookupEnv(s.Env, name)
	return value
}

// The build of a release sets these (make packages); they are "" in other programs.
var version, Commit, Date string

// Version is runnel's version: the package's or the module's, "devel" if neither is known.
var Version = sync.OnceValue(func() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
})

// UsageError is a mistake in flags, variables or the config, which the user has to fix. The exit code is 2
// then.
type UsageError struct {
	Err  error
	Hint string
}

func (e *UsageError) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + "\n" + e.Hint
}

func (e *UsageError) Unwrap() error { return e.Err }

// Logger returns the log of a command, on stderr: JSON, or text on a terminal. Use Say for what a person must
// read.
func (s *Setup) Logger() zerolog.Logger {
	level, err := zerolog.ParseLevel(s.Options.LogLevel.Word)
	if err != nil {
		panic("internal error: log level: " + err.Error())
	}
	w := zerolog.SyncWriter(s.Stderr)
	if f := s.Options.logFormat.Word; f == "console" || f == "auto" && term.IsTerminal(s.Stderr) {
		w = term.LogWriter(w, s.Getenv("NO_COLOR") == "" && term.IsTerminal(s.Stderr))
	}
	return zerolog.New(s.secrets.Writer(w)).Level(level).With().Timestamp().Logger()
}

// patientStderr is the stderr of a command that serves a host (stdio.Patient).
func (s *Setup) patientStderr() io.Writer {
	return stdio.Patient(s.Stderr, func(direct io.Writer, lines int) {
		other := *s
		other.Stderr = direct
		log := other.Logger()
		log.Warn().Int("lines", lines).Msg("log lines were dropped: nobody read stderr")
	})
}

// warnings warns of names in a config that have no effect: secrets without a value, and upstreams whose tools
// are in no list.
func (s *Setup) warnings(conf *config.Config, log zerolog.Logger) {
	for _, words := range []string{config.UnsetSecrets(s.Unset), conf.Unlisted()} {
		if words != "" {
			log.Warn().Msg(words)
		}
	}
}

// Say writes text for a person to stderr, or a log line where all of stderr must be JSON. It is not part of
// the log, so no log level suppresses it.
func (s *Setup) Say(level zerolog.Level, text string) {
	if s.Options.logFormat.Word == "json" {
		log := s.Logger().Level(zerolog.TraceLevel)
		log.WithLevel(level).Msg(text)
		return
	}
	_, _ = io.WriteString(s.Stderr,
		term.PrintableLines(strings.TrimRight(s.secrets.Set().String(text), "\n"))+"\n")
}
