package cli

import (
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/trace"
	httpclient "runnel/rpc/http/client"
	"runnel/tools/config"
	"runnel/tools/secrets"
)

// traceCommand is "runnel trace".
func (i *invocation) traceCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "trace --file FILE [flags] (-- SERVER [ARGUMENT...] | --url URL)",
		Short: "Stand between a host and a server and record what they say",
		Long: `Starts any MCP server on stdin and stdout and passes bytes through unchanged, both ways. It
writes each message on a line of FILE, with the time, the direction, the request that it answers and after
how long, and anything wrong with its sequence numbers. Put it in front of the command in a host's config.
The exit code is the server's.

With --url it stands before a server that speaks Streamable HTTP. It records messages, not headers.

Values that the config file names under "secrets" appear in FILE as ***, if they stand whole in one message.`,
		Example: `  runnel trace --file session.trace -- npx -y @modelcontextprotocol/server-everything

  # in a host's config: instead of "command": "my-server", "args": ["--flag"]
  "command": "runnel", "args": ["trace", "--file", "/tmp/session.trace", "--", "my-server"]`,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := i.needServer(cmd, args)
			switch {
			case err != nil:
				return err
			case file == "":
				return misuse(cmd, "runnel trace: which file? name it with --file")
			}
			hide, err := i.configSecrets(cmd)
			if err != nil {
				return err
			}
			out, err := trace.CreateFile(file) // messages may be secret
			if err != nil {
				return &serve.UsageError{Err: fmt.Errorf("--file: %w", err)}
			}
			defer out.Close()
			session := &trace.Session{Command: i.target.command, Env: i.Env, Stdin: i.Stdin, Stdout: i.Stdout,
				Stderr: i.Stderr}
			var t *trace.Record
			code := exitFine
			if i.target.url != "" {
				at, wrong := i.remote(cmd)
				if wrong != nil {
					return wrong
				}
				remote, wrong := httpclient.Open(at)
				if wrong != nil {
					return misuse(cmd, "%w", wrong)
				}
				t = trace.New(out, fmt.Sprintf("runnel %s traces %s", serve.Version(), remote.Name()), hide)
				err = trace.Relay(cmd.Context(), t, remote, remote.Finish, session)
			} else {
				t = trace.New(out, fmt.Sprintf("runnel %s traces %q", serve.Version(), i.target.command),
					hide)
				code, err = trace.Run(cmd.Context(), t, session)
			}
			if err != nil {
				return err
			}
			if err := t.Failure(); err != nil {
				i.Say(zerolog.WarnLevel, fmt.Sprintf("runnel: %s is not complete: %v", file, err))
			}
			if code != exitFine {
				return exitError(code)
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&file, "file", "", "write to `FILE`, which is overwritten")
	i.target.addFlags(cmd.Flags())
	cmd.Flags().AddFlag(i.flags.Lookup("config"))
	return cmd
}

// configSecrets returns the secrets that the config names.
func (i *invocation) configSecrets(cmd *cobra.Command) (*secrets.Set, error) {
	conf, _, err := i.LoadConfig(cmd.Context())
	if err != nil {
		return nil, err
	}
	hide, err := i.Secrets(conf)
	if err != nil {
		return nil, &serve.UsageError{Err: err}
	}
	if words := config.UnsetSecrets(i.Unset); words != "" {
		i.Say(zerolog.WarnLevel, words)
	}
	return hide, nil
}
