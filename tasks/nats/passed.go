package nats

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Reach implements engine.Queue.
//
// After a server was killed, a consumer of nats-server 2.12 may have passed a message that is still in the
// stream: it was acknowledged and is not removed, or no worker has ever got it. With such a message, no sweep
// finds that its task must be shown again. A consumer that is made again delivers all that is there, and the
// record decides what it is worth.
func (sp *space) Reach(ctx context.Context) error {
	queue, err := sp.openQueue(ctx)
	if err != nil {
		return unreachable(err)
	}
	subjects, err := sp.subjects(ctx, sp.queueName, sp.work+">")
	if err != nil {
		return sp.lostQueue(err)
	}
	passed := map[string]uint64{}
	looked := map[string]bool{}
	for _, subject := range subjects {
		line, _, _, ok := sp.queued(subject)
		if !ok || looked[line] {
			continue
		}
		looked[line] = true
		consumer, err := queue.Consumer(ctx, line)
		if errors.Is(err, jetstream.ErrConsumerNotFound) { // the first worker makes it
			continue
		}
		if err != nil {
			return sp.lostQueue(unreachable(err))
		}
		info := consumer.CachedInfo()
		first, err := queue.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(info.Config.FilterSubject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return sp.lostQueue(unreachable(err))
		}
		if first.Sequence <= info.AckFloor.Stream || info.NumPending == 0 && info.NumAckPending == 0 {
			passed[line] = first.Sequence
		}
	}
	sp.mu.Lock()
	before := sp.passed
	sp.passed = passed
	sp.mu.Unlock()
	for line, sequence := range passed {
		if before[line] != sequence { // the message may just have been acknowledged
			continue
		}
		sp.Log.Warn().Str("owner", sp.Owner).Str("line", line).Uint64("sequence", sequence).
			Msg("a waiting task reached no worker: the consumer of its line is made again")
		if err := queue.DeleteConsumer(ctx, line); err != nil &&
			!errors.Is(err, jetstream.ErrConsumerNotFound) {
			return sp.lostQueue(unreachable(err))
		}
		sp.mu.Lock()
		delete(sp.consumers, line)
		sp.mu.Unlock()
	}
	return nil
}
