package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/term"
	"runnel/tools/config"
)

// configCommand is "runnel config".
func (i *invocation) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a config file and show its tools",
		Long: "Checks FILE, or else the config file that runnel would read. Mistakes go to stderr, " +
			"with file and line; the exit code is 2 then.",
		Example: "  runnel config check runnel.yaml",
		Args:    atMostOne,
		RunE:    i.checkConfig,
	}
	check.Flags().AddFlag(i.flags.Lookup("config"))
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the config file, for editors",
		Example: "  runnel config schema > runnel.schema.json\n  # then, on the first line of " +
			"runnel.yaml:\n  # yaml-language-server: $schema=runnel.schema.json",
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := i.Stdout.Write(config.Schema())
			return err
		},
	}
	conf := &cobra.Command{
		Use:     "config COMMAND",
		Short:   "Check the config file, print its schema",
		Example: "  runnel config check runnel.yaml",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return misuse(cmd, "runnel config needs a command: check or schema")
		},
	}
	conf.AddCommand(check, schema)
	return conf
}

func (i *invocation) checkConfig(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		i.Options.Config = args[0]
		delete(i.Options.From, "config")
	} else if _, err := os.Stat(config.Project()); err == nil && i.Options.Config == "" {
		i.Options.Config = config.Project() // trusted or not: a check runs nothing
	}
	conf, file, err := i.LoadConfig(cmd.Context())
	if err != nil {
		return err
	}
	if file == "" {
		places := strings.Join(config.Places(i.Getenv), ", ")
		return misuse(cmd, "no config file: there is none at %s", places)
	}
	if _, _, err := i.Registry(conf); err != nil { // it starts nothing
		return err
	}
	if err := summarize(i.Stdout, file, conf); err != nil {
		return err
	}
	refused := i.Trust().Refuses(file)
	if from := i.Options.From["config"]; from != "" && !strings.HasPrefix(from, "--") {
		refused = "" // the variable names it, for every command
	}
	for _, words := range []string{config.UnsetSecrets(i.Unset), conf.Unlisted(), conf.Spaced(), refused} {
		if words != "" {
			i.Say(zerolog.WarnLevel, words)
		}
	}
	return nil
}

// summarize prints the tools and servers of a config.
func summarize(w io.Writer, file string, conf *config.Config) error {
	if _, err := fmt.Fprintf(w, "%s: fine, %s%s\n", file, term.Count(len(conf.Tools), "tool"),
		conf.AndServers()); err != nil {
		return err
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(conf.Tools)) {
		tool := conf.Tools[name]
		runs := strings.Join(tool.Command, " ")
		if tool.Shell != "" {
			runs = "sh: " + strings.Join(strings.Split(strings.TrimSpace(tool.Shell), "\n"), "; ")
		}
		if m := tool.Model; m != nil {
			runs = strings.TrimSpace("model: " + m.API + " " + m.Name)
			if m.URL != "" {
				runs += " at " + m.URL
			}
		}
		if len(tool.Steps) > 0 {
			var steps []string
			for _, step := range tool.Steps {
				steps = append(steps, step.ID)
			}
			runs = "steps: " + strings.Join(steps, ", ")
		}
		if runs == "" && tool.Runs != "" {
			runs = "what the workers of " + tool.Runs + " have"
		}
		rows = append(rows, []string{"  " + name, term.Shorten(term.Printable(runs))})
	}
	for _, name := range slices.Sorted(maps.Keys(conf.Upstreams)) {
		runs := cmp.Or(strings.Join(conf.Upstreams[name].Command, " "), conf.Upstreams[name].URL)
		rows = append(rows, []string{"  " + name, "server: " + term.Shorten(term.Printable(runs))})
	}
	_, err := io.WriteString(w, term.Table(rows))
	return err
}
