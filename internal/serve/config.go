package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"runnel/tools/config"
)

// settle is how long a config file must stay as it is before it is read again: editors write it in several steps.
const settle = 200 * time.Millisecond

// LoadConfig reads the config file, if there is one, and sets over it what flags and variables say.
// file is "" if there is none. A file that is left out is reported on stderr.
func (s *Setup) LoadConfig(ctx context.Context) (conf *config.Config, file string, err error) {
	conf, file, s.untrusted, err = s.ReadConfigs(ctx)
	if s.untrusted != nil {
		s.Say(zerolog.WarnLevel, "runnel: "+s.untrusted.Error())
	}
	return conf, file, err
}

// ReadConfigs is LoadConfig without a word on stderr; left says why the file in the current directory is left out, if it is.
func (s *Setup) ReadConfigs(ctx context.Context) (conf *config.Config, file string, left *untrusted, err error) {
	var text []byte
	file = s.Options.Config
	if file == "" && s.Wrapped == nil {
		if text, s.seen, left = s.Trust().readHere(); s.seen != nil {
			file = config.FileName
			conf, err = config.Parse(file, text)
		} else if file, err = config.Find(config.Places(s.Getenv)[1:]); err != nil {
			return nil, "", left, &UsageError{Err: fmt.Errorf("looking for a config file: %w", err), Hint: "name one with --config (/dev/null is an empty one), or set HOME or XDG_CONFIG_HOME to a directory that can be read"}

		}
	}
	switch {
	case file == "":
		conf = config.Default()
	case conf == nil && err == nil:
		for {
			s.seen, _ = os.Stat(file)
			if conf, err = readConfig(ctx, file, s.seen); err != errReplaced {
				break
			}
		}
	}
	if err != nil && ctx.Err() == nil {
		err = s.configError(err)
	}
	if err != nil {
		return nil, "", left, err
	}
	for _, f := range s.Options.settings {
		if from := s.Options.From[f.flag]; from != "" {
			if err := conf.Set(f.path, f.text, from); err != nil {
				return nil, "", left, &UsageError{Err: fmt.Errorf("%s: %w", from, err)}
			}
		}
	}
	return conf, file, left, nil
}

// errReplaced ends the wait for a pipe.
var errReplaced = errors.New("it is another file now")

// readConfig reads a config file. With a pipe it waits for a writer until ctx ends, or until another file has its name.
func readConfig(ctx context.Context, file string, info os.FileInfo) (*config.Config, error) {
	if info == nil || info.Mode().IsRegular() {
		return config.Load(file)
	}
	// Opened like this, a pipe does not wait for its writer, and a read of it can be ended.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	defer f.Close()
	if info.Mode()&fs.ModeNamedPipe == 0 {
		return parseConfig(file, f)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })()
	go endWhenReplaced(ctx, cancel, file, info)
	first, err := firstByte(f)
	var conf *config.Config
	if err == nil {
		conf, err = parseConfig(file, io.MultiReader(bytes.NewReader(first), f))
	}
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
		return conf, err
	case cause == errReplaced:
		return nil, errReplaced
	default:
		return nil, fmt.Errorf("reading the config %s: its end has not come: %w", file, cause)
	}
}

func parseConfig(file string, from io.Reader) (*config.Config, error) {
	text, err := config.Read(from)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	return config.Parse(file, text)
}

// firstByte waits for the first byte of a pipe.
func firstByte(f *os.File) ([]byte, error) {
	// A pipe that nobody has opened for writing is at its end.
	if w, err := os.OpenFile(f.Name(), os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		defer w.Close()
	} // else it cannot be opened twice, and has its writer
	b := make([]byte, 1)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("reading the config %s: %w", f.Name(), err)
	}
	return b, nil
}

// endWhenReplaced ends a context when another file has the name.
func endWhenReplaced(ctx context.Context, end context.CancelCauseFunc, file string, was os.FileInfo) {
	t := time.NewTicker(settle)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if now, _ := os.Stat(file); now == nil || !os.SameFile(now, was) {
				end(errReplaced)
				return
			}
		}
	}
}

// configError says which flag or variable named a file that cannot be read.
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
