package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Task is the record of one task: a Store keeps it, and every answer about the task is made from it.
// Store.Get returns one.
type Task struct {
	ID            string
	Owner         string
	Tool          string
	Client        string // clientInfo.name of the host that made the call; "" = not known, or runnel call
	Status        mcp.TaskStatus
	StatusMessage string // MaxStatusMessage bytes at most
	CreatedAt     time.Time
	UpdatedAt     time.Time
	TTL           time.Duration // from CreatedAt
	Outcome       *Outcome      // nil until the task has ended
	Log           *partials.Log // the tool's output
	Segments      *partials.Segments
	Variables     json.RawMessage // an object (variables.go); nil if there are none
	Arguments     json.RawMessage // of the call; they do not change; nil if they are not known
	Progress      Progress        // the last that the tool has reported; stored as a note (variables.go)
	Times         Times           // when the output came; stored as a note, too
	Matches       Matches         // what the tool has found in its output; stored as a note, too
	Password      *PasswordPrompt // what it asks a password with, while it does; stored as a note, too
	Merge         bool            // the result is the merged segments (SEP-1905 streaming)
	Detached      bool            // a supervisor or a worker runs it, which outlives runnel
	Waiting       bool            // it waits for a worker (Queue)
	Worker        string          // the host of the worker that runs it; "" if none does
	Attempt       int             // how many times workers have begun it

	Hidden bool // it has no handle: clients do not find it (Store.Put)
	Ending bool // its work is done, so the limits on live tasks and starts do not apply; not stored
}

// Progress is how far a tool has come, as it reports it.
type Progress struct {
	Done    float64 `json:"done,omitempty"` // 0: unknown
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Outcome is how a task ended: with a result (possibly one with isError) or with a JSON-RPC error, never
// both. Task.Outcome holds it.
type Outcome struct {
	Result *mcp.CallToolResult
	Err    *rpc.Error
	// Interrupted says that the task has failed because the process that ran it has ended.
	Interrupted bool
}

// transitions are the status changes that a task may make (2025-11-25 basic/utilities/tasks, "Task Status
// Lifecycle"). All others are refused, even one to the present status.
var transitions = map[mcp.TaskStatus][]mcp.TaskStatus{
	mcp.TaskWorking:       {mcp.TaskInputRequired, mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled},
	mcp.TaskInputRequired: {mcp.TaskWorking, mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled},
	// "Tasks with a completed, failed, or cancelled status are in a terminal state and MUST NOT transition".
	mcp.TaskCompleted: nil,
	mcp.TaskFailed:    nil,
	mcp.TaskCancelled: nil,
}

// CheckMove returns an error if a task must not change from one status to the other.
func CheckMove(from, to mcp.TaskStatus) error {
	if slices.Contains(transitions[from], to) {
		return nil
	}
	return fmt.Errorf("task status cannot change: %s to %s", from, to)
}

// Expired reports whether the task has ended and its ttl is over: from then on it counts as unknown. A
// working task stays visible: it is stopped at the end of its ttl.
// A state calls it before it returns a task.
func (t *Task) Expired(now time.Time) bool {
	return t.Status.Terminal() && !now.Before(t.CreatedAt.Round(0).Add(t.TTL)) // by the wall clock
}

// NewID makes a task's id: a random UUID whose first 16 bits are milliseconds of the clock. Ids made at one
// time are therefore neighbours in a state's index, instead of each changing another page; 106 random bits
// remain to keep the id secret.
func NewID(now time.Time) string {
	id := uuid.New()
	ms := now.UnixMilli()
	id[0], id[1] = byte(ms>>8), byte(ms)
	return id.String()
}

// MaxStatusMessage limits statusMessage, in bytes: every status repeats it.
const MaxStatusMessage = 2 << 10

// Clip shortens a message to MaxStatusMessage bytes.
func Clip(message string) string { return shorten.Clip(message, MaxStatusMessage) }

// Sample says how many bytes of output a task had at an age.
// Times hold them.
type Sample struct {
	At    time.Duration
	Bytes int64
}

// Times are samples of a task's output, in order: one for each time at which it had grown. Between two
// samples far apart the task was silent.
type Times []Sample

// MarshalJSON encodes the samples as they are stored: milliseconds and bytes in turn, each as the difference
// from the sample before.
func (s Times) MarshalJSON() ([]byte, error) {
	numbers := make([]int64, 0, 2*len(s))
	at, bytes := int64(0), int64(0)
	for _, sample := range s {
		ms := sample.At.Milliseconds()
		numbers = append(numbers, ms-at, sample.Bytes-bytes)
		at, bytes = ms, sample.Bytes
	}
	return json.Marshal(numbers)
}

// UnmarshalJSON decodes what MarshalJSON has encoded. Damaged samples read as none.
func (s *Times) UnmarshalJSON(text []byte) error {
	var numbers []int64
	if json.Unmarshal(text, &numbers) != nil {
		return nil
	}
	var sample Sample
	for n := 0; n+1 < len(numbers) && numbers[n] >= 0 && numbers[n+1] > 0; n += 2 {
		sample.At += time.Duration(numbers[n]) * time.Millisecond
		sample.Bytes += numbers[n+1]
		*s = append(*s, sample)
	}
	return nil
}

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

// maxLastOutput is how much of the end of its output the result of an aborted task shows.
const maxLastOutput = mcp.MaxText

// LastOutput returns the end of a log as content, for a task that was aborted and has no result. It says how
// much is left out, even to clients that have already seen it.
func LastOutput(ctx context.Context, log *partials.Log) (content []mcp.ContentBlock) {
	var said strings.Builder
	flush := func() {
		if said.Len() > 0 {
			content = append(content, mcp.Text(said.String()))
			said.Reset()
		}
	}
	end, shown := log.Size(), int64(0)
	// if it fails, the part that could be read is shown.
	_, _ = Tail(ctx, log, max(end-maxLastOutput, 0), func(b partials.Batch) error {
		if left := b.Start - shown; left > 0 {
			said.WriteString(shorten.LeftOut(left, "bytes", "") + "\n")
		}
		shown = b.End
		for _, c := range b.Chunks() {
			if c.Kind == partials.Item {
				flush()
				content = append(content, slices.Clone(c.Data))
			} else {
				said.Write(c.Plain())
			}
		}
		return nil
	})
	flush()
	return content
}

// TailBytes is how much of the end of the output is searched for a last line.
const TailBytes = 4 << 10

// LastLine returns the last line of a task's output that is not blank, if its end shows one.
func (t *Task) LastLine(ctx context.Context) (line string) {
	_, _ = Tail(ctx, t.Log, max(t.Log.Size()-TailBytes, 0), func(b partials.Batch) error {
		line = cmp.Or(b.LastLine(), line)
		return nil
	})
	return line
}

// tailPage is how many bytes are read at a time.
const tailPage = 256 << 10

// Tail passes what a log has after a position to write, and returns where that ends.
func Tail(ctx context.Context, log *partials.Log, after int64,
	write func(partials.Batch) error) (int64, error) {
	for after < log.Size() {
		b, next, err := log.ReadAt(ctx, after, tailPage)
		if err != nil {
			return after, err
		}
		if b.End > b.Start {
			if err := write(b); err != nil {
				return after, err
			}
		}
		after = next
	}
	return after, nil
}
