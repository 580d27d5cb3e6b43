package notify

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"runnel/tools/process"
)

// desktop is the program that shows a notification.
type desktop struct{ program }

func (d *desktop) check() error {
	err := d.program.check()
	if err == nil && !slices.Contains([]string{"darwin", "windows"}, runtime.GOOS) && !hasBus(d.vars) {
		err = errors.New("no desktop can be reached: no user is logged in to one here")
	}
	return err
}

// desktopFor returns the way to a system's desktop. Titles and messages may come from strangers, so they are
// arguments and variables, and never part of a script.
func desktopFor(system string) func(n *notice) (argv []string, more map[string]string) {
	switch system {
	case "darwin":
		return func(n *notice) ([]string, map[string]string) {
			// The title does not begin with -, and after it osascript reads no flag.
			return []string{"osascript", "-e", "on run argv", "-e",
				"display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run",
				n.title(), n.Message}, nil
		}
	case "windows":
		return func(n *notice) ([]string, map[string]string) {
			return []string{"powershell.exe", "-NoProfile", "-NonInteractive", "-Command", toast},
				map[string]string{"RUNNEL_NOTICE_TITLE": n.title()}
		}
	}
	return func(n *notice) ([]string, map[string]string) {
		return []string{"notify-send", "--app-name=runnel", "--", n.title(), unmarked.Replace(n.Message)}, nil
	}
}

// runtimeDirs has a directory for each user who is logged in, with the socket of the desktop's bus (systemd's
// pam_systemd).
var runtimeDirs = "/run/user"

// withBus adds the variable by which notify-send finds the desktop, unless vars already have one: many hosts
// start their servers with little more than HOME and PATH.
func withBus(vars []string) []string {
	if hasBus(vars) {
		return vars
	}
	socket := filepath.Join(runtimeDirs, strconv.Itoa(os.Getuid()), "bus")
	if _, err := os.Stat(socket); err != nil {
		return vars
	}
	return append(slices.Clip(vars), "DBUS_SESSION_BUS_ADDRESS=unix:path="+socket)
}

// hasBus reports whether the variables lead to the desktop.
func hasBus(vars []string) bool {
	return slices.ContainsFunc([]string{"DBUS_SESSION_BUS_ADDRESS",
		"XDG_RUNTIME_DIR"}, func(name string) bool {
		value, _ := process.LookupEnv(vars, name)
		return value != ""
	})
}

// unmarked escapes what notify-send (\n, \033) and the desktop (<a href>, &amp;) would interpret in the text
// of a notification (https://specifications.freedesktop.org/notification-spec, "Markup").
var unmarked = strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", ">", "&gt;")

// toast is a script that shows a notification under the name of PowerShell, since only installed programs
// have one of their own. The text is only ever set as the content of text nodes.
const toast = `$ErrorActionPreference = 'Stop'; ` +
	`$manager = [Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime]; ` +
	`$xml = $manager::GetTemplateContent([Windows.UI.Notifications.ToastTemplateType]::ToastText02); ` +
	`$lines = $xml.GetElementsByTagName('text'); ` +
	`[void]$lines.Item(0).AppendChild($xml.CreateTextNode($env:RUNNEL_NOTICE_TITLE)); ` +
	`[void]$lines.Item(1).AppendChild($xml.CreateTextNode([string]$env:RUNNEL_TASK_MESSAGE)); ` +
	`$manager::CreateToastNotifier('{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\WindowsPowerShell\v1.0\powershell.exe').Show([Windows.UI.Notifications.ToastNotification]::new($xml))`
