// Package secrets takes out of text what must not be shown: the values that a config names, and what its patterns match. Mask stands in its
// place.
//
//	values ─ spellings ─┐
//	patterns ───────────┴▶ New ─▶ Set ─▶ machine (an automaton, as package regexp's)
//	                               ├▶ String, JSON: what is there whole
//	                               └▶ Stream: text that comes in pieces
//
// A byte is masked if it is in a value, or in anything that a pattern can match, however long or short; each run of such bytes becomes one
// Mask. So it makes no difference how a text is cut into pieces, and a Stream is String over all of it, which a
// fuzz test holds it to. A Stream holds back only what may still become a secret, and holds that until it is known: a pause says nothing.
//
// It has no goroutines, and its one lock is in Current, an atomic pointer. A Stream belongs to who writes to it.
//
//	value      a text that must not be shown, such as that of a variable
//	spelling   a value as JSON, a URL or base64 has it
//	undecided  text that may still turn out to be a secret
//
// Where things stand:
//
//	what counts as the same value              spellings (spell.go)
//	a pattern that would hold text back        machine.undecided (machine.go)
//	a value that is too short                  New (secrets.go)
//	images and files in base64                 Set.inJSON (json.go)
//	what is given out, and what is held back   Stream.settle (stream.go)
//	the config is read again                   Current (current.go): calls that run keep the Set that they began with
package secrets
