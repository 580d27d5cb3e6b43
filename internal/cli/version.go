package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
)

// builtFrom describes the build: commit and date if it noted them ("go build" in a checkout does), the compiler and the system.
func builtFrom() string {
	var parts []string
	info, _ := debug.ReadBuildInfo()
	settings := map[string]string{}
	if info != nil {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	if commit := settings["vcs.revision"]; commit != "" {
		const enough = 12
		parts = append(parts, "commit "+commit[:min(len(commit), enough)])
	}
	if settings["vcs.modified"] == "true" {
		parts = append(parts, "modified")
	}
	if day, _, ok := strings.Cut(settings["vcs.time"], "T"); ok {
		parts = append(parts, day)
	}
	return strings.Join(append(parts, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH), ", ")
}

func (i *invocation) printVersion() error {
	_, err := fmt.Fprintf(i.Stdout, "runnel %s (%s)\n", serve.Version(), builtFrom())
	return err
}

func (i *invocation) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, its commit and its date",
		Example: "  runnel version",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return i.printVersion() },
	}
}
