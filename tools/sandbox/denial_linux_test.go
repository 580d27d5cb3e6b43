//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a sandbox has refused is found in what programs of many kinds print, and nothing else is taken for it.
func TestDenied(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, dir := range []string{"mine/.git/hooks", "outside", "hidden"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"outside/file", "hidden/key"} {
		if err := os.WriteFile(filepath.Join(home, file), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &Policy{Write: []string{home + "/mine"}, Hide: []string{home + "/hidden"},
		Keep: []string{home + "/mine/.git/hooks"}}
	for said, want := range map[string]string{
		"/bin/sh: 1: cannot create H/outside/new: Read-only file system":                                                "write to H/outside/new",
		"bash: line 1: H/outside/file: Permission denied\nmake: *** [all] Error 1":                                      "write to H/outside/file",
		"touch: cannot touch 'H/outside/a b': Read-only file system":                                                    "write to H/outside/a b",
		"touch: cannot touch '../outside/x': Permission denied":                                                         "write to H/outside/x",
		"open H/outside/file: read-only file system":                                                                    "write to H/outside/file",
		"PermissionError: [Errno 13] Permission denied: 'H/outside/file'":                                               "write to H/outside/file",
		"Error: EROFS: read-only file system, open 'H/outside/file'":                                                    "write to H/outside/file",
		"sh: 1: cannot create .git/hooks/pre-commit: Read-only file system":                                             "write to H/mine/.git/hooks/pre-commit",
		"cat: H/hidden/key: Permission denied":                                                                          "read of H/hidden/key",
		"cat: H/hidden/key: No such file or directory":                                                                  "read of H/hidden/key",
		"cat: H/hidden/none: No such file or directory":                                                                 "",
		"cat: H/outside/none: No such file or directory":                                                                "",
		"sh: 1: cannot create H/mine/x: Permission denied":                                                              "",
		"H/outside/file is fine":                                                                                        "",
		"curl: (6) Could not resolve host: example.com":                                                                 "connect to example.com",
		"npm error getaddrinfo EAI_AGAIN packages.example.org":                                                          "connect to packages.example.org",
		"Get \"http://a.b/\": dial tcp: lookup a.b on 8.8.8.8:53: dial udp 8.8.8.8:53: connect: network is unreachable": "connect to a.b",
		"dial tcp 192.0.2.1:443: connect: network is unreachable":                                                       "connect to 192.0.2.1:443",
		"ssh: connect to host 192.0.2.1 port 22: Network is unreachable":                                                "connect to 192.0.2.1",
		"OSError: [Errno 101] Network is unreachable":                                                                   "the network",
	} {
		got := p.Denied(strings.ReplaceAll(said, "H", home), home+"/mine")
		if got = strings.ReplaceAll(got, home, "H"); got != want {
			t.Errorf("%s\n%q, not %q", said, got, want)
		}
	}
	if got := (&Policy{Network: true}).Denied("curl: (6) Could not resolve host: a.b", "/"); got != "" {
		t.Errorf("with the network: %q", got)
	}
}
