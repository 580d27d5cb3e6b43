package serve

import (
	"io"
	"strings"

	"github.com/rs/zerolog"

	"runnel/internal/stdio"
	"runnel/internal/term"
	"runnel/tools/config"
)

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
// nobody lists.
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
