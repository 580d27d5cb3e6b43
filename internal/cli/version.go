package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
)

// builtFrom describes the build: commit and date if they are known (in a package, or after "go build" in a
// checkout), compiler and system.
func builtFrom() string {
	var parts []string
	if serve.Commit != "" {
		parts = append(parts, "commit "+serve.Commit, serve.Date)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			const enough = 12
			parts = append(parts, "commit "+s.Value[:min(len(s.Value), enough)])
		case "vcs.time":
			day, _, _ := strings.Cut(s.Value, "T")
			parts = append(parts, day)
		case "vcs.modified":
			if s.Value == "true" {
				parts = append(parts, "modified")
			}
		}
	}
	return strings.Join(append(parts, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH), ", ")
}

func printVersion(w io.Writer) error {
	_, err := fmt.Fprintf(w, "runnel %s (%s)\n", serve.Version(), builtFrom())
	return err
}

func (i *invocation) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, its commit and its date",
		Example: "  runnel version",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return printVersion(i.Stdout) },
	}
}
