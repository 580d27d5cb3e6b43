package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	httpclient "runnel/rpc/http/client"
	"runnel/tools/config"
)

// addURLFlags adds the flags of a server that is reached over HTTP.
func (i *invocation) addURLFlags(flags *pflag.FlagSet) {
	flags.StringVar(&i.url, "url", "", "instead of -- SERVER: the server at this `URL`, over Streamable HTTP")
	flags.StringArrayVar(&i.headers, "header", nil, "send this header to --url, as `'NAME: VALUE'`; repeatable. ${VARIABLE} in the value is one of the environment,\nso that a token shows nowhere: --header 'Authorization: Bearer ${TOKEN}'")
}

// remote is the server at --url. Errors do not show the values of headers.
func (i *invocation) remote() (at httpclient.Options, err error) {
	at = httpclient.Options{URL: i.url, Header: http.Header{}, Log: i.Logger()}
	for n, line := range i.headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return at, fmt.Errorf("--header number %d has no colon: write 'NAME: VALUE'", n+1)
		}
		if value, err = config.Expand(strings.TrimSpace(value), i.Env); err != nil {
			return at, fmt.Errorf("--header %s: %w", name, err)
		}
		at.Header.Set(strings.TrimSpace(name), value)
	}
	return at, httpclient.Check(&at)
}
