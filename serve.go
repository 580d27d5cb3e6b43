package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
)

const about = `runnel serves your commands as MCP tools on stdin and stdout: a host starts it and calls them;
they run as tasks, and their output arrives while they run.`

const examples = `  # a tool without a config file
  runnel --tool 'gotest=go test -v {{package}}'

  # tools from a file
  runnel --config runnel.yaml

  # from a shell: write requests, wait for all answers
  printf '%s\n' "$INITIALIZE" "$CALL" | runnel --drain -1 --tool 'hello=echo hello {{who}}'

  # is the file right?
  runnel config check runnel.yaml`

// helpTemplate shows the examples first: most people look for one that is near to what they want.
const helpTemplate = `{{with or .Long .Short}}{{. | trimTrailingWhitespaces}}

{{end}}{{if .HasExample}}Examples:
{{.Example}}

{{end}}Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
`

// rootCommand is the command line: runnel alone serves.
func (i *invocation) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "runnel",
		Short:         "Run commands as MCP tasks that stream their output",
		Long:          about + "\n\nEvery flag has an environment twin: RUNNEL_MAX_LINE for --max-line. A flag wins over it, it wins over the file.",
		Example:       examples,
		Args:          noArguments,
		RunE:          i.serve,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	i.options.register(root.Flags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{flagError(err), hint(cmd)}
	})
	serve := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP on stdin and stdout (as runnel alone does)",
		Args:  noArguments,
		RunE:  i.serve,
	}
	serve.Flags().SortFlags = false
	serve.Flags().AddFlagSet(root.Flags())
	root.AddCommand(serve, i.toolsCommand(root.Flags()), i.callCommand(root.Flags()), i.configCommand(root.Flags().Lookup("config")), versionCommand())
	root.SetHelpTemplate(helpTemplate)
	return root
}

func hint(cmd *cobra.Command) string {
	return fmt.Sprintf("see %s --help", cmd.CommandPath())
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%s: unknown argument %q", cmd.CommandPath(), args[0])
	if cmd.HasAvailableSubCommands() {
		err = fmt.Errorf("unknown command %q", args[0])
		cmd.SuggestionsMinimumDistance = 2 // letters
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w (did you mean %s?)", err, near[0])
		}
	}
	return &usageError{err, hint(cmd)}
}

// serve runs until the input ends, ctx does, or the output fails.
func (i *invocation) serve(cmd *cobra.Command, _ []string) error {
	if err := i.options.readEnvironment(cmd.Flags(), i.getenv); err != nil {
		return &usageError{err, hint(cmd)}
	}
	config, file, err := i.loadConfig()
	if err != nil {
		return err
	}
	registry, count, err := i.registry(config)
	if err != nil {
		return err
	}
	log := i.logger()
	if isTerminal(i.stdin) {
		i.say(zerolog.InfoLevel, "runnel speaks MCP, one JSON message a line, with the host that starts it; this is a terminal. Ctrl-D ends it, runnel --help tells more.")
	}
	if count == 0 {
		log.Warn().Msg("no tools: name some with --tool or in a config file")
	}
	log.Info().Str("version", version()).Str("config", file).Int("tools", count).Msg("serving")
	ctx := cmd.Context()
	switch {
	case !i.reloads || signal.Ignored(syscall.SIGHUP): // as under nohup
	case file == "":
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP) // there is nothing to read again: the terminal has gone
		defer stop()
	default:
		watch, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); i.reload(watch, file, registry, log) }()
		defer func() { stop(); <-ended }()
	}
	return i.connect(ctx, config, registry, log)
}

