package serve

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"runnel/tools/command"
	"runnel/tools/config"
	"runnel/tools/model"
	"runnel/tools/steps"
	"runnel/tools/upstream"
)

var update = flag.Bool("update", false, "write what is said now into the files of testdata/config/wrong")

const configFiles = "../../testdata/config"

// mistakes are all errors that a config gives, in the order in which a user sees them.
func mistakes(c *config.Config, err error) []error {
	if err == nil {
		var commands []*command.Command
		commands, err = command.All(c, nil)
		models, unasked := model.All(c, nil)
		known := func(tool string) bool { _, ok := c.Tools[tool]; return ok }
		made, misstepped := steps.All(c, known, "")
		_, wrong := upstream.Servers(c, config.Base{}, zerolog.Nop())
		err = errors.Join(c.Check(), err, unasked, misstepped, wrong, command.CheckSchemas(c, commands),
			model.CheckSchemas(c, models), steps.CheckSchemas(c, made))
	}
	return flatten(err)
}

func flatten(err error) (list []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, flatten(e)...)
		}
		return list
	}
	if err != nil {
		list = append(list, err)
	}
	return list
}

// Each file in testdata/config/wrong ends with what must be said about it, a line for each mistake:
// "# want: LINE:COLUMN: what is wrong (what is allowed)".
func TestWrongConfigs(t *testing.T) {
	for _, file := range configFile(t, "wrong") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			yaml, wants, _ := strings.Cut(string(text), "# want: ")
			var got strings.Builder
			for _, err := range mistakes(config.Parse("F", []byte(yaml))) {
				said, _, _ := strings.Cut(err.Error(), "\n")
				place, ok := strings.CutPrefix(said, "F:")
				if !ok {
					t.Errorf("has no place: %v", err)
				}
				got.WriteString("# want: " + place + "\n")
			}
			if *update {
				if err := os.WriteFile(file, []byte(yaml+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := "# want: " + wants; got.String() != want {
				t.Errorf("got:\n%swant:\n%s", &got, want)
			}
		})
	}
}

func TestGoodConfigs(t *testing.T) {
	for _, file := range configFile(t, "good") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(file, text)
		for _, err := range mistakes(c, err) {
			t.Error(err)
		}
	}
}

// Whatever the file holds, it is read or gets errors with a place; what is read can be checked.
func FuzzConfig(f *testing.F) {
	for _, dir := range []string{"good", "wrong"} {
		files, _ := filepath.Glob(filepath.Join(configFiles, dir, "*.yaml"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("F", text)
		for _, err := range mistakes(c, err) {
			var line, column int
			var problem string
			if _, scan := fmt.Sscanf(err.Error(), "F:%d:%d: %s", &line, &column, &problem); scan != nil ||
				line < 1 || column < 1 {
				t.Errorf("no place: %v", err)
			}
		}
		if err == nil {
			for name, tool := range c.Tools {
				if len(tool.Input) > 0 && !json.Valid(tool.Input) {
					t.Errorf("%s: input is not JSON: %s", name, tool.Input)
				}
			}
		}
	})
}

// configFile names the files of a directory.
func configFile(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(configFiles, dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	return files
}
