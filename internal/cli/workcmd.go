package cli

import (
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
)

// defaultWorkDrain is how long tasks may go on after SIGTERM: what stops machines often waits not much longer.
const defaultWorkDrain = 10 * time.Minute

// workCommand is "runnel work".
func (i *invocation) workCommand() *cobra.Command {
	o := serve.WorkOptions{Drain: defaultWorkDrain}
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Run the tasks that runnels on other machines offer to workers",
		Long: `Takes calls that other runnels offer through a state that they share, and runs them with the tools of its own config: their commands, files
and variables are this machine's. A tool with "runs: CLASS" in the config is run by workers of that class, one without it by those of
the first class that is named. After Ctrl-C or SIGTERM it takes no more, and what runs may end; a second signal ends it at once.`,
		Example: `  # run what is offered to the classes that runnel.yaml names
  runnel work --state nats://HOST:4222 --config runnel.yaml

  # four at a time, for workers of one class
  runnel work --state nats://HOST:4222 --config runnel.yaml --class builds --slots 4`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Slots < 1 {
				return misuse(cmd, "runnel work: --slots %d: use 1 or more", o.Slots)
			}
			return i.Work(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.Classes, "class", nil, "take what is offered to workers of this `CLASS`; repeatable (else the classes that the tools name)")
	flags.IntVar(&o.Slots, "slots", runtime.NumCPU(), "run at most `N` tasks at once")
	flags.StringSliceVar(&o.Owners, "owners", nil, "take the tasks of these `OWNERS`, in turn (else of --owner)")
	durationFlag(flags, &o.Drain, "drain", "after SIGTERM, let what runs go on for this `DURATION`; then it is stopped")
	flags.Lookup("drain").DefValue = defaultWorkDrain.String()
	i.addServeFlags(flags, "config", "state", "owner", "metrics", "log-level", "log-format")
	return cmd
}
