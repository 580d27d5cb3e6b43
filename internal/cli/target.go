package cli

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/system"
	"runnel/internal/term"
	httpclient "runnel/rpc/http/client"
)

// target is the server that a command speaks with: a program, a server at a URL or, by default, what this
// runnel serves itself.
type target struct {
	command     []string // the words after "--"
	url         string   // --url
	headerLines []string // --header
	headerFile  string   // --header-file
}

// addFlags adds the flags of a server that is reached over HTTP.
func (t *target) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.url, "url", "", "instead of -- SERVER: the server at this `URL`, over Streamable HTTP")
	flags.StringArrayVar(&t.headerLines, "header", nil,
		"send this header to --url, as `'NAME: VALUE'`; repeatable. ${VARIABLE} in the value stands for a variable of the environment, so that a token is shown nowhere: --header 'Authorization: Bearer ${TOKEN}'")
	flags.StringVar(&t.headerFile, "header-file", "",
		"send the headers in `FILE` to --url, one 'NAME: VALUE' per line: keep a token in a file that only you can read")
}

// isSelf reports whether no other server is named.
func (t *target) isSelf() bool { return t.command == nil && t.url == "" }

// words are how the server stands at the end of a command line, "" for runnel itself.
func (t *target) words() string {
	switch {
	case t.url != "":
		return " --url " + term.Quote(t.url)
	case t.command != nil:
		return " -- " + term.Quote(t.command...)
	}
	return ""
}

// splitServer takes the server's command after "--" out of the arguments and returns the others.
func (i *invocation) splitServer(cmd *cobra.Command, args []string) (own []string, err error) {
	t, n := &i.target, cmd.ArgsLenAtDash()
	switch {
	case n >= 0 && t.url != "":
		return nil, misuse(cmd, "a server is named by --url or by its command after --, not by both")
	case n == len(args):
		return nil, misuse(cmd, "no server after --")
	case n >= 0:
		t.command, args = args[n:], args[:n]
	}
	if t.url == "" && (len(t.headerLines) > 0 || t.headerFile != "") {
		return nil, misuse(cmd, "--header and --header-file go with --url")
	}
	return args, nil
}

// needServer is splitServer for a command that takes a server and nothing else.
func (i *invocation) needServer(cmd *cobra.Command, args []string) error {
	own, err := i.splitServer(cmd, args)
	switch {
	case err != nil:
		return err
	case len(own) > 0:
		return misuse(cmd, "%s: unknown argument %q: the server's command comes after --, or --url names it",
			cmd.CommandPath(), own[0])
	case i.target.isSelf():
		return misuse(cmd, "%s: which server? Its command comes after --, or --url names it",
			cmd.CommandPath())
	}
	return nil
}

// remote is how the server at --url is reached.
func (i *invocation) remote(cmd *cobra.Command) (httpclient.Options, error) {
	headers, err := i.headers()
	if err != nil {
		return httpclient.Options{}, misuse(cmd, "%w", err)
	}
	at, err := httpclient.NewOptions(i.target.url, headers, i.Getenv, i.Logger())
	if err != nil {
		return at, misuse(cmd, "%w", err)
	}
	return at, nil
}

// maxHeaders limits the file of headers, in bytes.
const maxHeaders = 1 << 20

// headers returns the headers of --header and --header-file; --header wins. Errors do not show values.
func (i *invocation) headers() (map[string]string, error) {
	headers, file := map[string]string{}, i.target.headerFile
	if file != "" {
		text, err := system.ReadNamed(file, maxHeaders)
		if err != nil {
			return nil, fmt.Errorf("--header-file: %w", err)
		}
		if info, err := os.Stat(file); err == nil {
			if _, readable := system.ReadableByOthers(file, info); readable {
				i.Say(zerolog.WarnLevel, "runnel: other users can read "+file+": "+system.KeepPrivate+
					" keeps its headers yours")
			}
		}
		if err := addHeaders(headers, fmt.Sprintf("--header-file %s, line", file),
			strings.Split(string(text), "\n")); err != nil {
			return nil, err
		}
	}
	return headers, addHeaders(headers, "--header number", i.target.headerLines)
}

// addHeaders adds the headers that lines name. Blank lines, and those that begin with #, are skipped. where
// names the lines.
func addHeaders(to map[string]string, where string, lines []string) error {
	for n, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("%s %d has no colon: write 'NAME: VALUE'", where, n+1)
		}
		to[http.CanonicalHeaderKey(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return nil
}
