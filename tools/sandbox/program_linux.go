//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"runnel/tools/sandbox/shim"

	"golang.org/x/sys/unix"
)

// program is what a shim does: system calls, one after another, with the memory that they read and write. It
// is made before the shim starts, and what it does can be read as text.
type program struct {
	data  []byte // what is at shim.Base, the steps apart
	steps []shim.Step
	names []string // of the steps, for what is said when one fails
}

func newProgram() *program { return &program{data: make([]byte, unsafe.Sizeof(shim.Order{}))} }

// bytes puts bytes into the memory, and returns their address.
func (p *program) bytes(b []byte) uintptr {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	at := shim.Base + uintptr(len(p.data))
	p.data = append(p.data, b...)
	return at
}

// text puts a text into the memory, as the system reads it.
func (p *program) text(s string) uintptr { return p.bytes(append([]byte(s), 0)) }

// numbers puts numbers of 64 bits into the memory.
func (p *program) numbers(list ...uint64) uintptr {
	var b []byte
	for _, n := range list {
		b = binary.NativeEndian.AppendUint64(b, n)
	}
	return p.bytes(b)
}

// list puts texts and a list of their addresses into the memory.
func (p *program) list(texts []string) uintptr {
	var addresses []uint64
	for _, s := range texts {
		addresses = append(addresses, uint64(p.text(s)))
	}
	return p.numbers(append(addresses, 0)...)
}

// do adds a system call, which may be changed by what is returned until the next one is added. name is what
// fails if it does.
func (p *program) do(name string, number uintptr, args ...uintptr) *shim.Step {
	step := shim.Step{Number: number}
	copy(step.Args[:], args)
	p.steps = append(p.steps, step)
	p.names = append(p.names, name)
	return &p.steps[len(p.steps)-1]
}

// file returns the program as an open file without a name, from its beginning, which nothing can replace.
func (p *program) file() (*os.File, error) {
	steps := p.bytes(nil)
	for i := range p.steps {
		p.data = append(p.data, (*[unsafe.Sizeof(shim.Step{})]byte)(unsafe.Pointer(&p.steps[i]))[:]...)
	}
	*(*shim.Order)(unsafe.Pointer(&p.data[0])) = shim.Order{Steps: steps, Count: uint32(len(p.steps))}
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "order")
	if _, err = f.Write(p.data); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// outcome returns what a shim has written into its program's file.
func outcome(f *os.File) (o shim.Order, err error) {
	_, err = f.ReadAt((*[unsafe.Sizeof(o)]byte)(unsafe.Pointer(&o))[:], 0)
	return o, err
}

// failure returns what has failed; nil if nothing has.
func (p *program) failure(o *shim.Order) error {
	if o.Failed == 0 || int(o.Failed) > len(p.names) {
		return nil
	}
	return fmt.Errorf("%s: %w", p.names[o.Failed-1], syscall.Errno(o.Errno))
}
