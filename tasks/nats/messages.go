package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/internal/pause"
	"runnel/tasks"
	"runnel/tasks/engine"
)

const (
	maxMessage = 1 << 20 // the server's default; an extent with its header is below it
	// Like writeTimeout: longer than it takes to give up a server that is cut off, and to elect a leader.
	readTimeout = 10 * time.Second
)

// publish stores a message, and tries again until it is acknowledged, refused or ctx ends: then the error is
// tasks.ErrBusy. A message whose condition (an expected sequence number) does not hold is refused with
// tasks.ErrFenced.
func (sp *space) publish(ctx context.Context, m *nats.Msg,
	o ...jetstream.PublishOpt) (sequence uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	m = identified(m)
	for {
		attempt, done := context.WithTimeout(ctx, ackTimeout)
		ack, err := sp.c.js.PublishMsg(attempt, copyOf(m), append(o, once)...)
		done()
		if err == nil {
			return ack.Sequence, nil
		}
		if refused := sp.refusal(ctx, err); refused != nil {
			return 0, refused
		}
		if !pause.For(ctx, writeAgain) {
			return 0, tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("no server of %s has stored it within %v: %w", sp.c.o.Servers, writeTimeout, err)}}
		}
	}
}

// once makes the client send a message once: it does not know when another try makes no sense.
var once = jetstream.WithRetryAttempts(0)

// identified returns a message with an id, by which the stream knows the copies of it that are sent: one may
// come late, from a server that was stopped when it had just received it, and must not take the place of what
// was stored since.
func identified(m *nats.Msg) *nats.Msg {
	c := copyOf(m)
	if c.Header.Get(jetstream.MsgIDHeader) == "" {
		c.Header.Set(jetstream.MsgIDHeader, uuid.NewString())
	}
	return c
}

// copyOf returns a message that the client may write headers into.
func copyOf(m *nats.Msg) *nats.Msg {
	c := *m
	c.Header = nats.Header{}
	for name, values := range m.Header {
		c.Header[name] = values
	}
	return &c
}

