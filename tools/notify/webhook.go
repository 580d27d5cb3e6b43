package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"runnel/internal/pause"
	httpclient "runnel/rpc/http/client"
	"runnel/rpc/rawjson"
)

const (
	postTimeout = 10 * time.Second
	maxAnswer   = 64 << 10 // bytes of an answer that are read, so that the connection can be used again
)

// pauses are the waits between tries. A server that fails this often is down for longer.
var pauses = []time.Duration{time.Second, 3 * time.Second}

// webhook is a way that posts to a server. The part of its URL after the host is often a secret, and never
// shown.
type webhook struct {
	to    httpclient.Options
	wrong error // why it cannot be used
}

func (w *webhook) check() error { return w.wrong }

func (w *webhook) tell(ctx context.Context, n *notice) error {
	if w.wrong != nil {
		return w.wrong
	}
	body := rawjson.Encode(n)
	for _, rest := range pauses {
		again, err := w.post(ctx, body)
		if err == nil || !again {
			return err
		}
		if !pause.For(ctx, rest) {
			return err
		}
	}
	_, err := w.post(ctx, body)
	return err
}

// post sends a notice once; again: another try may succeed.
func (w *webhook) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, postTimeout, fmt.Errorf("no answer within %v", postTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.to.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL cannot be read")
	}
	request.Header = w.to.Header.Clone()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "runnel")
	// A redirect is not followed: it would be a GET, or take the headers to another host.
	client := http.Client{CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(request)
	host := request.URL.Scheme + "://" + request.URL.Host
	if err != nil {
		if about, ok := errors.AsType[*url.Error](err); ok {
			err = about.Err // without the URL
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return true, fmt.Errorf("%s: %w", host, err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	switch code := response.StatusCode; {
	case code < 300:
		return false, nil
	case code < 400:
		return false, fmt.Errorf("%s redirects (%d), which is not followed: name the place that it leads to",
			host, code)
	default:
		return code == http.StatusTooManyRequests ||
			code >= 500, fmt.Errorf("%s answers %d %s", host, code, http.StatusText(code))
	}
}
