package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// SOCKS5 (RFC 1928), the part that a child needs: no authentication, CONNECT. There are libraries: armon's is
// of 2016 and resolves names before it asks for rules, and others bring servers of their own with more than
// this.
const (
	socksVersion  = 5
	noMethod      = 0xff
	socksConnect  = 1
	addressV4     = 1
	addressName   = 3
	addressV6     = 4
	replyReached  = 0
	replyRefused  = 2
	replyFailed   = 4
	replyCommand  = 7
	replyBadKind  = 8
	replyReserved = 0
)

// socks serves a connection whose first byte is that of SOCKS5, and closes it.
func (p *Proxy) socks(ctx context.Context, child net.Conn) {
	defer func() { _ = child.Close() }()
	_ = child.SetDeadline(time.Now().Add(headerTime))
	reply := func(code byte) { // "the server's bound address", which is not the child's business
		_, _ = child.Write([]byte{socksVersion, code, replyReserved, addressV4, 0, 0, 0, 0, 0, 0})
	}
	address, code, err := readSocks(child)
	if err != nil {
		return
	}
	if code != replyReached {
		reply(code)
		return
	}
	_ = child.SetDeadline(time.Time{})
	host, err := p.dial(ctx, address)
	if err != nil {
		code = replyFailed
		if _, refused := errors.AsType[*refusal](err); refused {
			code = replyRefused
		}
		reply(code)
		return
	}
	defer func() { _ = host.Close() }()
	reply(replyReached)
	join(ctx, child, host)
}

// readSocks reads the greeting and the request, and returns the address that the child wants to reach, or a
// code that refuses the request.
func readSocks(child io.ReadWriter) (address string, code byte, err error) {
	var in [256]byte
	read := func(n int) []byte {
		if err == nil {
			_, err = io.ReadFull(child, in[:n])
		}
		return in[:n]
	}
	methods := read(int(read(2)[1]))
	offered := false
	for _, method := range methods {
		offered = offered || method == 0 // no authentication
	}
	if err == nil && !offered {
		_, _ = child.Write([]byte{socksVersion, noMethod})
		err = errors.New("the child wants to authenticate")
	}
	if err == nil {
		_, err = child.Write([]byte{socksVersion, 0})
	}
	request := read(4)
	version, command, kind := request[0], request[1], request[3]
	var host string
	switch kind {
	case addressV4:
		addr, _ := netip.AddrFromSlice(read(4))
		host = addr.String()
	case addressV6:
		addr, _ := netip.AddrFromSlice(read(16))
		host = addr.String()
	case addressName:
		host = string(read(int(read(1)[0])))
	default:
		return "", replyBadKind, err
	}
	port := binary.BigEndian.Uint16(read(2))
	if err == nil && version != socksVersion {
		err = fmt.Errorf("version %d", version)
	}
	if command != socksConnect {
		code = replyCommand
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), code, err
}
