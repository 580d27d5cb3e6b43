package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/hosts"
	"runnel/internal/serve"
	"runnel/internal/system"
	"runnel/tools/config"
	"runnel/tools/view"
)

// uiCommand is "runnel ui".
func (i *invocation) uiCommand() *cobra.Command {
	address, noOpen := config.Address("127.0.0.1:0"), false
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show in a browser what runs: output as it comes, past runs, cancel and run again",
		Long: `Serves the live view on this machine, prints its address, and opens it in your browser. It
shows all tasks of the state, also those of other runnels: their output as it comes, with colours and
search, when it came, and how long the last runs took. A task can be cancelled no matter where it runs. "Run
again" runs it here, with the tools of this config, until Ctrl-C ends the view.

Anybody who has the address can do all of this: it holds a token that is new each time. The page loads
nothing from other servers.`,
		Example: `  runnel ui

  # without a browser on this machine: ssh -L 8080:127.0.0.1:8080 MACHINE, and open what it prints
  runnel ui --addr 127.0.0.1:8080 --no-open`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, unwritten := cmd.Context(), error(nil)
			i.Installed = i.hostsWithRunnel
			err := i.ServeView(ctx, address, func(url string) {
				if _, unwritten = fmt.Fprintln(i.Stdout, url); unwritten == nil && !noOpen {
					i.openBrowser(url)
				}
			})
			return errors.Join(err, unwritten)
		},
	}
	cmd.Flags().SortFlags = false
	serve.LoopbackFlag(cmd.Flags(), &address, "addr",
		"listen at `ADDR`, an address of this machine alone; port 0 = any that is free")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "only print the address")
	i.addSettings(cmd.Flags(), "tool", "selftest", "max-result", "notify")
	return cmd
}

// openBrowser opens the view, or says why it could not.
func (i *invocation) openBrowser(url string) {
	if desktop := i.Getenv("DISPLAY") + i.Getenv("WAYLAND_DISPLAY"); runtime.GOOS != "windows" &&
		runtime.GOOS != "darwin" && desktop == "" {
		return // xdg-open would try browsers of the terminal
	}
	if err := system.OpenURL(url, i.Env); err != nil {
		i.Say(zerolog.WarnLevel,
			"runnel ui: open the address in your browser; it could not be opened for you: "+err.Error())
	}
}

// hostsWithRunnel returns the hosts that start runnel, and the file that says so. A file that cannot be read
// is runnel doctor's subject.
func (i *invocation) hostsWithRunnel() []view.Installed {
	found := []view.Installed{}
	program, _ := os.Executable()
	for _, h := range hosts.Table {
		files, _ := h.Files(hosts.This(i.Getenv))
		for _, file := range files {
			text, err := hosts.Read(file)
			if err != nil || text == nil {
				continue
			}
			servers, _ := h.Servers(text)
			for _, s := range servers {
				if s.Runnel(program) && !s.Off {
					found = append(found, view.Installed{Host: h.Title, File: file})
					break
				}
			}
		}
	}
	return found
}
