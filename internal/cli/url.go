package cli

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"runnel/internal/system"
	httpclient "runnel/rpc/http/client"
)

// addURLFlags adds the flags of a server that is reached over HTTP.
func (i *invocation) addURLFlags(flags *pflag.FlagSet) {
	flags.StringVar(&i.url, "url", "", "instead of -- SERVER: the server at this `URL`, over Streamable HTTP")
	flags.StringArrayVar(&i.headerLines, "header", nil, "send this header to --url, as `'NAME: VALUE'`; repeatable. ${VARIABLE} in the value is one of the environment,\nso that a token shows nowhere: --header 'Authorization: Bearer ${TOKEN}'")
	flags.StringVar(&i.headerFile, "header-file", "", "send the headers in `FILE` to --url, one 'NAME: VALUE' a line: a file that only you can read keeps a token")
}

// headers are those of --header and --header-file; for one that is in both, --header counts. Errors do not show values.
func (i *invocation) headers() (map[string]string, error) {
	lines := i.headerLines
	if variable := i.Getenv("RUNNEL_HEADER"); len(lines) == 0 && i.headerFile == "" && variable != "" {
		lines = []string{variable}
	}
	headers := map[string]string{}
	if i.headerFile != "" {
		text, err := os.ReadFile(i.headerFile)
		if err != nil {
			return nil, fmt.Errorf("--header-file: %w", err)
		}
		if info, err := os.Stat(i.headerFile); err == nil {
			if _, readable := system.ReadableByOthers(i.headerFile, info); readable {
				i.Say(zerolog.WarnLevel, "runnel: other users can read "+i.headerFile+": "+system.KeepPrivate+" keeps its headers yours")
			}
		}
		if err := addHeaders(headers, fmt.Sprintf("--header-file %s, line", i.headerFile), strings.Split(string(text), "\n")); err != nil {
			return nil, err
		}
	}
	return headers, addHeaders(headers, "--header number", lines)
}

// addHeaders adds those that lines say. Blank lines, and those that begin with #, are skipped. where names the lines.
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

// openRemote is the server at --url as two pipes.
func (i *invocation) openRemote() (*httpclient.Transport, error) {
	at, err := i.remote()
	if err != nil {
		return nil, err
	}
	return httpclient.Open(at)
}

// remote is the server at --url.
func (i *invocation) remote() (at httpclient.Options, err error) {
	headers, err := i.headers()
	if err != nil {
		return at, err
	}
	return httpclient.NewOptions(i.url, headers, i.Getenv, i.Logger())
}
