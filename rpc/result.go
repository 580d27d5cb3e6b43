package rpc

// Encoded is a result that is already JSON: a valid, compact object without the members _meta and resultType.
// It is written unchanged, and both members are added where the era requires them. Return it where one result
// answers many requests, or encoding/json is too slow.
type Encoded []byte

// MarshalJSON implements json.Marshaler.
func (e Encoded) MarshalJSON() ([]byte, error) { return e, nil }

// After is a handler's result with something to do afterwards. Return it where something must not reach the
// wire before the answer, such as the output of a task before its handle.
type After struct {
	Result any
	Mark   string // precedes the response (see Caller.Marks)
	// Do runs on the handler's goroutine as soon as the response is queued: whatever Do writes or starts
	// comes after the response on the wire.
	Do func()
	// Drop, if set, runs instead of Do if the response is not sent: the client cancelled the request, or the
	// output is gone.
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
