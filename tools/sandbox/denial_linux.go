//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxDenied bounds what Denied returns, in bytes: a path in an output may be of any length.
const maxDenied = 256

// denials are the expressions that find what was refused; compiled when a command has failed, not at each
// start.
var denials = sync.OnceValue(func() (found struct{ refusals, named, noNetwork *regexp.Regexp }) {
	// How programs spell EACCES, EPERM, EROFS and, for what a sandbox hides, ENOENT.
	found.refusals = regexp.MustCompile(`(?i)permission denied|operation not permitted|read-only file system|no such file or directory`)
	// The paths that a line may name: between quotes, or between spaces and colons.
	found.named = regexp.MustCompile(`'[^']+'|"[^"]+"|‘[^’]+’|[^\s:;,'"()\[\]]+`)
	// How programs say that they have no network; the host or address that they name is in the group.
	found.noNetwork = regexp.MustCompile(`(?i)could not resolve host(?:name)?:? "?([\w.-]+)|(?:eai_again|enotfound|lookup) ([\w.-]+)|` +
		`dial \w+ (\S+): connect: network is unreachable|connect (?:enetunreach|eperm) (\S+)|connect to (?:host )?(\S+).*network is unreachable|` +
		`network is unreachable|temporary failure in name resolution|network unreachable|socket: operation not permitted`)
	return found
})

// Denied returns what the sandbox has refused to a command in dir, as far as the end of its output shows it,
// such as "write to /etc/hosts"; "" if it shows nothing. Neither the system nor the command says who has
// refused something, so a path counts only if the policy refuses it and this program would not be refused.
func (p *Policy) Denied(output, dir string) string {
	lines := strings.Split(output, "\n")
	slices.Reverse(lines) // the last is most likely the one that the command has failed of
	for _, line := range lines {
		if found := denials().refusals.FindString(line); found != "" {
			missing := strings.EqualFold(found, "no such file or directory")
			paths := denials().named.FindAllString(line, -1)
			slices.Reverse(paths) // the first may be the program that says it
			for _, path := range paths {
				path = strings.Trim(path, `'"‘’`)
				if !strings.Contains(path, "/") {
					continue
				}
				if !filepath.IsAbs(path) {
					path = filepath.Join(dir, path)
				}
				if what := p.refuses(filepath.Clean(path), missing); what != "" && len(what) <= maxDenied {
					return what
				}
			}
		}
		if host := denials().noNetwork.FindStringSubmatch(line); host != nil && !p.Network {
			if address := cmp.Or(host[1:]...); address != "" && len(address) <= maxDenied {
				return "connect to " + strings.Trim(address, `"',.`)
			}
			return "the network"
		}
	}
	return ""
}

// refuses returns what the policy refuses of a path and this program may do: reading or writing. missing says
// that the command has not found it, which is so of what is hidden.
func (p *Policy) refuses(path string, missing bool) string {
	real := path
	if parent, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		real = filepath.Join(parent, filepath.Base(path))
	}
	below := func(dir string) bool {
		resolved, err := filepath.EvalSymlinks(dir)
		return within(real, dir) || err == nil && within(real, resolved)
	}
	hidden := slices.ContainsFunc(p.Hide, below)
	if p.Read != nil && !hidden && !missing {
		hidden = !slices.ContainsFunc(slices.Concat(systemFiles, p.Read, p.Write), below)
	}
	_, err := os.Lstat(real)
	switch {
	case hidden && unix.Access(real, unix.R_OK) == nil:
		return "read of " + path
	case missing, slices.ContainsFunc(p.Write, below) && !slices.ContainsFunc(p.Keep, below):
		return ""
	case err != nil: // it would be made
		real = filepath.Dir(real)
	}
	if unix.Access(real, unix.W_OK) == nil {
		return "write to " + path
	}
	return ""
}
