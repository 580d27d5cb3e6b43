//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"

	"runnel/tools/sandbox/shim"

	"golang.org/x/sys/unix"
)

// A socket belongs to the network in which it was made, not to that of the process that accepts its
// connections. So the shim listens in the command's own network, and hands the listener to this program:
// nothing runs in between.

// listenerFile is the socket over which the shim hands the listener.
const listenerFile = shim.RulesetFile + 1

// handListener has the shim listen at ProxyAddress, and hand the listener over.
func handListener(to *program) {
	const what = "the proxy's listener"
	control := unix.UnixRights(0)
	rights := to.bytes(control)
	// Its number goes where the message names it.
	listener := rights + uintptr(unix.CmsgLen(0))
	// Struct sockaddr_in.
	address := []byte{0, 0, ProxyPort >> 8, ProxyPort & 0xff, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	binary.NativeEndian.PutUint16(address, unix.AF_INET)
	at := to.bytes(address)
	text := to.numbers(uint64(to.bytes([]byte{0})), 1)                                    // struct iovec
	message := to.numbers(0, 0, uint64(text), 1, uint64(rights), uint64(len(control)), 0) // struct msghdr
	to.do(what, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC).Result = listener
	to.do(what, unix.SYS_BIND, listener, at, uintptr(len(address))).Indirect = 1
	to.do(what, unix.SYS_LISTEN, listener, unix.SOMAXCONN).Indirect = 1
	to.do(what, unix.SYS_SENDMSG, listenerFile, message)
	to.do(what, unix.SYS_CLOSE, listener).Indirect = 1
}

// listenerPair returns the two ends over which a listener is handed.
func listenerPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(pair[0]), "listener"), os.NewFile(uintptr(pair[1]), "listener"), nil
}

// receiveListener returns the listener that the shim has handed over. It does not wait.
func receiveListener(from *os.File) (net.Listener, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(from.Fd()), make([]byte, 1), control,
		unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("recvmsg: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("no listener came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("no listener came"), err)
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close() // FileListener duplicates it
	return net.FileListener(f)
}
