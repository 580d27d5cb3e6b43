package sandbox

import (
	"fmt"
	"strings"
)

// services are what programs of macOS ask of others, and none of them does anything for them: no program is
// started by launchd, no other one is told what to do.
var services = []string{
	"com.apple.bsd.dirhelper", "com.apple.logd", "com.apple.system.logger",
	"com.apple.system.notification_center",
	"com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership",
}

// trustServices check certificates, for a command with the network.
var trustServices = []string{"com.apple.SecurityServer", "com.apple.SystemConfiguration.configd",
	"com.apple.trustd.agent"}

// systemFilesOfMac are what a command of macOS may read that may not read all.
var systemFilesOfMac = []string{
	"/System", "/Library", "/usr", "/bin", "/sbin", "/opt", "/dev", "/private/etc", "/private/var/db",
	"/Applications/Xcode.app",
}

// devicesOfMac may be written by every command.
var devicesOfMac = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty",
	"/dev/dtracehelper"}

// profile returns the policy as macOS's sandbox-exec takes it. The last rule that fits an operation counts.
// All paths are without symbolic links, by which that system does not go.
func (p *Policy) profile() string {
	b := &strings.Builder{}
	rule := func(verb, operation, filter string, values ...string) {
		if filter != "" && len(values) == 0 {
			return
		}
		fmt.Fprintf(b, "(%s %s", verb, operation)
		for _, value := range values {
			fmt.Fprintf(b, "\n\t(%s %s)", filter, quoted(value))
		}
		b.WriteString(")\n")
	}
	b.WriteString("(version 1)\n(allow default)\n")

	rule("deny", "file-write*", "")
	rule("allow", "file-write*", "literal", devicesOfMac...)
	rule("allow", "file-write*", "subpath", p.Write...)
	rule("deny", "file-write*", "subpath", p.Keep...)
	if p.Read != nil {
		rule("deny", "file-read-data", "")
		rule("allow", "file-read-data", "literal", "/")
		rule("allow", "file-read-data", "subpath", systemFilesOfMac...)
		rule("allow", "file-read-data", "subpath", p.Read...)
		rule("allow", "file-read-data", "subpath", p.Write...)
	}
	rule("deny", "file-read*", "subpath", p.Hide...)
	rule("deny", "file-write*", "subpath", p.Hide...)

	if !p.Network {
		rule("deny", "network*", "")
	}
	if p.Sockets {
		b.WriteString("(allow network* (remote unix-socket) (local unix-socket))\n")
	} else {
		b.WriteString("(deny network* (remote unix-socket))\n")
	}
	rule("deny", "mach-lookup", "")
	rule("allow", "mach-lookup", "global-name", services...)
	if p.Network {
		rule("allow", "network-outbound", "literal", "/private/var/run/mDNSResponder") // it resolves names
		rule("allow", "mach-lookup", "global-name", trustServices...)
	}

	b.WriteString("(deny signal)\n(allow signal (target same-sandbox))\n")
	b.WriteString("(deny process-info*)\n(allow process-info* (target same-sandbox))\n")
	for _, operation := range []string{"appleevent-send", "job-creation", "mach-priv*", "mach-task-name",
		"system-socket"} {
		rule("deny", operation, "")
	}
	return b.String()
}

// quoted returns a text as a string of a profile.
func quoted(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }
