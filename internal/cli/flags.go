package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/serve"
	"runnel/tools/config"
)

// addServeFlags adds the flags of serve to a command. Those that change nothing most people care about there are taken, since a host's
// flags may be given as they are, but not shown.
func addServeFlags(flags, serveFlags *pflag.FlagSet, shown ...string) {
	serveFlags.VisitAll(func(f *pflag.Flag) {
		own := *f
		own.Hidden = !slices.Contains(shown, f.Name)
		flags.AddFlag(&own)
	})
}

// outputFlag adds -o, which says how a command prints: text and the formats that are described.
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

// span is the time of a flag: written as in the config, and not negative.
type span time.Duration

func (s *span) String() string {
	if *s == 0 {
		return "0" // which help does not show as a default
	}
	return config.Duration(*s).String()
}

func (s *span) Type() string { return "duration" }

func (s *span) Set(text string) error {
	var d config.Duration
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	if d < 0 {
		return fmt.Errorf("%s is negative; allowed: 0 or more", text)
	}
	*s = span(d)
	return nil
}

// position is a place in an output: how many bytes stand before it.
type position int64

func (p *position) String() string { return fmt.Sprint(int64(*p)) }

func (p *position) Type() string { return "bytes" }

func (p *position) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return fmt.Errorf("%q is no position; allowed: a whole number of bytes, 0 or more", text)
	}
	*p = position(n)
	return nil
}

// readEnvironment gives the flags of a command that were not set the values of their variables.
func (i *invocation) readEnvironment(cmd *cobra.Command) error {
	if err := i.Options.ReadEnvironment(cmd.Flags(), i.Getenv); err != nil {
		return &serve.UsageError{Err: err, Hint: hint(cmd)}
	}
	return nil
}

// readEnvironmentQuietly is readEnvironment for a command whose output stands beside the log: what a host wants to know of is noise
// there, unless somebody asks for it.
func (i *invocation) readEnvironmentQuietly(cmd *cobra.Command) error {
	err := i.readEnvironment(cmd)
	if i.Options.From["log-level"] == "" {
		i.Options.LogLevel.Word = "warn"
	}
	return err
}

// flagError words what pflag found wrong with the flags of a command.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &value):
		cause := errors.Unwrap(value)
		if value.GetFlag().Value.Type() == "bool" {
			cause = fmt.Errorf("%q is no truth value; allowed: true, false", value.GetValue())
		}
		err = fmt.Errorf("--%s: %s", value.GetFlag().Name, serve.AllowedInParentheses(cause))
	case errors.As(err, &unknown):
		name, letters := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()
		names := commandNames(cmd) // --doctor
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		if f := cmd.Flags().Lookup("output"); f != nil && f.Shorthand == "o" && (name == "json" || name == "ndjson") {
			return fmt.Errorf("unknown flag --%s (write -o %s)", name, name)
		}
		err = didYouMean(fmt.Errorf("unknown flag %s", dashed(name, letters)), "--"+cmp.Or(letters, name), names) // -config
	case errors.As(err, &missing):
		name, _ := pflag.UnquoteUsage(missing.GetFlag())
		err = fmt.Errorf("%s needs a value: %s", dashed(missing.GetSpecifiedName(), missing.GetSpecifiedShortnames()), name)
	}
	return err
}

// dashed is a flag as it was written: letters are those that stood behind a single dash, if one did.
func dashed(name, letters string) string {
	if letters != "" {
		return "-" + name
	}
	return "--" + name
}
