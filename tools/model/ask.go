package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"time"

	"runnel/internal/pause"
	"runnel/internal/sse"
	"runnel/rpc/rawjson"
)

// ask asks for the next answer, again if an attempt fails in a way that may pass. What came of such an
// attempt stays in the log.
func (c *call) ask(ctx context.Context) (*answer, error) {
	for attempt := 1; ; attempt++ {
		settle, err := c.reserve(ctx)
		if err != nil {
			return nil, err
		}
		a := &answer{write: c.write}
		c.latest = a
		err = c.request(ctx, a)
		c.count(a)
		settle(&a.used)
		if err == nil {
			c.made = append(c.made, a.pictures...)
			return a, nil
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case c.broken != nil:
			return nil, c.broken
		}
		f := asFailure(err, c.out.Secrets())
		switch {
		case !f.again:
			return nil, f
		case attempt > *c.conf.Retries:
			return nil, fmt.Errorf("%w (attempt %d, the last one: retries)", f, attempt)
		case f.after > longestAfter:
			return nil, fmt.Errorf("%w (it wants to be asked again in %v)", f, f.after.Round(time.Second))
		}
		rest := pauseAfter(attempt, f)
		c.out.Progress(0, 0, fmt.Sprintf("%s; asking again in %.1f s", f, rest.Seconds()))
		if !pause.For(ctx, rest) {
			return nil, context.Cause(ctx)
		}
		if err := c.note(fmt.Sprintf("[attempt %d: %s]", attempt+1, f)); err != nil {
			return nil, err
		}
	}
}

// errSilent ends a request whose answer does not go on.
var errSilent = errors.New("silent")

// patienceAtEnd is how long an answer that has ended may go on: usage may follow, and not all close the
// stream.
const patienceAtEnd = 2 * time.Second

// patienceForRefusal is how long the body of a refusal is read, which is short.
const patienceForRefusal = 5 * time.Second

// maxEvent bounds an event of an answer, in bytes. One of the Responses API has all pictures of the answer.
const maxEvent = 48 << 20

// request makes one request, and reads its answer into a.
func (c *call) request(ctx context.Context, a *answer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := cmp.Or(time.Duration(c.config.IdleTimeout), math.MaxInt64)
	silence := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer silence.Stop()
	take := c.api.answer(a)
	err := c.exchange(ctx, func(event []byte) error {
		if isPing(event) {
			return nil
		}
		ended := a.ended
		if !ended {
			silence.Stop() // a client that reads slowly is not the provider's silence
		}
		err := take(event)
		switch {
		case !a.ended:
			silence.Reset(patience)
		case !ended:
			silence.Reset(min(patience, patienceAtEnd))
		}
		return err
	})
	if _, said := errors.AsType[*failure](err); err != nil && !said && c.broken == nil {
		err = &failure{message: errCut.message + ": " + err.Error(), again: true}
	}
	switch {
	case a.ended: // nothing is missing
		return nil
	case err == nil:
		return errCut
	case errors.Is(context.Cause(ctx), errSilent):
		return &failure{message: "nothing came for " + c.config.IdleTimeout.String(), again: true}
	}
	return err
}

// isPing reports whether an event only says that the connection lives, as comments and empty lines do.
func isPing(event []byte) bool {
	if len(event) > maxPing {
		return false
	}
	var e struct{ Type string }
	_ = json.Unmarshal(event, &e) // what cannot be read is not a ping
	return len(bytes.TrimSpace(event)) == 0 || e.Type == "ping" || e.Type == "keepalive"
}

// maxPing is longer than any ping, in bytes.
const maxPing = 200

// exchange makes an HTTP request, and hands on the events of its answer.
func (c *call) exchange(ctx context.Context, take func(event []byte) error) error {
	path, body := c.api.request(&c.talk)
	at, header, err := c.endpoint(path)
	if err != nil {
		return err
	}
	encoded := rawjson.Encode(body)
	if len(c.conf.Extra) > 0 {
		encoded = rawjson.Merge(encoded, c.conf.Extra)
	}
	c.sent = len(encoded)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(encoded))
	if err != nil {
		return &failure{message: "the url cannot be read"}
	}
	r.Header = header
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.http().Do(r.WithContext(ctx))
	if err != nil {
		if about, ok := errors.AsType[*url.Error](err); ok { // it quotes the URL, which may hold a secret
			err = about.Err
		}
		return &failure{message: fmt.Sprintf("%s: %v", r.URL.Host, err), again: mayPass(err)}
	}
	defer response.Body.Close()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	streams := response.StatusCode == http.StatusOK &&
		(kind == "text/event-stream" || kind == "application/x-ndjson")
	if !streams {
		defer time.AfterFunc(patienceForRefusal, cancel).Stop()
	}
	if response.StatusCode != http.StatusOK {
		return refusal(response, time.Now())
	}
	switch kind {
	case "text/event-stream":
		return sse.Read(response.Body, maxEvent, func(e sse.Event) error { return take(e.Data) })
	case "application/x-ndjson":
		return sse.Lines(response.Body, maxEvent, take)
	default:
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
		return &failure{message: fmt.Sprintf("%s answers with %q and not with a stream: %s", r.URL.Host, kind,
			text)}
	}
}
