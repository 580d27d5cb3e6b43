package command

import (
	"bytes"
	"sync/atomic"

	"runnel/tools/secrets"
)

// masks masks the secrets of one stream of output: those of the config, and the passwords that were typed
// while the command ran.
type masks struct {
	config *secrets.Stream // nil = there are none
	typed  *secrets.Stream // nil = none has been typed
	set    *secrets.Set    // which typed is of
	latest *atomic.Pointer[secrets.Set]
}

func (m *masks) write(text []byte) []byte {
	text = m.config.Write(text)
	if set := m.latest.Load(); set != m.set {
		before := bytes.Clone(m.typed.Flush())
		m.set, m.typed = set, set.Stream()
		return append(before, m.typed.Write(text)...)
	}
	return m.typed.Write(text)
}

// flush returns what was held back at the end of the text.
func (m *masks) flush() []byte {
	text := bytes.Clone(m.typed.Write(m.config.Flush()))
	return append(text, m.typed.Flush()...)
}

// maxTyped is how many typed passwords of a call are masked, the latest ones.
const maxTyped = 8

// typedPasswords are the passwords that were typed for a call. One goroutine adds to them.
type typedPasswords struct {
	values []string
	set    atomic.Pointer[secrets.Set]
}

// add has a password masked from now on, if it is one that can be: a short one would be masked in much that
// is none.
func (t *typedPasswords) add(password string) {
	if secrets.CheckValue(password) != nil {
		return
	}
	t.values = append(t.values, password)
	t.values = t.values[max(0, len(t.values)-maxTyped):]
	if set, err := secrets.New(t.values, nil); err == nil {
		t.set.Store(set)
	}
}
