package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"runnel/tasks"
)

// space is what this process has of an owner's stream.
type space struct {
	s      *State
	owner  string
	stream jetstream.Stream
	name   string // of the stream
	root   string // PREFIX.OWNER.
	wakes  string // PREFIX-wake.OWNER.
	asks   string // PREFIX-ask.OWNER.
	asked  *nats.Subscription

	stop    context.CancelFunc
	all     sync.WaitGroup
	renewed time.Time // when the lease was last stored; of the goroutine that renews it

	mu     sync.Mutex
	live   map[string]*keeping // by id: the tasks that this process runs
	wanted map[string]struct{} // of them, those that others ask to cancel
	fenced map[string]struct{} // of them, those that others have ended
}

// schema is the version of what stands in a stream.
const (
	schema        = "1"
	schemaMember  = "runnel.schema"
	ownerMember   = "runnel.owner"
	dedupeWindow  = 2 * time.Minute // longer than a lease: who could not write for so long has lost its tasks
	maxMessage    = 1 << 20         // the server's default; a stretch with its header is far below it
	directTimeout = 5 * time.Second
)

func (s *State) openSpace(ctx context.Context, owner string) (_ *space, err error) {
	name := owner
	if !isToken(owner) || strings.HasPrefix(owner, "_") {
		sum := sha256.Sum256([]byte(owner))
		name = "_" + hex.EncodeToString(sum[:16])
	}
	sp := &space{
		s: s, owner: owner, name: s.o.Prefix + "_" + name,
		root: s.o.Prefix + "." + name + ".", wakes: s.o.Prefix + "-wake." + name + ".", asks: s.o.Prefix + "-ask." + name + ".",
		live: map[string]*keeping{}, wanted: map[string]struct{}{}, fenced: map[string]struct{}{},
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	sp.stream, err = s.js.Stream(ctx, sp.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		sp.stream, err = s.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: sp.name, Subjects: []string{sp.root + ">"}, Description: "tasks of runnel",
			Storage: jetstream.FileStorage, Replicas: s.o.Replicas, MaxBytes: max(s.o.MaxState, 0), Discard: jetstream.DiscardNew,
			AllowDirect: true, AllowRollup: true, AllowMsgTTL: true, Duplicates: dedupeWindow, MaxConsumers: 1, // runnel needs none
			Metadata: map[string]string{schemaMember: schema, ownerMember: owner},
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another runnel was quicker, with other options
			sp.stream, err = s.js.Stream(ctx, sp.name)
		}
	}
	if err != nil {
		return nil, err
	}
	config := sp.stream.CachedInfo().Config
	switch found := config.Metadata[schemaMember]; {
	case found == "":
		return nil, fmt.Errorf("the stream %s is not one that runnel has made: name another prefix (?prefix=NAME)", sp.name)
	case found != schema:
		return nil, fmt.Errorf("the stream %s has version %s, and this runnel knows %s: use the runnel that made it, or another prefix (?prefix=NAME)", sp.name, found, schema)
	case config.Metadata[ownerMember] != owner:
		return nil, fmt.Errorf("the stream %s belongs to another owner", sp.name)
	}
	if err := sp.keepAlive(ctx); err != nil {
		return nil, err
	}
	return sp, nil
}

func (sp *space) close() {
	sp.stop()
	sp.mu.Lock()
	for _, k := range sp.live {
		k.stop()
	}
	sp.mu.Unlock()
	sp.all.Wait()
	_ = sp.asked.Unsubscribe()
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	_ = sp.stream.Purge(ctx, jetstream.WithPurgeSubject(sp.lease(sp.s.keeper))) // else it runs out by itself
}

// subject names what of a task.
func (sp *space) subject(id, what string) string { return sp.root + id + "." + what }

// The lease of a process is a message that expires.
func (sp *space) lease(keeper string) string { return sp.root + "alive." + keeper }

// rollup makes a message the only one of its subject.
var rollup = nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}

// forever is a ttl beyond which a message needs none.
const forever = 10 * 365 * 24 * time.Hour

// graceTTL is how long what belongs to a task outlives it: its end is being stored.
const graceTTL = time.Minute

// expiring sets how long a message of a task is kept.
func (sp *space) expiring(t *tasks.Task) jetstream.PublishOpt {
	left := t.TTL - sp.s.o.Now().Sub(t.CreatedAt) + graceTTL
	if t.TTL > forever {
		left = forever
	}
	return jetstream.WithMsgTTL(max(left, time.Second).Round(time.Second))
}

// publish stores a message, and tries again until it is acknowledged, refused or ctx ends: then the error is tasks.ErrBusy. A message
// whose condition (an expected sequence number) does not hold is refused with tasks.ErrFenced.
func (sp *space) publish(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (sequence uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for {
		again := *m // PublishMsg writes into the header
		again.Header = nats.Header{}
		for name, values := range m.Header {
			again.Header[name] = values
		}
		attempt, done := context.WithTimeout(ctx, ackTimeout)
		ack, err := sp.s.js.PublishMsg(attempt, &again, append(o, jetstream.WithRetryAttempts(0))...)
		done()
		if err == nil {
			return ack.Sequence, nil
		}
		if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
			switch {
			case refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
				return 0, tasks.ErrFenced
			case refused.Code == 503: // an election, or a server that starts
			case refused.ErrorCode == inProcess || refused.ErrorCode == duplicateInProcess:
			default:
				return 0, explain(refused)
			}
		}
		select {
		case <-time.After(writeAgain):
		case <-ctx.Done():
			return 0, tasks.Trouble{Err: fmt.Errorf("%w: no server of %s has stored it within %v: %w", tasks.ErrBusy, sp.s.o.Servers, writeTimeout, err)}
		}
	}
}

// What a server answers while it stores another message of the subject (JSStreamWrongLastSequenceConstantErr), or this one
// (JSStreamDuplicateMessageConflict): it is not known yet what holds.
const (
	inProcess          jetstream.ErrorCode = 10164
	duplicateInProcess jetstream.ErrorCode = 10158
)

// newest returns the last message of a subject as the leader of the stream has it, nil if there is none. The direct gets below may be
// answered by a replica that lags behind what was acknowledged.
func (sp *space) newest(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	const noMessage = 10037
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	request, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return nil, err
	}
	for {
		attempt, done := context.WithTimeout(ctx, ackTimeout)
		m, err := sp.s.nc.RequestWithContext(attempt, "$JS.API.STREAM.MSG.GET."+sp.name, request)
		done()
		var answer struct {
			Error   *jetstream.APIError
			Message struct {
				Seq  uint64
				Data []byte
				Time time.Time
			}
		}
		if err == nil {
			err = json.Unmarshal(m.Data, &answer)
		}
		switch {
		case err == nil && answer.Error == nil:
			return &jetstream.RawStreamMsg{Subject: subject, Sequence: answer.Message.Seq, Data: answer.Message.Data, Time: answer.Message.Time}, nil
		case err == nil && answer.Error.ErrorCode == noMessage:
			return nil, nil
		case err == nil && answer.Error.Code != 503:
			return nil, explain(answer.Error)
		}
		select {
		case <-time.After(writeAgain):
		case <-ctx.Done():
			return nil, unreachable(context.Cause(ctx))
		}
	}
}

// caught calls look until it has found what was acknowledged: a replica may lag behind. It gives up after a while.
func caught(ctx context.Context, look func() (found bool, err error)) error {
	for deadline := time.Now().Add(lagTime); ; {
		if found, err := look(); err != nil || found || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(lagPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

const (
	lagTime  = 2 * time.Second
	lagPause = 20 * time.Millisecond
)

// explain words what the server refuses for somebody who has to do something about it.
func explain(err *jetstream.APIError) error {
	switch err.ErrorCode {
	case 10047, 10077, 10122: // insufficient resources, maximum bytes, maximum messages
		return tasks.Trouble{Err: fmt.Errorf("the state is full: wait for tasks to expire, prune some (runnel tasks prune), or raise the limit of the stream: %w", err)}
	}
	return tasks.Trouble{Err: fmt.Errorf("the state refuses it: %w", err)}
}

// lastOf returns the last message of each subject, all of one moment.
func (sp *space) lastOf(ctx context.Context, subjects ...string) ([]*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	answer, err := jetstreamext.GetLastMsgsFor(ctx, sp.s.js, sp.name, subjects)
	return collect(ctx, answer, err)
}

// from returns up to n messages of a subject from a sequence number on, of about limit bytes.
func (sp *space) from(ctx context.Context, sequence uint64, subject string, n, limit int) ([]*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	answer, err := jetstreamext.GetBatch(ctx, sp.s.js, sp.name, n, jetstreamext.GetBatchSeq(max(sequence, 1)), jetstreamext.GetBatchSubject(subject), jetstreamext.GetBatchMaxBytes(limit))
	return collect(ctx, answer, err)
}

func collect(ctx context.Context, answer func(func(*jetstream.RawStreamMsg, error) bool), err error) (list []*jetstream.RawStreamMsg, _ error) {
	if err != nil {
		return nil, unreachable(err)
	}
	for m, err := range answer {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			return nil, nil
		}
		if err != nil {
			return nil, unreachable(err)
		}
		list = append(list, m)
	}
	if ctx.Err() != nil { // the answer ends without an error then
		return nil, unreachable(context.Cause(ctx))
	}
	return list, nil
}

func unreachable(err error) error {
	return tasks.Trouble{Err: fmt.Errorf("%w: no server has answered: %w", tasks.ErrBusy, err)}
}

// wake tells whoever watches a task that something was stored.
func (sp *space) wake(id string) { _ = sp.s.nc.Publish(sp.wakes+id, nil) } // who does not hear it looks by itself
