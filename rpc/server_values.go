package rpc

import "sync"

// sessionValues are what rooms remember of a session.
type sessionValues struct {
	mu    sync.Mutex
	byKey map[any]any
}

// SessionValue returns what a room remembers of the caller's session under a key of its own, made by fresh for the first who
// asks. It lives as long as the session. fresh must not ask for another one.
func (c *Caller) SessionValue(key any, fresh func() any) any {
	v := &c.session.values
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok := v.byKey[key]
	if !ok {
		if v.byKey == nil {
			v.byKey = map[any]any{}
		}
		value = fresh()
		v.byKey[key] = value
	}
	return value
}
