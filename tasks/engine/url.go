package engine

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// URLForm is how an engine's URLs of states look: SCHEME://PLACE?NAME=VALUE&...
type URLForm struct {
	Schemes []string
	Example string
	Secrets string             // says where credentials belong: never in a URL
	Options map[string]*string // where values go, by name; that of prefix is checked
}

// Parse parses a URL. The caller checks its place. No error shows a part of it that may be a password.
func (f *URLForm) Parse(state string) (*url.URL, error) {
	u, err := url.Parse(state)
	switch {
	case err != nil:
		return nil, errors.New("the state is not a URL such as " + f.Example)
	case !slices.Contains(f.Schemes, u.Scheme):
		return nil, fmt.Errorf("the state has the scheme %s: use %s://", u.Scheme,
			strings.Join(f.Schemes, ":// or "))
	case u.User != nil:
		return nil, errors.New("the URL of a state holds no credentials: " + f.Secrets)
	}
	for name, values := range u.Query() {
		value := f.Options[name]
		if value == nil {
			known := slices.Sorted(maps.Keys(f.Options))
			return nil, fmt.Errorf("the URL of the state has the option %.32q: known are %s; %s", name,
				strings.Join(known, ", "), f.Secrets)
		}
		*value = values[0]
	}
	if prefix := *f.Options["prefix"]; prefix != "" && !IsToken(prefix) {
		return nil, fmt.Errorf("prefix=%.80s: use up to 64 letters, digits, - and _", prefix)
	}
	return u, nil
}
