package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/propose"
	"runnel/internal/system"
	"runnel/internal/term"
	"runnel/tools/command"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/sandbox"
	"runnel/tools/upstream"
)

// initCommand is "runnel init".
func (i *invocation) initCommand() *cobra.Command {
	var dryRun bool
	var file string
	cmd := &cobra.Command{
		Use:   "init [DIRECTORY]",
		Short: "Propose a runnel.yaml for a project, from its Makefile, package.json and the like",
		Long: `Reads the files that say how a project is built and tested, and writes a runnel.yaml with a
tool for each thing that a model may sensibly do: with a description, a time limit, progress where the
program prints it, and a question to you before it deploys or deletes. Tests, linters and builds get a
sandbox where this system has one, with the caches of their programs. It starts nothing of the project, asks
only those programs where their caches are, and never overwrites a file. The file is shown, and trusted as
it was written; after a change, run runnel trust.

It knows ` + propose.Files + `.`,
		Example: `  runnel init
  runnel init --dry-run
  runnel init --file ~/.config/runnel/runnel.yaml

  # then
  runnel tools
  runnel install claude-code`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return i.init(cmd, dir, cmp.Or(file, filepath.Join(dir, config.FileName)), dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the file, and write nothing")
	cmd.Flags().StringVar(&file, "file", "", "write to `FILE` instead of runnel.yaml in the directory")
	return cmd
}

func (i *invocation) init(cmd *cobra.Command, dir, file string, dryRun bool) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return misuse(cmd, "%s is not a directory", term.Quote(dir))
	}
	if _, err := os.Lstat(file); err == nil && !dryRun {
		return fmt.Errorf("%s exists: runnel init --dry-run shows what it would propose", term.Quote(file))
	}
	project, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if at, err := filepath.Abs(filepath.Dir(file)); err == nil && at == project {
		project = "" // commands run in the directory of their config
	}
	text, from := propose.Propose(system.Dir(dir), project, i.caches(cmd.Context()))
	if len(from) == 0 {
		return fmt.Errorf("nothing in %s says how it is built or tested (looked for %s)", term.Quote(dir),
			propose.Files)
	}
	conf, err := config.Parse(file, []byte(text))
	var set *upstream.Set
	if err == nil {
		set, _, err = i.Registry(conf)
	}
	if err != nil {
		return fmt.Errorf("the proposal is not a config, and nothing was written; please report this: %w",
			err)
	}
	if !dryRun {
		if err := writeNew(file, text); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(i.Stdout, term.PrintableLines(text)); err != nil || dryRun {
		return err
	}
	said := fmt.Sprintf("wrote %s, %s", term.Quote(file), term.Count(len(conf.Tools), "tool"))
	level := zerolog.InfoLevel
	if _, err := i.Trust().Add(file, []byte(text)); err != nil {
		level = zerolog.WarnLevel
		said += fmt.Sprintf("; it is not trusted yet (%v): runnel trust %s", err, term.Quote(file))
	} else {
		said += "; it is trusted until it changes, then run runnel trust again"
	}
	named := ""
	if filepath.Base(file) != config.FileName || project != "" {
		named = " --config " + term.Quote(file)
	}
	var missing []string
	for _, tool := range set.Tools.Tools() {
		if c, ok := tool.(*command.Command); ok {
			if _, err := c.Program(); err != nil {
				missing = append(missing, c.Describe().Name)
			}
		}
	}
	if len(missing) > 0 {
		level = zerolog.WarnLevel
		said += "\nThe programs of these are not found here, and runnel doctor says where it looks: " +
			strings.Join(missing, ", ")
	}
	i.Say(level, fmt.Sprintf("%s\nNext: runnel tools%s, then runnel install%s", said, named, named))
	return nil
}

// writeNew writes a file that must not exist yet.
func writeNew(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists", term.Quote(file))
	} else if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(file)) // half a file may be a valid config, too
	}
	return err
}

// cacheTime is how long a program may take to say where its cache is; npm takes a second on a busy machine.
const cacheTime = 10 * time.Second

// cacheCommands are what programs with caches are asked, by their names.
var cacheCommands = map[string][]string{
	"go":     {"go", "env", "GOCACHE"},
	"npm":    {"npm", "config", "get", "cache"},
	"pnpm":   {"pnpm", "store", "path"},
	"yarn":   {"yarn", "cache", "dir"},
	"uv":     {"uv", "cache", "dir"},
	"poetry": {"poetry", "config", "cache-dir"},
}

// caches returns where programs keep their caches, as they say it; nil where tools can have no sandbox.
// Paths in the home begin with ~.
func (i *invocation) caches(ctx context.Context) func(program string) []string {
	self, err := process.ThisProgram()
	if err != nil || (&sandbox.Policy{}).Check(self) != nil {
		return nil
	}
	home := i.Getenv(config.HomeVariable)
	known := map[string][]string{}
	return func(program string) []string {
		if list, ok := known[program]; ok {
			return list
		}
		var list []string
		switch program {
		case "cargo":
			base := i.Getenv("CARGO_HOME")
			if base == "" {
				base = filepath.Join(home, ".cargo")
			}
			list = []string{filepath.Join(base, "registry"), filepath.Join(base, "git")}
		case "mvn":
			list = []string{filepath.Join(home, ".m2", "repository")}
		case "gradle":
			base := i.Getenv("GRADLE_USER_HOME")
			if base == "" {
				base = filepath.Join(home, ".gradle")
			}
			list = []string{base}
		case "golangci-lint":
			base := i.Getenv("XDG_CACHE_HOME")
			if base == "" {
				base = filepath.Join(home, ".cache")
			}
			list = []string{filepath.Join(base, "golangci-lint")}
		default:
			list = []string{i.askCache(ctx, home, cacheCommands[program])}
		}
		var written []string
		for _, path := range list {
			if below, ok := strings.CutPrefix(path, home+"/"); ok && home != "" {
				path = "~/" + below
			}
			if filepath.IsAbs(path) || strings.HasPrefix(path, "~/") {
				written = append(written, path)
			}
		}
		known[program] = written
		return written
	}
}

// askCache returns what a program prints, which runs in the home: the project's own settings are not for it
// to read. "" if it is not there or says nothing.
func (i *invocation) askCache(ctx context.Context, home string, argv []string) string {
	if len(argv) == 0 || !filepath.IsAbs(home) {
		return ""
	}
	program, err := process.FindProgram(argv[0], home, i.Getenv("PATH"))
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, cacheTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Dir = home
	cmd.Env = append(i.Env, "GOTOOLCHAIN=local", "COREPACK_ENABLE_DOWNLOAD_PROMPT=0")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
