package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// requirementsFile lists what 2026-07-28 and the tasks extension ask of a server on stdio. It tells its
// format.
const requirementsFile = "stateless-requirements.txt"

func TestEveryRequirementHasATranscript(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "transcripts", requirementsFile))
	if err != nil {
		t.Fatal(err)
	}
	all := transcripts(t)
	shown, known := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 3 {
			t.Errorf("a row is page, section | statement | transcripts: %s", line)
			continue
		}
		statement := strings.TrimSpace(cells[0]) + ": " + strings.TrimSpace(cells[1])
		names := strings.Fields(cells[2])
		switch {
		case known[statement]:
			t.Errorf("there are two rows: %s", statement)
		case len(names) == 0:
			t.Errorf("no transcript shows it: %s", statement)
		}
		known[statement] = true
		for _, name := range names {
			if all[name] == nil {
				t.Errorf("there is no transcript %s: %s", name, statement)
			}
			shown[name] = true
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "stateless/") && !shown[name] {
			t.Errorf("%s is in no row of %s", name, requirementsFile)
		}
	}
}

// The tests that SECURITY.md names are there.
func TestSecurityNamesTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(text, -1)
	for _, m := range named {
		if !tests[string(m[1])] {
			t.Errorf("there is no %s", m[1])
		}
	}
	if len(named) == 0 {
		t.Error("it names none")
	}
}
