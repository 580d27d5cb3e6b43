package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

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

// help shows the examples first: most people look for one that is near to what they want. It is no template: with
// text/template, which calls methods by their names, the linker must keep all methods of all packages.
func help(cmd *cobra.Command, _ []string) {
	var b strings.Builder
	fmt.Fprintln(&b, cmd.Short)
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	fmt.Fprintf(&b, "\nUsage:\n  %s\n", cmd.UseLine())
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(cmd.Long))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsages(), "\n "))
	}
	_, _ = io.WriteString(cmd.OutOrStdout(), b.String()) // nobody reads it
}

// rootCommand is the command line: runnel alone serves.
func (i *invocation) rootCommand() *cobra.Command {
	root := i.serveAlone()
	i.addCommands(root)
	return root
}

// serveAlone is the command line without the other commands: to make them all takes a tenth of a start.
func (i *invocation) serveAlone() *cobra.Command {
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
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// onlyServes tells whether the arguments are flags of serve and nothing else: no command, no wish for help.
func onlyServes(flags *pflag.FlagSet, args []string) bool {
	for n := 0; n < len(args); n++ {
		name, found := strings.CutPrefix(args[n], "--")
		name, _, hasValue := strings.Cut(name, "=")
		f := flags.Lookup(name)
		if !found || f == nil {
			return false
		}
		if !hasValue && f.NoOptDefVal == "" {
			n++ // its value
		}
	}
	return true
}

func (i *invocation) addCommands(root *cobra.Command) {
	i.options.showDefaults(root.Flags())
	root.CompletionOptions.DisableDefaultCmd = false
	serve := &cobra.Command{
		Use:     "serve",
		Short:   "Serve MCP on stdin and stdout (as runnel alone does)",
		Example: "  runnel serve --config runnel.yaml",
		Args:    noArguments,
		RunE:    i.serve,
	}
	serve.Flags().SortFlags = false
	serve.Flags().AddFlagSet(root.Flags())
	root.AddCommand(serve, i.toolsCommand(root.Flags()), i.callCommand(root.Flags()), i.tasksCommand(root.Flags()), i.traceCommand(), i.doctorCommand(root.Flags()), i.configCommand(root.Flags().Lookup("config")), manCommand(), versionCommand())
	root.SetHelpFunc(help)
	completeFlags(root)
	mendCompletion(root)
	mendHelp(root)
}

// mendCompletion makes of cobra's command for completions one that tells what is wrong, with examples.
func mendCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, _ := root.Find([]string{"completion"})
	cmd.Example = "  source <(runnel completion bash)"
	cmd.Args = noArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return &usageError{errors.New("runnel completion: of which shell? bash, fish, powershell or zsh"), hint(cmd)}
	}
	examples := map[string]string{
		"bash":       "  source <(runnel completion bash)",
		"fish":       "  runnel completion fish | source",
		"powershell": "  runnel completion powershell | Out-String | Invoke-Expression",
		"zsh":        `  runnel completion zsh > "${fpath[1]}/_runnel"`,
	}
	for _, shell := range cmd.Commands() {
		shell.Example, shell.Args = examples[shell.Name()], noArguments
	}
}

// mendHelp lets cobra's command for help tell of a command that there is none.
func mendHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	cmd, _, _ := root.Find([]string{"help"})
	cmd.Run = nil
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return noArguments(about, rest)
		}
		about.InitDefaultHelpFlag()
		return about.Help()
	}
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
	store, err := i.store(config, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := store.Close(); err != nil {
			log.Error().Err(err).Msg("closing the state")
		}
	}()
	warnOfState(store, log)
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
		go func() { defer close(ended); i.reload(watch, file, config, registry, log) }()
		defer func() { stop(); <-ended }()
	}
	return i.connect(ctx, config, registry, store, log)
}

// recoverDelay is when a state that is there is opened, if no task has opened it: tasks of a runnel that is gone
// have their end then. A client that starts a server only to probe it has ended it by then.
const recoverDelay = time.Second

// closingStore is a store that is closed in the end.
type closingStore interface {
	tasks.Store
	io.Closer
}

type memory struct{ *tasks.Memory }

func (memory) Close() error { return nil }

// store is where tasks live.
func (i *invocation) store(config *tools.Config, log zerolog.Logger) (closingStore, error) {
	if config.State.InMemory() {
		return memory{tasks.NewMemory()}, nil
	}
	dir, err := config.StateDir(i.getenv)
	switch {
	case errors.Is(err, tools.ErrNoHome) && config.Detaches() != "":
		return nil, &usageError{fmt.Errorf("tools.%s.detach needs tasks on disk, and %w; name a directory with --state", config.Detaches(), err), ""}
	case errors.Is(err, tools.ErrNoHome): // some hosts start their servers with next to no environment
		log.Warn().Err(err).Msg("tasks live in memory: name a directory with --state to keep them")
		return memory{tasks.NewMemory()}, nil
	case err != nil:
		return nil, &usageError{err, ""}
	}
	return tasks.NewSQLite(tasks.SQLiteOptions{Dir: dir, MaxState: int64(config.State.MaxState), Limits: limits(config), Log: log}), nil
}

// warnOfState tells of a state that cannot be written before the first task fails of it.
func warnOfState(store closingStore, log zerolog.Logger) {
	s, ok := store.(*tasks.SQLite)
	if !ok {
		return
	}
	there := nearest(s.Dir())
	if err := unix.Access(there, unix.W_OK|unix.X_OK); err != nil {
		log.Warn().Err(err).Str("dir", there).Msg("tasks cannot be kept: name another directory with --state, or --state memory")
	}
}