// connect wires the rooms and serves one client.
func (i *invocation) connect(ctx context.Context, config *tools.Config, registry *tools.Registry, log zerolog.Logger) error {
	server := rpc.NewServer(&rpc.Options{
		Info:         mcp.Implementation{Name: config.Server.Name, Version: version()},
		Instructions: config.Server.Instructions,
		MaxLine:      int(config.Limits.MaxLine),
		MaxInFlight:  config.Limits.MaxInFlight,
		Drain:        drain(config.Limits.Drain),
		Log:          log,
	})
	runner := tasks.NewRunner(tasks.Options{
		Store:        tasks.NewMemory(),
		Owner:        config.Server.Owner,
		TTL:          time.Duration(config.Tasks.TTL),
		MaxTTL:       time.Duration(config.Tasks.MaxTTL),
		PollInterval: time.Duration(config.Tasks.PollInterval),
		MaxLive:      config.Tasks.MaxLive,
		MaxPending:   int(config.Partials.MaxPending),
		Log:          log,

		ErrorsComplete: config.Tasks.FailedExit == "completed",
	})
	// When the input has ended or a signal has come, no child is left behind.
	defer runner.Close()
	runner.Register(server)
	tools.Serve(server, registry, runner, tools.ServeOptions{
		Pump:                partials.PumpOptions{Pace: time.Duration(config.Partials.Pace), MaxBytes: int(config.Partials.MaxBytes)},
		SyncWait:            time.Duration(config.Tasks.SyncWait),
		ImmediateWait:       time.Duration(config.Tasks.ImmediateWait),
		Heartbeat:           time.Duration(config.Tasks.Heartbeat),
		FallbackTools:       config.FallbackTools,
		RequiredFallthrough: config.Compat.RequiredFallthrough,
		Log:                 log,
	})
	server.OnDrain(func(ctx context.Context) { _ = runner.Wait(ctx) }) // its error only says that ctx has ended
	err := server.Serve(ctx, i.stdin, i.stdout)
	if err != nil && ctx.Err() != nil {
		return nil // a signal is a way to end
	}
	return err
}

// drain spells a time as rpc.Options does, where 0 means the default.
func drain(d tools.Drain) time.Duration {
	if d == 0 {
		return time.Nanosecond
	}
	return time.Duration(d)
}

// loadConfig reads the config file, if there is one, and sets over it what flags and variables say.
// file is "" if there is none.
func (i *invocation) loadConfig() (config *tools.Config, file string, err error) {
	if file, err = i.findConfig(); err != nil {
		return nil, "", err
	}
	config = tools.DefaultConfig()
	if file != "" {
		if config, err = tools.LoadConfig(file); err != nil {
			return nil, "", i.configError(err)
		}
	}
	for _, s := range i.options.settings {
		if from := i.options.from[s.flag]; from != "" {
			if err := config.Set(s.path, s.text, from); err != nil {
				return nil, "", &usageError{fmt.Errorf("%s: %w", from, err), ""}
			}
		}
	}
	return config, file, nil
}

func (i *invocation) findConfig() (string, error) {
	if i.options.config != "" {
		return i.options.config, nil
	}
	file, err := tools.FindConfig(tools.ConfigPlaces(i.getenv))
	if err != nil {
		return "", &usageError{fmt.Errorf("looking for a config file: %w", err), ""}
	}
	return file, nil
}

// configError names what named a file that cannot be read.
func (i *invocation) configError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("there is no config file %s", path.Path)
		}
		if from := i.options.from["config"]; from != "" {
			err = fmt.Errorf("%s: %w", from, err)
		}
	}
	return &usageError{err, ""}
}

// registry holds the tools of the config, of --tool and of --selftest. It reports all that is wrong with the config.
func (i *invocation) registry(config *tools.Config) (registry *tools.Registry, count int, err error) {
	registry = &tools.Registry{}
	sources := map[string]string{}
	var errs []error
	add := func(tool tools.Tool, name, from string) {
		if other, taken := sources[name]; taken {
			errs = append(errs, fmt.Errorf("%s: tool %q is there already, from %s", from, name, other))
			return
		}
		sources[name] = from
		if err := registry.Add(tool); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", from, err))
		}
	}
	commands, err := config.Commands(i.env)
	errs = append(errs, config.Check(), err)
	for _, c := range commands {
		name := c.Describe().Name
		add(c, name, config.Origin("tools."+name))
	}
	for _, spec := range i.options.tools {
		c, err := tools.NewCommandLine(spec, tools.Environment{Vars: i.env})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s", i.options.from["tool"], allowedInParentheses(err)))
			continue
		}
		add(c, c.Describe().Name, i.options.from["tool"])
	}
	if i.options.selftest {
		for _, tool := range tools.SelfTest() {
			add(tool, tool.Describe().Name, i.options.from["selftest"])
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, 0, &usageError{err, ""}
	}
	return registry, len(sources), nil
}
