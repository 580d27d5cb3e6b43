package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	httpclient "runnel/rpc/http/client"
)

// addURLFlags adds the flags of a server that is reached over HTTP.
func (i *invocation) addURLFlags(flags *pflag.FlagSet) {
	flags.StringVar(&i.url, "url", "", "instead of -- SERVER: the server at this `URL`, over Streamable HTTP")
	flags.StringArrayVar(&i.headerLines, "header", nil, "send this header to --url, as `'NAME: VALUE'`; repeatable. ${VARIABLE} in the value is one of the environment,\nso that a token shows nowhere: --header 'Authorization: Bearer ${TOKEN}'")
}

// headers are those of --header. Errors do not show values.
func (i *invocation) headers() (map[string]string, error) {
	lines := i.headerLines
	if variable := i.Getenv("RUNNEL_HEADER"); len(lines) == 0 && variable != "" {
		lines = []string{variable}
	}
	headers := map[string]string{}
	for n, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("--header number %d has no colon: write 'NAME: VALUE'", n+1)
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return headers, nil
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
