package cli

import (
	"io"
	"strings"

	"runnel/internal/term"

	"github.com/rs/zerolog"
)

// logger writes to stderr: JSON, or text where somebody reads it on a terminal.
func (i *invocation) logger() zerolog.Logger {
	level, err := zerolog.ParseLevel(i.options.logLevel.word)
	if err != nil {
		panic("internal error: log level: " + err.Error())
	}
	w := zerolog.SyncWriter(i.stderr)
	if f := i.options.logFormat.word; f == "console" || f == "auto" && term.IsTerminal(i.stderr) {
		w = zerolog.ConsoleWriter{Out: w, NoColor: i.getenv("NO_COLOR") != "" || !term.IsTerminal(i.stderr)}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// say writes text for a person to stderr, or a log line where all of stderr must be JSON. It is no log, which a level may
// leave out.
func (i *invocation) say(level zerolog.Level, text string) {
	if i.options.logFormat.word == "json" {
		log := i.logger().Level(zerolog.TraceLevel)
		log.WithLevel(level).Msg(text)
		return
	}
	_, _ = io.WriteString(i.stderr, term.PrintableLines(strings.TrimRight(text, "\n"))+"\n")
}
