package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Host is a port of a host, or of all hosts below a name.
type Host struct {
	name  string     // in lower case; "" = addr
	addr  netip.Addr // of a host that is named by its address
	below bool       // all hosts below name, but not name itself
	port  uint16
}

// ParseHost reads a host of a list: example.com:443, *.example.com:443, 10.0.0.5:5432 or [::1]:8080.
func ParseHost(text string) (Host, error) {
	name, port, err := splitAddress(text)
	if err != nil {
		return Host{}, err
	}
	h := Host{port: port}
	if addr, err := netip.ParseAddr(name); err == nil {
		h.addr = addr.Unmap()
		return h, nil
	}
	h.name, h.below = strings.CutPrefix(name, "*.")
	if !isName(h.name) {
		return Host{}, fmt.Errorf("%.100q is not the name of a host", name)
	}
	return h, nil
}

// String writes the host as ParseHost reads it.
func (h Host) String() string {
	name := h.name
	switch {
	case name == "":
		name = h.addr.String()
	case h.below:
		name = "*." + name
	}
	return net.JoinHostPort(name, strconv.Itoa(int(h.port)))
}

// names reports whether the host is a name, which is in lower case, and a port.
func (h Host) names(name string, port uint16) bool {
	if h.port != port || h.name == "" {
		return false
	}
	return !h.below && name == h.name || h.below && strings.HasSuffix(name, "."+h.name)
}

// is reports whether the host is an address and a port.
func (h Host) is(addr netip.Addr, port uint16) bool {
	return h.port == port && (h.name == "" && h.addr == addr ||
		h.name == "localhost" && !h.below && addr.IsLoopback())
}

// splitAddress splits HOST:PORT. The host is in lower case and without a dot at its end.
func splitAddress(text string) (host string, port uint16, err error) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, errors.New("it is not HOST:PORT")
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%.20q is not the number of a port", number)
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), uint16(n), nil
}

// isName reports whether a text is a name as DNS has them (RFC 1123, 2.1), with _ since some have it.
func isName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	return s != "" && len(s) <= 253 && strings.Trim(s, letters) == "" && !strings.HasPrefix(s, ".") &&
		!strings.Contains(s, "..")
}

// special are networks that lead to this machine, to its own network or, translated, to any address of the
// others (IANA's special-purpose address registries).
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// isPublic reports whether an address is one of the internet's.
func isPublic(addr netip.Addr) bool {
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && addr.Zone() == "" &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(addr) })
}
