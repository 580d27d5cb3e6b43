package tasks

import "errors"

// Input is what is typed into a running task, in one piece.
// A View of package run sends it; the work receives it in the order in which it was sent.
type Input struct {
	Data   []byte `json:"data,omitempty"`
	EOF    bool   `json:"eof,omitempty"`    // nothing follows: after Data, the input ends
	Person bool   `json:"person,omitempty"` // a person has typed it, not a model: it may be a password
	// Password is not 0 if Data is a password and a newline: it is the prompt that they answer
	// (PasswordPrompt.At). They are not typed if the program no longer waits there, and masked if it prints
	// them.
	Password int64 `json:"password,omitempty"`

	// The size of the terminal that the input comes from; 0 = as it was.
	Columns int `json:"columns,omitempty"`
	Rows    int `json:"rows,omitempty"`
}

// PasswordPrompt is a program's question for a line that its terminal does not show. It stays the same while
// that line is awaited.
type PasswordPrompt struct {
	At   int64  `json:"at"`   // when it was noticed, in nanoseconds: no two prompts have the same
	Text string `json:"text"` // the line before the cursor
}

// SamePrompt reports whether two prompts are the same; nil is none.
func SamePrompt(a, b *PasswordPrompt) bool {
	return a == b || a != nil && b != nil && a.At == b.At
}

// MaxInput is how much input a task that does not read it may have waiting, in bytes.
const MaxInput = 64 << 10

// These are errors of sending input.
var (
	ErrNoInput   = errors.New("it reads no input: only a tool with interactive: true or stdin: open does")
	ErrInputFull = errors.New("the program has not read the last input: 64 KiB wait for it")
	ErrInputEnd  = errors.New("its input has ended")
)
