package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/rs/zerolog"
)

// Options say which tokens are valid.
type Options struct {
	Issuer   string   // the issuer's URL, as its tokens and its metadata name it
	Audience string   // this server, as tokens name it
	Scopes   []string // all of which a token must have
	// The claim that names the owner of its tasks; "" = client_id, or sub in a token without it.
	Owner string
	Log   zerolog.Logger
}

// Issuer checks the tokens of an authorization server.
type Issuer struct {
	o    Options
	keys *keys
}

// New makes an Issuer. It returns an error for a URL that cannot be trusted; keys are fetched when they are
// first needed.
func New(o Options) (*Issuer, error) {
	if _, err := secureURL(o.Issuer); err != nil {
		return nil, fmt.Errorf("the issuer %q %w", o.Issuer, err)
	}
	return &Issuer{o, newKeys(o.Issuer, o.Log)}, nil
}

// Bearer is whose tasks a token is for, and until when it is valid.
type Bearer struct {
	Owner string
	Until time.Time
}

var (
	// ErrInvalid is returned for a token that is not valid.
	ErrInvalid = errors.New("invalid token")
	// ErrScope is returned for a token that lacks a scope and is valid otherwise.
	ErrScope = errors.New("insufficient scope")
	// ErrUnreachable is returned if the issuer's keys cannot be fetched.
	ErrUnreachable = errors.New("the issuer cannot be reached")
)

// algorithms are those whose signatures only the issuer can make: not "none", nor those with a key that both
// sides share.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384,
	jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

const (
	// leeway is how far the clocks of the issuer and of this machine may be apart.
	leeway = 30 * time.Second
	// maxName is how long the name of an owner may be, in bytes.
	maxName = 256
)

// claims are the claims of a token that are read.
type claims struct {
	jwt.Claims
	Scope        string          `json:"scope"`
	Scopes       json.RawMessage `json:"scp"` // used instead by some issuers: a text or a list
	Confirmation json.RawMessage `json:"cnf"`
	all          map[string]any
}

// Check returns the bearer of a token. The error wraps ErrInvalid, ErrScope or ErrUnreachable and has the
// reason; it never has the token.
func (i *Issuer) Check(ctx context.Context, token string) (Bearer, error) {
	c, err := i.read(ctx, token)
	if err != nil {
		return Bearer{}, err
	}
	switch err := c.ValidateWithLeeway(jwt.Expected{Issuer: i.o.Issuer, AnyAudience: []string{i.o.Audience}},
		leeway); {
	case err != nil:
		return Bearer{}, invalid(strings.TrimPrefix(err.Error(), "go-jose/go-jose/jwt: validation failed, "))
	case c.Issuer == "" || c.Expiry == nil:
		return Bearer{}, invalid("it has no exp")
	case c.Confirmation != nil: // RFC 9449: as a bearer token it could be used by whoever has stolen it
		return Bearer{}, invalid("it is bound to a key of its client, which is not supported")
	}
	has := c.scopes()
	for _, scope := range i.o.Scopes {
		if !slices.Contains(has, scope) {
			return Bearer{}, fmt.Errorf("%w: the token lacks %q", ErrScope, scope)
		}
	}
	owner, err := i.owner(&c)
	if err != nil {
		return Bearer{}, err
	}
	return Bearer{owner, c.Expiry.Time().Add(leeway)}, nil
}

// owner returns the owner that a token names. A token that names none is refused: its tasks would be those of
// everybody with such a token.
func (i *Issuer) owner(c *claims) (string, error) {
	claim := cmp.Or(i.o.Owner, "client_id")
	owner, isText := c.all[claim].(string)
	if c.all[claim] == nil && i.o.Owner == "" {
		claim = "client_id or sub"
		owner, isText = c.Subject, true
	}
	switch {
	case c.all[claim] != nil && !isText, !isName(owner):
		return "", invalid("its " + claim + " cannot be an owner's name")
	case owner == "":
		return "", invalid("it names no owner: it has no " + claim)
	}
	return owner, nil
}

// read returns the claims of a token that the issuer has signed.
func (i *Issuer) read(ctx context.Context, token string) (c claims, err error) {
	signed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return c, invalid("it is not a JWT with a supported signature")
	}
	header := signed.Headers[0]
	// "The resource server MUST verify that the typ header value is at+jwt" (RFC 9068); many issuers say JWT,
	// or nothing.
	switch typ, _ := header.ExtraHeaders[jose.HeaderType].(string); strings.TrimPrefix(strings.ToLower(typ),
		"application/") {
	case "", "jwt", "at+jwt":
	default:
		return c, invalid("its typ is not that of an access token")
	}
	found, err := i.keys.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	for _, key := range found {
		c = claims{}
		if err = signed.Claims(key, &c, &c.all); err == nil {
			return c, nil
		}
	}
	return c, invalid("its signature is not the issuer's")
}

func invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalid, reason) }

// scopes returns the scopes of a token.
func (c *claims) scopes() (list []string) {
	var text string
	if json.Unmarshal(c.Scopes, &list) != nil && json.Unmarshal(c.Scopes, &text) == nil {
		list = strings.Fields(text)
	}
	return append(list, strings.Fields(c.Scope)...)
}

// isName reports whether a claim can be an owner's name.
func isName(claim string) bool {
	return len(claim) <= maxName && strings.TrimSpace(claim) == claim &&
		!strings.ContainsFunc(claim, unicode.IsControl)
}
