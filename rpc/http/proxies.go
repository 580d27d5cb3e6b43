package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses, such as a load balancer's, that are trusted to say who a client is.
type Proxies []netip.Prefix

// ParseProxy parses an address, or a network such as 10.0.0.0/8.
func ParseProxy(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

func (p Proxies) has(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(p,
		func(one netip.Prefix) bool { return one.Contains(ip.Unmap()) })
}

// peer returns the address at the other end of the connection.
func peer(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// client returns the address of a request's client: behind proxies, the one that the first of them names.
func (p Proxies) client(r *http.Request) string {
	client := peer(r)
	named := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, before := range slices.Backward(named) {
		before = strings.TrimSpace(before)
		if _, err := netip.ParseAddr(before); err != nil || !p.has(client) {
			break // an unknown proxy may say anything
		}
		client = before
	}
	return client
}

// encrypted reports whether a request's client has sent it over TLS.
func (p Proxies) encrypted(r *http.Request) bool {
	return r.TLS != nil || p.has(peer(r)) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
