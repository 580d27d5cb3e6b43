package config

import (
	"fmt"
	"slices"

	"runnel/tools/proxy"
	"runnel/tools/sandbox"
)

// Reach is the network that a sandbox leaves: one of the words, or hosts as proxy.ParseHost reads them, with
// ask among them if the user is asked about others.
type Reach []string

const (
	reachNone = "none"
	reachAll  = "all"
	reachAsk  = "ask"
)

// SetShort reads one word or one host.
func (r *Reach) SetShort(text string) error {
	*r = Reach{text}
	return nil
}

// complete fills in the default, and checks the hosts.
func (r *Reach) complete() *Error {
	if len(*r) == 0 {
		*r = Reach{reachNone}
	}
	for i, text := range *r {
		key := "network"
		if len(*r) > 1 {
			key = fmt.Sprintf("network[%d]", i)
		}
		switch text {
		case reachAsk:
		case reachNone, reachAll:
			if len(*r) > 1 {
				return &Error{Key: key, Problem: text + " stands among others",
					Allowed: "it alone, or hosts and ask"}
			}
		default:
			if _, err := proxy.ParseHost(text); err != nil {
				return &Error{Key: key, Problem: fmt.Sprintf("%q: %v", text, err),
					Allowed: "none, all, ask, or hosts such as example.com:443 and *.example.com:443"}
			}
		}
	}
	return nil
}

// proxied reports whether some of the network is reached, through a proxy.
func (r Reach) proxied() bool {
	return len(r) > 0 && !slices.Contains(r, reachNone) && !slices.Contains(r, reachAll)
}

// Proxy returns the proxy for one child with this "sandbox:", and the variables by which the child finds it;
// nil if it needs none. ask: the user is asked about hosts that are not listed.
func (s *Sandbox) Proxy() (p *proxy.Proxy, vars []string, ask bool) {
	if !s.Sandboxed() || !s.Network.proxied() {
		return nil, nil, false
	}
	var hosts []proxy.Host
	for _, text := range s.Network {
		if h, err := proxy.ParseHost(text); err == nil { // complete has checked them
			hosts = append(hosts, h)
		}
	}
	return proxy.New(hosts), proxy.Variables(sandbox.ProxyAddress), slices.Contains(s.Network, reachAsk)
}
