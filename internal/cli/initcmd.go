package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/propose"
	"runnel/internal/system"
	"runnel/internal/term"
	"runnel/tools/command"
	"runnel/tools/config"
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
