package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/internal/pause"
	"runnel/tasks"
)

// get is a direct get: a request that any replica of a stream answers with several messages (ADR-31 of NATS,
// "Direct Get"). It says either where to begin and what to find, or whose last messages to find.
//
// The package jetstreamext of orbit.go has it, too, but its answers come to an inbox below that of all other
// requests. So a server sends each of them twice, which doubled the bytes of a followed task.
type get struct {
	Seq     uint64     `json:"seq,omitempty"`
	Since   *time.Time `json:"start_time,omitempty"`
	NextFor string     `json:"next_by_subj,omitempty"`
	Batch   int        `json:"batch,omitempty"`     // how many messages
	Bytes   int        `json:"max_bytes,omitempty"` // how many bytes of messages, about

	LastFor []string `json:"multi_last,omitempty"` // as of one moment
}

// lastOf returns the last message of each subject of a stream, all as of one moment.
func (sp *space) lastOf(ctx context.Context, stream string,
	subjects ...string) ([]*jetstream.RawStreamMsg, error) {
	return sp.direct(ctx, stream, get{LastFor: subjects})
}

// from returns up to n messages of a subject from a sequence number on, of about limit bytes.
func (sp *space) from(ctx context.Context, sequence uint64, subject string, n,
	limit int) ([]*jetstream.RawStreamMsg, error) {
	return sp.direct(ctx, sp.name, get{Seq: max(sequence, 1), NextFor: subject, Batch: n, Bytes: limit})
}

// direct sends a direct get. One for a stream that does not exist is answered by no server.
func (sp *space) direct(ctx context.Context, stream string,
	what get) (list []*jetstream.RawStreamMsg, err error) {
	request, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	try := func(ctx context.Context) ([]*jetstream.RawStreamMsg, error) {
		list, err := sp.answers(ctx, "$JS.API.DIRECT.GET."+stream, request)
		if err != nil {
			err = unreachable(err)
		}
		return list, err
	}
	for deadline := time.Now().Add(readTimeout); ; {
		list, err = askAgain(ctx, replicaTimeout, try)
		// Either the stream is lost, or its servers have just started and do not serve it yet.
		if !errors.Is(err, nats.ErrNoResponders) || sp.restore(ctx) != nil || time.Now().After(deadline) ||
			!pause.For(ctx, writeAgain) {
			return list, err
		}
	}
}

// answers returns the messages that a direct get finds.
func (sp *space) answers(ctx context.Context, subject string,
	request []byte) (list []*jetstream.RawStreamMsg, err error) {
	inbox := sp.c.nc.NewInbox()
	sub, err := sp.c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := sp.c.nc.PublishRequest(subject, inbox, request); err != nil {
		return nil, err
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		if missing(m.Header, list) {
			return nil, errors.New("a part of the answer was lost with a connection")
		}
		if len(m.Data) == 0 {
			switch status := m.Header.Get("Status"); status {
			case "":
			case "204", "404": // the end of the answers; nothing is found
				return list, nil
			case "503":
				return nil, nats.ErrNoResponders
			default:
				return nil, fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
			}
		}
		found := &jetstream.RawStreamMsg{Subject: m.Header.Get(jetstream.SubjectHeader), Header: m.Header,
			Data: m.Data}
		if found.Sequence, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10,
			64); err != nil {
			return nil, fmt.Errorf("the number of a message: %w", err)
		}
		if found.Time, err = time.Parse(time.RFC3339Nano,
			m.Header.Get(jetstream.TimeStampHeaer)); err != nil {
			return nil, fmt.Errorf("the time of a message: %w", err)
		}
		list = append(list, found)
	}
}

// lastHeader is the number of the message before one in an answer of several, 0 in the first (ADR-31). The
// end of the answer has it, too.
const lastHeader = "Nats-Last-Sequence"

// missing reports whether a part of an answer has not come: a connection that is lost and made again while
// the messages of an answer come gets only those after that.
func missing(header nats.Header, before []*jetstream.RawStreamMsg) bool {
	says := header.Get(lastHeader)
	last, err := strconv.ParseUint(says, 10, 64)
	if says == "" || err != nil { // an answer of one message does not say it
		return false
	}
	if len(before) == 0 {
		return last != 0
	}
	return last != before[len(before)-1].Sequence
}

// replicaTimeout is when a direct get, which any replica answers, is sent again. The servers keep sending one
// that is cut off its share of them until they have given it up, which takes them a minute and more.
const replicaTimeout = 250 * time.Millisecond

// ask sends a request, and sends it again if it is not answered: a server that dies, or is cut off, never
// answers.
func ask[T any](ctx context.Context, try func(ctx context.Context) (T, error)) (T, error) {
	return askAgain(ctx, ackTimeout, try)
}

// askAgain is ask with the time limit of the first try, which doubles with each.
func askAgain[T any](ctx context.Context, patience time.Duration,
	try func(ctx context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for ; ; patience *= 2 {
		attempt, done := context.WithTimeout(ctx, patience)
		answer, err = try(attempt)
		done()
		if !errors.Is(err, tasks.ErrBusy) || errors.Is(err, nats.ErrNoResponders) ||
			!pause.For(ctx, writeAgain) {
			return answer, err
		}
	}
}