// refusal returns why a message is not stored, and nil if another try may succeed.
func (sp *space) refusal(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch {
		case refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
			return tasks.ErrFenced
		case isFull(refused):
			return explain(refused)
		case refused.Code == 503: // an election, or a server that starts
		case refused.ErrorCode == inProcess || refused.ErrorCode == duplicateInProcess:
		default:
			return explain(refused)
		}
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return tasks.Trouble{Err: fmt.Errorf("the state refuses it: let its servers take messages of 1 "+
			"MiB (max_payload): %w", err)}
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		if err := sp.restore(ctx); err != nil && !errors.Is(err, tasks.ErrBusy) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// write is a message for publishInOrder, and the conditions and options of it.
type write struct {
	m *nats.Msg
	o []jetstream.PublishOpt
}

// publishInOrder is publish for messages of one stream. They are sent one right after the other, and only
// then are their acknowledgements awaited: most of what a message costs is that the server and this process
// wake for it. Each is stored whether or not those before it are. It returns the error of the first that is
// not stored.
func (sp *space) publishInOrder(ctx context.Context, all ...write) (sequences []uint64, err error) {
	sent := make([]jetstream.PubAckFuture, len(all))
	for i, w := range all {
		w.m = identified(w.m)
		all[i] = w
		sent[i], _ = sp.c.js.PublishMsgAsync(copyOf(w.m), append(w.o, once)...) // nil if it fails
	}
	sequences = make([]uint64, len(all))
	for i, w := range all {
		failed := errors.New("it was not sent")
		if sent[i] != nil {
			select { // one that is not acknowledged fails after ackTimeout
			case ack := <-sent[i].Ok():
				sequences[i] = ack.Sequence
				continue
			case failed = <-sent[i].Err():
			case <-ctx.Done():
			}
		}
		if failed = sp.refusal(ctx, failed); failed == nil {
			pause.For(ctx, writeAgain)
			sequences[i], failed = sp.publish(ctx, w.m, w.o...)
		}
		err = cmp.Or(err, failed)
	}
	return sequences, err
}

// A server answers with these while it stores another message of the subject
// (JSStreamWrongLastSequenceConstantErr) or this one (JSStreamDuplicateMessageConflict): it does not know yet
// which one counts.
const (
	inProcess          jetstream.ErrorCode = 10164
	duplicateInProcess jetstream.ErrorCode = 10158
)

// newest returns the last message of a subject as the leader of the stream has it, nil if there is none. The
// direct gets below may be answered by a replica that does not have everything that was acknowledged.
func (sp *space) newest(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	return sp.askLeader(ctx, map[string]any{"last_by_subj": subject})
}

// askLeader returns the message that a request of $JS.API.STREAM.MSG.GET finds, nil if there is none.
func (sp *space) askLeader(ctx context.Context, what map[string]any) (*jetstream.RawStreamMsg, error) {
	const noMessage = 10037
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	request, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	for {
		attempt, done := context.WithTimeout(ctx, ackTimeout)
		m, err := sp.c.nc.RequestWithContext(attempt, "$JS.API.STREAM.MSG.GET."+sp.name, request)
		done()
		var answer struct {
			Error   *jetstream.APIError
			Message struct {
				Subject string
				Seq     uint64
				Hdrs    []byte
				Data    []byte
				Time    time.Time
			}
		}
		if err == nil {
			err = json.Unmarshal(m.Data, &answer)
		}
		switch {
		case err == nil && answer.Error == nil:
			found := answer.Message
			header, _ := nats.DecodeHeadersMsg(found.Hdrs) // nil if there is none, or it is damaged
			return &jetstream.RawStreamMsg{Subject: found.Subject, Sequence: found.Seq, Header: header,
				Data: found.Data, Time: found.Time}, nil
		case err == nil && answer.Error.ErrorCode == noMessage:
			return nil, nil
		case err == nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
			return nil, sp.restore(ctx)
		case err == nil && answer.Error.Code != 503:
			return nil, explain(answer.Error)
		}
		if !pause.For(ctx, writeAgain) {
			return nil, unreachable(context.Cause(ctx))
		}
	}
}

// fetch reads messages, as space.from does.
type fetch func(ctx context.Context, sequence uint64, subject string, n,
	limit int) ([]*jetstream.RawStreamMsg, error)

// caught calls look until it has found what was acknowledged, since a replica may lag. In the end look asks
// the leader: what is not found then is not there.
func (sp *space) caught(ctx context.Context, look func(from fetch) (found bool, err error)) error {
	for deadline := time.Now().Add(lagTime); ; {
		found, err := look(sp.from)
		if err == nil && !found && time.Now().After(deadline) {
			_, err = look(sp.fromLeader)
			return err
		}
		if err != nil || found {
			return err
		}
		if !pause.For(ctx, lagPause) {
			return context.Cause(ctx)
		}
	}
}

const (
	// lagTime is how long a replica may lag until the leader is asked, which costs a request for each
	// message.
	lagTime  = 200 * time.Millisecond
	lagPause = 20 * time.Millisecond
)

// fromLeader is from, answered by the leader of the stream.
func (sp *space) fromLeader(ctx context.Context, sequence uint64, subject string, n,
	limit int) (list []*jetstream.RawStreamMsg, err error) {
	for size := 0; len(list) < n && (len(list) == 0 || size < limit); {
		m, err := sp.askLeader(ctx, map[string]any{"seq": max(sequence, 1), "next_by_subj": subject})
		if err != nil || m == nil {
			return list, err
		}
		list = append(list, m)
		sequence = m.Sequence + 1
		size += len(m.Data)
	}
	return list, nil
}

// subjects returns the subjects of a stream that match a pattern. jetstream.Stream.Info would do, but is not
// for several goroutines at once.
func (sp *space) subjects(ctx context.Context, stream, pattern string) ([]string, error) {
	return ask(ctx, func(ctx context.Context) ([]string,
		error) {
		return sp.subjectsNow(ctx, stream, pattern)
	})
}

func (sp *space) subjectsNow(ctx context.Context, stream, pattern string) (list []string, err error) {
	for {
		request, err := json.Marshal(map[string]any{"subjects_filter": pattern, "offset": len(list)})
		if err != nil {
			return nil, err
		}
		m, err := sp.c.nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, request)
		if err != nil {
			return nil, unreachable(err)
		}
		var page struct {
			Error *jetstream.APIError
			Total int
			State struct{ Subjects map[string]uint64 }
		}
		if err := json.Unmarshal(m.Data, &page); err != nil {
			return nil, err
		}
		if page.Error != nil && page.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound {
			return nil, sp.restore(ctx)
		}
		if page.Error != nil {
			return nil, unreachable(page.Error)
		}
		list = slices.AppendSeq(list, maps.Keys(page.State.Subjects))
		if len(page.State.Subjects) == 0 || len(list) >= page.Total {
			return list, nil
		}
	}
}
