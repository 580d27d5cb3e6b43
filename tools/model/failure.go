package model

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"runnel/internal/shorten"
	"runnel/rpc/rawjson"
	"runnel/tools/secrets"
)

// failure is why a request has failed.
type failure struct {
	message string
	again   bool          // it may pass: the request is worth another attempt
	after   time.Duration // when, as the provider says; 0 = it does not say
}

func (f *failure) Error() string { return f.message }

// maxFailure bounds the message of a failure, in bytes.
const maxFailure = 600

// asFailure returns why a request has failed, in one line. What is not a failure, such as a lost connection,
// may pass. What is masked is masked before the message is cut: the beginning of a key is not one.
func asFailure(err error, masked *secrets.Set) *failure {
	f := failure{message: err.Error(), again: true}
	if said, ok := errors.AsType[*failure](err); ok {
		f = *said
	}
	f.message = shorten.Clip(strings.Join(strings.Fields(masked.String(f.message)), " "), maxFailure)
	f.message = cmp.Or(f.message, "the provider does not say what went wrong")
	return &f
}

// mayPass reports whether a request that has got no answer is worth another attempt: not one to a server that
// is not trusted, or speaks no TLS.
func mayPass(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return !untrusted && !errors.Is(err, http.ErrSchemeMismatch)
}

// unreadable is the failure of an event that is not what it should be.
func unreadable(err error) error {
	if err == nil {
		return &failure{message: "the answer has an event that cannot be read"}
	}
	return &failure{message: fmt.Sprintf("the answer has an event that cannot be read: %v", err)}
}

// errCut is the failure of an answer that has not ended when its connection does.
var errCut = &failure{message: "the answer was cut off", again: true}

// maxRefusal is how much of a refusal is read, in bytes.
const maxRefusal = 64 << 10

// refusal reads why a provider has refused a request. Status codes that may pass are those which the
// providers' own libraries take for such, and 529, with which Anthropic says that it is overloaded.
func refusal(response *http.Response, now time.Time) *failure {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // or as much as arrives
	status := response.StatusCode
	says := strings.TrimSpace(string(text))
	code := ""
	if rawjson.IsObject(text) && json.Valid(text) {
		of := rawjson.Member(text, "error")
		code = rawjson.StringMember(of, "code")
		says = cmp.Or(rawjson.StringMember(of, "message"), rawjson.StringMember(text, "message"),
			rawjson.StringMember(text, "error"), says) // as OpenAI and Anthropic, gateways and Ollama have it
	}
	f := &failure{message: fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))}
	switch status {
	case 529:
		f.message = "HTTP 529 Overloaded"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		f.message += " at " + response.Request.URL.Path // model.url may lead to another one than is meant
	}
	if says != "" {
		f.message += ": " + says
	}
	switch {
	case status >= 300 && status < 400:
		f.message += ": redirects are not followed: name the place that it leads to (url)"
	case status == http.StatusTooManyRequests:
		f.again = code != "insufficient_quota" // the account has no money left
	default:
		f.again = status == http.StatusRequestTimeout || status == http.StatusConflict || status >= 500
	}
	f.after = retryAfter(response.Header, now)
	return f
}

// retryAfter reads when a provider wants to be asked again, 0 if it does not say (RFC 9110, 10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && seconds < 1e6 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

const (
	// firstPause and longestPause bound the pauses between attempts that the provider does not choose, as its
	// own libraries have them.
	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
	// longestAfter is the longest pause that a provider may choose: who waits for an answer waits no longer.
	longestAfter = time.Minute
)

// pauseAfter returns how long to wait after an attempt, the first of which is 1. It is random, so that calls
// that were refused at the same moment do not come back at the same moment.
func pauseAfter(attempt int, f *failure) time.Duration {
	if f.after > 0 {
		return f.after
	}
	pause := min(firstPause<<min(attempt-1, 10), longestPause)
	return pause*3/4 + rand.N(pause/4)
}
