package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// The profile of every form of a policy is that of its golden file.
func TestProfile(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*Policy{
		"default": {Write: []string{"/Users/me/app"}, Hide: []string{"/Users/me/.ssh"},
			Keep: []string{"/Users/me/app/.git/hooks"}},
		"network": {Write: []string{"/Users/me/app"}, Network: true},
		"sockets": {Write: []string{"/Users/me/app"}, Sockets: true},
		"all":     {Write: []string{"/Users/me/app"}, Network: true, Sockets: true},
		"read": {Write: []string{"/Users/me/app"}, Read: []string{"/Users/me/lib"},
			Hide: []string{"/Users/me/lib/.env"}},
		"quotes": {Write: []string{`/Users/me/a "b" \c`, "/Users/me/(d)"}},
	} {
		file := filepath.Join("testdata", "profiles", name+".sb")
		got := p.profile()
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		if n := strings.Count(got, "(") - strings.Count(got, ")"); n != 0 {
			t.Errorf("%s: %d brackets are open", name, n)
		}
	}
}

// What a policy hides it hides whatever else it says: the last rule counts.
func TestProfileOrder(t *testing.T) {
	t.Parallel()
	p := &Policy{Write: []string{"/a"}, Read: []string{"/a"}, Hide: []string{"/a/hidden"},
		Keep: []string{"/a/kept"}}
	got := p.profile()
	for rule, before := range map[string]string{
		`(deny file-read*` + "\n\t" + `(subpath "/a/hidden"))`: `(allow file-read-data` + "\n\t" +
			`(subpath "/a"))`,
		`(deny file-write*` + "\n\t" + `(subpath "/a/hidden"))`: `(allow file-write*` + "\n\t" +
			`(subpath "/a"))`,
		`(deny file-write*` + "\n\t" + `(subpath "/a/kept"))`: `(allow file-write*` + "\n\t" +
			`(subpath "/a"))`,
	} {
		if first, second := strings.LastIndex(got, before), strings.Index(got, rule); first < 0 ||
			second < first {
			t.Errorf("%s at %d, %s at %d", before, first, rule, second)
		}
	}
}
