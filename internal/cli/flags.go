package cli

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"runnel/internal/serve"
	"runnel/rpc/mcp"
	"runnel/tools/config"
)

// addServeFlags adds all flags of serve to a command that starts a server, so that it takes those that a
// host's file has. Help shows only those that matter for the command. A flag that the command has already
// stays.
func (i *invocation) addServeFlags(flags *pflag.FlagSet, shown ...string) {
	i.flags.VisitAll(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) != nil {
			return
		}
		own := *f
		own.Hidden = !slices.Contains(shown, f.Name)
		flags.AddFlag(&own)
	})
}

// addSettings adds those flags of serve that mean something to a command which starts no server for a host:
// some, and those of the log and of the config, which help shows with serve.
func (i *invocation) addSettings(flags *pflag.FlagSet, shown ...string) {
	for _, name := range append(shown, "config", "state", "owner", "set", "log-level", "log-format") {
		if flags.Lookup(name) == nil {
			own := *i.flags.Lookup(name)
			own.Hidden = !slices.Contains(shown, name) && name != "config" && name != "state" &&
				name != "owner"
			flags.AddFlag(&own)
		}
	}
}

// outputFlag adds -o, the format of what a command prints: text, or one of formats, each a word and its
// description.
func outputFlag(flags *pflag.FlagSet, formats ...string) *serve.Choice {
	words := []string{"text"}
	for _, f := range formats {
		word, _, _ := strings.Cut(f, " ")
		words = append(words, word)
	}
	o := serve.OneOf(words...)
	flags.VarP(o, "output", "o", "`FORMAT` of what is printed: text, "+strings.Join(formats, ", "))
	return o
}

// durationFlag adds a duration: written as in the config, and not negative.
func durationFlag(flags *pflag.FlagSet, to *time.Duration, name, usage string) {
	flags.Func(name, usage, func(text string) error {
		var d config.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil {
			return err
		}
		if d < 0 {
			return config.Wrong("0 or more", "%s is negative", text)
		}
		*to = time.Duration(d)
		return nil
	})
}

// writeLines writes each value on its own line.
func writeLines[T any](w io.Writer, list []T) error {
	for _, v := range list {
		if err := writeJSON(w, v); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes a value on one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// choiceOfVersions is a flag for a version of the protocol; "" = the newest that both sides know.
func choiceOfVersions() *serve.Choice {
	words := []string{""}
	for _, v := range mcp.Versions {
		words = append(words, v.Name)
	}
	return serve.OneOf(words...)
}
