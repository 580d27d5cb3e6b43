package cli

import (
	"runtime"
	"time"

	"runnel/internal/fleet"

	"github.com/spf13/cobra"
)

// defaultWorkDrain is how long tasks may go on after SIGTERM: systems that stop machines often wait little
// longer.
const defaultWorkDrain = 10 * time.Minute

// workCommand is "runnel work".
func (i *invocation) workCommand() *cobra.Command {
	o := fleet.Options{Drain: defaultWorkDrain}
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Run the tasks that runnels on other machines offer to workers",
		Long: `Takes calls that other runnels offer through a shared state, and runs them with the tools of
its own config: with the commands, files and variables of this machine. Workers of a class run the tools
with "runs: CLASS" in the config; a tool without it is run by workers of the first class named. After Ctrl-C
or SIGTERM a worker takes no more calls, and running ones may end; a second signal ends it at once.`,
		Example: `  # run what is offered to the classes that runnel.yaml names
  runnel work --state nats://HOST:4222 --config runnel.yaml

  # four at a time, for workers of one class
  runnel work --state nats://HOST:4222 --config runnel.yaml --class builds --slots 4`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Slots < 1 {
				return misuse(cmd, "runnel work: --slots %d: use 1 or more", o.Slots)
			}
			if o.Each < 0 {
				return misuse(cmd, "runnel work: --owner-slots %d: use 1 or more; 0 = no limit", o.Each)
			}
			return i.Work(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.Classes, "class", nil,
		"take the calls that are offered to this `CLASS`; repeatable (else the classes that the tools name)")
	flags.IntVar(&o.Slots, "slots", runtime.NumCPU(), "run at most `N` tasks at once")
	flags.StringSliceVar(&o.Owners, "owners", nil,
		"take the tasks of these `OWNERS`, in turn (else those of --owner)")
	flags.IntVar(&o.Each, "owner-slots", 0, "run at most `N` tasks of an owner at once (0 = no limit)")
	flags.StringVar(&o.Name, "name", "",
		"the worker's `NAME`, by which runnel fleet drain finds it (else the host's)")
	flags.StringSliceVar(&o.Labels, "label", nil,
		"what runnel fleet shows of this worker, as `KEY=VALUE`; repeatable")
	durationFlag(flags, &o.Drain, "drain",
		"after SIGTERM, let running tasks go on for this `DURATION`, then stop them")
	flags.Lookup("drain").DefValue = defaultWorkDrain.String()
	i.addSettings(flags, "tool", "selftest", "max-result", "notify", "metrics", "log-level", "log-format")
	return cmd
}
