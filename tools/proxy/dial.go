package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// dialTime bounds all tries to reach a host, with its name's resolution.
	dialTime = 30 * time.Second
	// addressTime bounds the try of one of its addresses.
	addressTime = 10 * time.Second
	// maxRefused is how many refused addresses are kept. A model needs the first ones.
	maxRefused = 8
)

// refusal is the error of an address that may not be reached.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// Words returns what a list of hosts allows.
func Words(hosts []Host) string {
	if len(hosts) == 0 {
		return "nothing"
	}
	var words []string
	for _, h := range hosts {
		words = append(words, h.String())
	}
	return strings.Join(words, ", ")
}

// dial reaches a host of the list.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	name, port, err := splitAddress(address)
	if err != nil {
		return nil, p.refuse("a host whose name is odd")
	}
	addr, err := netip.ParseAddr(name)
	literal := err == nil
	if literal {
		addr = addr.Unmap()
		address = netip.AddrPortFrom(addr, port).String()
	} else if !isName(name) {
		return nil, p.refuse("a host whose name is odd")
	} else {
		address = net.JoinHostPort(name, strconv.Itoa(int(port)))
	}
	listed := func(h Host) bool { return h.names(name, port) || literal && h.is(addr, port) }
	if !slices.ContainsFunc(p.Hosts, listed) && !p.ask(ctx, address) {
		return nil, p.refuse(address)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	addrs := []netip.Addr{addr}
	if !literal {
		if addrs, err = p.lookup(ctx, name); err != nil {
			return nil, err
		}
	}
	err = fmt.Errorf("%s has no address", name)
	for _, addr := range addrs {
		addr = addr.Unmap()
		at := netip.AddrPortFrom(addr, port)
		known := func(h Host) bool { return h.is(addr, port) }
		if !literal && !isPublic(addr) && !slices.ContainsFunc(p.Hosts, known) && !p.ask(ctx, at.String()) {
			err = p.refuse(fmt.Sprintf("%s, which is %s, a private address that must be listed, too",
				address, addr))
			continue
		}
		try, cancel := context.WithTimeout(ctx, addressTime)
		conn, failed := p.dialer.DialContext(try, "tcp", at.String())
		cancel()
		if failed == nil {
			return conn, nil
		}
		err = failed
	}
	return nil, err
}

// lookup returns the addresses of a name.
func (p *Proxy) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if p.Lookup != nil {
		return p.Lookup(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// ask asks whether an address that is not in the list may be reached. It asks once for each address.
func (p *Proxy) ask(ctx context.Context, address string) bool {
	if p.Ask == nil {
		return false
	}
	p.asking.Lock()
	defer p.asking.Unlock()
	answer, asked := p.answers[address]
	if !asked && len(p.answers) < maxRefused {
		answer = p.Ask(ctx, address)
		if ctx.Err() == nil { // else the child has given up before the answer
			p.answers[address] = answer
		}
	}
	return answer
}

// refuse records a refused address, and returns the error for the child.
func (p *Proxy) refuse(address string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) < maxRefused && !slices.Contains(p.refused, address) {
		p.refused = append(p.refused, address)
	}
	return &refusal{"blocked by the sandbox: connect to " + address + "; allowed: " + Words(p.Hosts)}
}

// Refused returns the first addresses that were refused.
func (p *Proxy) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}
