package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/internal/trust"
	"runnel/tools/config"
)

// trustCommand is "runnel trust".
func (i *invocation) trustCommand() *cobra.Command {
	var list, remove bool
	cmd := &cobra.Command{
		Use:   "trust [FILE | DIRECTORY]",
		Short: "Let the runnel.yaml of this directory run its commands",
		Long: `A runnel.yaml in the current directory starts programs, and it may have come with somebody
else's files. So runnel ignores it until you trust it. Read it first: this command shows all of it. Your
trust lasts until the file changes; then runnel asks for it again.

A file that you name (--config, $RUNNEL_CONFIG) and the one in your own config directory need no trust.`,
		Example: `  runnel trust

  # the file of another directory
  runnel trust ~/src/app

  # which files are trusted? no longer trust one
  runnel trust --list
  runnel trust --remove ~/src/app`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				lines, err := i.Trust().List()
				if err == nil && lines == "" {
					i.Say(zerolog.InfoLevel, "no file is trusted")
				}
				_, unwritten := io.WriteString(i.Stdout, lines)
				return cmp.Or(unwritten, err)
			}
			file := config.Project()
			if len(args) > 0 {
				file = config.Within(args[0])
			}
			if remove {
				if err := i.Trust().Remove(file); err != nil {
					return err
				}
				i.Say(zerolog.InfoLevel, "no longer trusted: "+term.Quote(file)+
					" (a server that has read it keeps its tools until it ends)")
				return nil
			}
			if filepath.Base(file) != config.FileName {
				return misuse(cmd, "%s needs no trust: only a file named %s is ever found without being named", term.Quote(file), config.FileName)
			}
			text, _, err := trust.ReadRegular(file)
			if errors.Is(err, fs.ErrNotExist) {
				return misuse(cmd, "there is no %s", term.Quote(file))
			} else if err != nil {
				return fmt.Errorf("%s: %w", term.Quote(file), err)
			}
			conf, err := config.Parse(file, text)
			if err == nil {
				_, _, err = i.Registry(conf)
			}
			if err != nil {
				return &serve.UsageError{Err: err,
					Hint: "it is not trusted: fix this, then run runnel trust again"}
			}
			path, err := i.Trust().Add(file, text)
			if err != nil {
				return fmt.Errorf("storing the trust: %w", err)
			}
			// The whole file: a summary might leave out what matters, such as a variable that changes what a
			// program does.
			if _, err := io.WriteString(i.Stdout,
				strings.TrimSuffix(term.PrintableLines(string(text)), "\n")+"\n"); err != nil {
				return err
			}
			i.Say(zerolog.InfoLevel, "trusted until it changes: "+term.Quote(path))
			return nil
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "show the files that are trusted")
	cmd.Flags().BoolVar(&remove, "remove", false, "stop trusting the file")
	return cmd
}
