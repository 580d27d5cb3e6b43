// Package secrets masks what must not be shown: the values that a config names, and what its patterns match.
//
//	values ─ spellings ─┐
//	patterns ───────────┴▶ New ─▶ Set ─▶ machine (an automaton like that of package regexp)
//	                               ├▶ String, JSON: for a whole text
//	                               └▶ Stream: for text that comes in pieces
//
// A byte is masked if it is in a value, or in anything that a pattern can match, however long or short. Each
// run of such bytes becomes one mask, "***". So it makes no difference how a text is cut into pieces: a
// Stream returns what String would return for the whole text, which a fuzz test checks. A Stream holds back
// only text that may still become a secret, until that is decided, however long it takes.
//
// It has no goroutines and no locks; Current has an atomic pointer. A Stream belongs to its writer.
//
//	value      a text that must not be shown, such as the value of a variable
//	spelling   a value as it is written in JSON, in a URL or in base64
//	undecided  text that may still turn out to be a secret
//
// Where things stand:
//
//	what counts as the same value               spellings (spell.go)
//	a pattern that would hold back text         machine.undecided (machine.go)
//	a value that is too short                   New (secrets.go)
//	images and files in base64                  Set.inJSON (secrets.go)
//	what is passed on, and what is held back    Stream.settle (stream.go)
//	the config is read again                    Current (secrets.go): running calls keep the Set with which they began
package secrets
