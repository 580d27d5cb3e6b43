package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/hosts"
)

// uninstallCommand is "runnel uninstall".
func (i *invocation) uninstallCommand() *cobra.Command {
	var entry *entryFlags
	cmd := &cobra.Command{
		Use:   "uninstall HOST...",
		Short: "Take runnel out of a host's list of MCP servers",
		Long: `Removes what runnel install has written into a host's file. If nobody has written to the file
since, it is restored byte for byte; else everything that others have written stays. A server that install
--wrap has changed stays, and starts as before. An entry that you wrote yourself is removed, too, if it
starts runnel; a backup of the file is kept then.

Hosts: ` + strings.Join(hosts.IDs(), ", ") + `.`,
		Example: `  runnel uninstall claude-code
  runnel uninstall cursor vscode --scope project
  runnel uninstall claude-desktop --name everything`,
		ValidArgsFunction: completeHosts,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if len(ids) == 0 {
				return misuse(cmd, "runnel uninstall: from which host? %s", strings.Join(hosts.IDs(), ", "))
			}
			if err := checkHosts(cmd, ids); err != nil {
				return err
			}
			var errs []error
			for _, id := range ids {
				errs = append(errs, i.uninstall(hosts.Find(id), entry))
			}
			return errors.Join(errs...)
		},
	}
	entry = addEntryFlags(cmd.Flags())
	return cmd
}

func (i *invocation) uninstall(h *hosts.Host, entry *entryFlags) error {
	path, records, err := entry.file(i, h)
	if err != nil {
		return err
	}
	change, err := h.Uninstall(path, entry.name, records)
	switch {
	case err != nil:
		return err
	case change == nil:
		return fmt.Errorf("%s: %s has no server %q", h.Title, path, entry.name)
	}
	if change.Unwraps {
		return i.makeChange(entry, change,
			fmt.Sprintf("%s: in %s, the server %s starts without runnel again", h.Title, change.Path,
				entry.name))
	}
	return i.makeChange(entry, change,
		fmt.Sprintf("%s: the server %s was removed from %s", h.Title, entry.name, change.Path))
}
