package rpc

// Encoded is a result that is JSON already, and valid, compact and an object: it is written as it is. Return it where the same result
// answers many requests, or where encoding/json would be too slow.
type Encoded []byte

// MarshalJSON implements json.Marshaler.
func (e Encoded) MarshalJSON() ([]byte, error) { return e, nil }

// After is a handler's result with something to do after it. Return it where something must not be on the wire before the answer is, such
// as what a task says before its handle.
type After struct {
	Result any
	Mark   string // of the response (see Caller.Marks)
	// Do runs in the handler's goroutine as soon as the response stands in the output:
	// whatever Do writes or starts comes after the response on the wire.
	Do func()
	// Drop, if set, runs instead of Do when the response is not sent: the client cancelled the request, or the output is gone.
	Drop func()
}

// settle runs what follows the response.
func (a *After) settle(sent bool) {
	switch {
	case sent && a.Do != nil:
		a.Do()
	case !sent && a.Drop != nil:
		a.Drop()
	}
}
