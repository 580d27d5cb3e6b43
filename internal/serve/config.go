package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/pause"
	"runnel/internal/system"
	"runnel/internal/trust"
	"runnel/tools/config"
	"runnel/tools/notify"
	"runnel/tools/secrets"
)

// settle is how long a config file must stay unchanged before it is read again: editors write it in several
// steps.
const settle = 200 * time.Millisecond

// LoadConfig reads the config file, if there is one, and applies flags and variables to it.
// It returns the file's path, "" if there is none. A file that is not used is reported on stderr.
func (s *Setup) LoadConfig(ctx context.Context) (*config.Config, string, error) {
	conf, file, left, err := s.ReadConfigs(ctx)
	s.untrusted = new(atomic.Pointer[trust.Refusal])
	if s.untrusted.Store(left); left != nil {
		s.Say(zerolog.WarnLevel, "runnel: "+left.Error())
	}
	return conf, file, err
}

// Untrusted reports whether the project's config file is left out. LoadConfig has said so.
func (s *Setup) Untrusted() bool { return s.left() != nil }

// left says why the project's config file is left out, nil if it is not.
func (s *Setup) left() *trust.Refusal {
	if s.untrusted == nil {
		return nil
	}
	return s.untrusted.Load()
}

// LoadStateConfig is LoadConfig for a command that looks at tasks and uses no tools. It reports a file that
// is not used only if the file may name another state or owner.
func (s *Setup) LoadStateConfig(ctx context.Context) (*config.Config, error) {
	conf, _, left, err := s.ReadConfigs(ctx)
	if err != nil || left == nil {
		return conf, err
	}
	theirs, err := config.Parse(left.Path, left.Text)
	unknown := left.Text == nil || err != nil // it may name any state and owner
	if !conf.Overridden("state.dir") && (unknown || theirs.State.Dir != conf.State.Dir) ||
		!conf.Overridden("server.owner") && (unknown || theirs.Server.Owner != conf.Server.Owner) {
		s.Say(zerolog.WarnLevel, "runnel: tasks of the state and the owner that the config file names are "+
			"not shown: "+left.Error())
	}
	return conf, nil
}

// ReadConfigs is LoadConfig without a report on stderr. left says why the project's file is not used, nil if
// it is not.
func (s *Setup) ReadConfigs(ctx context.Context) (conf *config.Config, file string, left *trust.Refusal,
	err error) {
	if s.secrets == nil {
		s.secrets = &secrets.Current{}
	}
	var text []byte
	file = config.Within(s.Options.Config)
	if file == "" && s.Wrapped == nil {
		project := config.Project()
		s.project = project
		if text, s.seen, left = s.Trust().Read(project); s.seen != nil {
			file = project
			conf, err = config.Parse(file, text)
		} else if file, err = config.Find(config.Places(s.Getenv)[1:]); err != nil {
			return nil, "", left, &UsageError{Err: fmt.Errorf("looking for a config file: %w", err),
				Hint: "name one with --config (/dev/null is an empty one), or set " + config.HomeVariable +
					" or " + config.ConfigVariable + " to a directory that can be read"}

		}
	}
	switch {
	case file == "":
		conf = config.Default()
		s.seen, _ = os.Stat(s.project)
	case conf == nil && err == nil:
		conf, err = s.readConfig(ctx, file)
	}
	if err != nil && ctx.Err() == nil {
		err = s.configError(err)
	}
	if err != nil {
		return nil, "", left, err
	}
	if err := s.Options.apply(conf); err != nil {
		return nil, "", left, &UsageError{Err: err}
	}
	if s.Notices == nil { // the first time: a log keeps its level and its format
		if conf.Given("log.level") && s.Options.From["log-level"] == "" {
			s.Options.LogLevel.Word = string(conf.Log.Level)
		}
		if s.Options.From["log-format"] == "" {
			s.Options.logFormat.Word = string(conf.Log.Format)
		}
		s.Notices = notify.New(s.secrets, s.Logger())
	}
	return conf, file, left, nil
}

// apply gives a config the values of the variables, then those of --set, then those of the flags.
func (o *options) apply(conf *config.Config) error {
	set := func(flags bool) error {
		for _, f := range o.settings {
			from := o.From[f.flag]
			// There are no texts if the command has another flag of this name.
			if len(f.texts) == 0 || from == "" || strings.HasPrefix(from, "--") != flags {
				continue
			}
			if err := conf.Set(f.key, from, f.texts...); err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
		}
		return nil
	}
	if err := set(false); err != nil {
		return err
	}
	for _, s := range o.sets {
		key, text, _ := strings.Cut(s, "=")
		if err := conf.Override(key, text); err != nil {
			return fmt.Errorf("--set: %w", err)
		}
	}
	return set(true)
}

// readConfig reads a config file. If it is a pipe, it waits until somebody has written to it, it is replaced
// by another file, or ctx ends.
func (s *Setup) readConfig(ctx context.Context, file string) (*config.Config, error) {
	s.seen, _ = os.Stat(file)
	// With NoWait, opening a pipe does not wait for its writer, and a deadline can end a read.
	f, err := os.OpenFile(file, os.O_RDONLY|system.NoWait, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	defer f.Close()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(reading, func() { _ = f.SetReadDeadline(time.Now()) })()
	if s.seen != nil && s.seen.Mode()&fs.ModeNamedPipe != 0 {
		go whileSame(reading, file, s.seen, stop)
	}
	for {
		text, err := config.Read(f)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("reading the config %s: its writer has not closed it: %w", file,
				context.Cause(ctx))
		case reading.Err() != nil: // the pipe was replaced
			return s.readConfig(ctx, file)
		case err != nil:
			return nil, fmt.Errorf("reading the config: %w", err)
		case len(text) > 0 || s.seen == nil || s.seen.Mode()&fs.ModeNamedPipe == 0:
			return config.Parse(file, text)
		}
		pause.For(reading, settle) // no process has opened the pipe for writing
	}
}

// whileSame calls replaced when another file takes the name of this one, since whoever writes to a pipe may
// stop in the middle. It returns then, or when ctx ends.
func whileSame(ctx context.Context, file string, was fs.FileInfo, replaced func()) {
	for ctx.Err() == nil {
		if now, _ := os.Stat(file); !os.SameFile(now, was) {
			replaced()
		}
		pause.For(ctx, settle)
	}
}

// configError adds to an error the flag or variable that named the file.
func (s *Setup) configError(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("there is no config file %s", path.Path)
		}
		if from := s.Options.From["config"]; from != "" {
			err = fmt.Errorf("%s: %w", from, err)
		}
	}
	return &UsageError{Err: err}
}