// nearest is a directory, or the first above it that is there: in it the others are made.
func nearest(dir string) string {
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// detaching is what the supervisors of detached tasks need to know, nil if nothing outlives this process.
func detaching(config *tools.Config, store closingStore) *tools.Detaching {
	s, ok := store.(*tasks.SQLite)
	if !ok {
		return nil
	}
	return &tools.Detaching{
		StateDir:       s.Dir(),
		MaxState:       config.State.MaxState,
		Owner:          config.Server.Owner,
		MaxPending:     config.Partials.MaxPending,
		ErrorsComplete: config.Tasks.FailedExit == "completed",
	}
}

// observer counts what happens to tasks, if somebody wants to know; it is nil if not.
func (i *invocation) observer(ctx context.Context, log zerolog.Logger) tasks.Observer {
	if i.options.metrics == "" {
		return nil
	}
	m := newMetrics()
	serveMetrics(ctx, string(i.options.metrics), m, log)
	return m
}

func limits(config *tools.Config) tasks.Limits {
	return tasks.Limits{
		MaxLive:              config.Tasks.MaxLive,
		MaxStartsPerMinute:   config.Tasks.MaxStartsPerMinute,
		MaxRequestsPerSecond: config.Tasks.MaxRequestsPerSecond,
	}
}

// recoverState opens a state that is there, after a while, for what has to be recovered in it. It ends when ctx does.
func recoverState(ctx context.Context, store closingStore, log zerolog.Logger) {
	s, ok := store.(*tasks.SQLite)
	if !ok || !s.Exists() {
		return
	}
	timer := time.AfterFunc(recoverDelay, func() {
		if err := s.Open(); err != nil && ctx.Err() == nil {
			log.Error().Err(err).Msg("recovering tasks")
		}
	})
	context.AfterFunc(ctx, func() { timer.Stop() })
}

// connect wires the rooms and serves one client.
func (i *invocation) connect(ctx context.Context, config *tools.Config, registry *tools.Registry, store closingStore, log zerolog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	recoverState(ctx, store, log)
	server := rpc.NewServer(&rpc.Options{
		Info:         mcp.Implementation{Name: config.Server.Name, Version: version()},
		Instructions: config.Server.Instructions,
		MaxLine:      int(config.Limits.MaxLine),
		MaxInFlight:  config.Limits.MaxInFlight,
		Drain:        drain(config.Limits.Drain),
		Log:          log,
	})
	runner := tasks.NewRunner(tasks.Options{
		Store:        store,
		Owner:        config.Server.Owner,
		TTL:          time.Duration(config.Tasks.TTL),
		MaxTTL:       time.Duration(config.Tasks.MaxTTL),
		PollInterval: time.Duration(config.Tasks.PollInterval),
		Limits:       limits(config),
		Observer:     i.observer(ctx, log),
		MaxPending:   int(config.Partials.MaxPending),
		Log:          log,

		ErrorsComplete: config.Tasks.FailedExit == "completed",
	})
	// When the input has ended or a signal has come, no child is left behind.
	stop := func() { stopTasks(runner.Close, registry.Close) }
	defer registry.Close()
	defer stop()
	runner.Register(server)
	tools.Serve(server, registry, runner, tools.ServeOptions{
		Pump:                partials.PumpOptions{Pace: time.Duration(config.Partials.Pace), MaxBytes: int(config.Partials.MaxBytes)},
		SyncWait:            time.Duration(config.Tasks.SyncWait),
		ImmediateWait:       time.Duration(config.Tasks.ImmediateWait),
		Heartbeat:           time.Duration(config.Tasks.Heartbeat),
		FallbackTools:       config.FallbackTools,
		RequiredFallthrough: config.Compat.RequiredFallthrough,
		Detaching:           detaching(config, store),
		Log:                 log,
	})
	server.OnDrain(func(ctx context.Context) { _ = runner.Wait(ctx) }) // its error only says that ctx has ended
	server.OnStop(stop)
	err := server.Serve(ctx, i.stdin, i.stdout)
	if err != nil && ctx.Err() != nil {
		return nil // a signal is a way to end
	}
	return err
}

// taskGrace is how long tasks may take to end: longer than commands by default, and than calls of other servers.
const taskGrace = 10 * time.Second

// stopTasks ends all tasks. When they take too long the upstreams are ended under them: no call outlasts its connection.
func stopTasks(end, endUpstreams func()) {
	defer time.AfterFunc(taskGrace, endUpstreams).Stop()
	end()
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
		return "", &usageError{fmt.Errorf("looking for a config file: %w", err),
			"name one with --config (/dev/null is an empty one), or set HOME or XDG_CONFIG_HOME to a directory that can be read"}
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

// registry holds the tools of the config, of --tool and of --selftest, and the upstreams; count is of all of them. It reports all that is wrong with the config.
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
		if name == i.detach {
			errs = append(errs, detach(tool, config))
		}
		if err := registry.Add(tool); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", from, err))
		}
	}
	commands, err := config.Commands(i.env)
	upstreams, wrong := config.Servers(i.env, version(), i.logger())
	errs = append(errs, config.Check(), err, wrong)
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
	for _, u := range upstreams {
		errs = append(errs, registry.AddUpstream(u))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, 0, &usageError{err, ""}
	}
	return registry, len(sources) + len(upstreams), nil
}
