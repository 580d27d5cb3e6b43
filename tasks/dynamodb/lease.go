package dynamodb

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"runnel/tasks/engine"
)

// DynamoDB has no clock to ask, and the clocks of machines differ. So a lease is a number that its process
// counts up. Others take the process for gone if they have not seen the number change for a while, by their
// own clocks.

// silence is how long that is. It leaves a process that comes back the time to find out whether it was taken
// for gone (engine.Space.Renew).
const silence = engine.LeaseTTL - engine.RenewInterval

// leaseExpiry is the age at which DynamoDB may delete the lease of a process that has not given it back.
const leaseExpiry = 24 * time.Hour

// Lease implements engine.Driver.
func (sp *space) Lease(ctx context.Context) error {
	if err := sp.check(ctx); err != nil {
		return err
	}
	sp.mu.Lock()
	sp.beat++
	beat := sp.beat
	sp.mu.Unlock()
	now := sp.of.Now()
	return sp.write(ctx, sp.put(with(sp.key("alive", sp.of.Keeper), item{
		"beat": number(beat), "renewed": number(now.Unix()), "expires": number(now.Add(leaseExpiry).Unix()),
	})))
}

// Leave implements engine.Driver.
func (sp *space) Leave(ctx context.Context) {
	// If this fails, others notice that the lease no longer changes.
	_ = sp.write(ctx, sp.remove(sp.key("alive", sp.of.Keeper)))
}

// longPause is the longest pause between two looks after which this process still knows how long a lease has
// not changed.
const longPause = engine.LeaseTTL

// Alive implements engine.Driver. A process that is seen for the first time counts as alive.
func (sp *space) Alive(ctx context.Context) (alive []string, err error) {
	leases, err := sp.query(ctx, span{partition: "alive"})
	if err != nil {
		return nil, err
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	before := sp.seen
	now := sp.of.Now()
	seen := map[string]pulse{}
	// This process slept or could not reach the table, and perhaps no other process could.
	if now.Sub(sp.looked) > longPause {
		before = nil
	}
	for _, l := range leases {
		keeper := textOf(l, "sk")
		beat, _ := numberOf(l, "beat")
		p, known := before[keeper]
		if !known || p.beat != beat {
			p = pulse{beat, now}
		}
		seen[keeper] = p
		if now.Sub(p.since) < silence {
			alive = append(alive, keeper)
		}
	}
	sp.seen, sp.looked = seen, now
	return alive, nil
}

// unrenewed is the condition that the lease of a process has not changed since this one saw it.
func (sp *space) unrenewed(keeper string) types.TransactWriteItem {
	sp.mu.Lock()
	p := sp.seen[keeper]
	sp.mu.Unlock()
	condition := "attribute_not_exists(#pk) OR #beat = :beat"
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &sp.server.o.Table, Key: sp.key("alive", keeper), ConditionExpression: &condition,
		ExpressionAttributeNames: names(&condition), ExpressionAttributeValues: item{":beat": number(p.beat)},
	}}
}

// mark is the place of the mark of a task that has not ended. Without a handle the task is hidden.
func mark(id string, hidden bool) string {
	if hidden {
		return "hidden:" + id
	}
	return "live:" + id
}

// Sweeps implements engine.Driver. An owner has few processes here: workers need NATS.
func (sp *space) Sweeps(context.Context, bool) (bool, error) { return true, nil }

// Marks implements engine.Driver.
func (sp *space) Marks(ctx context.Context, _ string) (marks []engine.Mark, err error) {
	list, err := sp.query(ctx, span{partition: "live"})
	for _, i := range list {
		kind, id, _ := strings.Cut(textOf(i, "sk"), ":")
		if engine.IsToken(id) { // otherwise it is not a task that could be ended
			marks = append(marks, engine.Mark{ID: id, Keeper: textOf(i, "keeper"), Hidden: kind == "hidden"})
		}
	}
	return marks, err
}

// Unmark implements engine.Driver.
func (sp *space) Unmark(ctx context.Context, m engine.Mark) error {
	condition, change := "#keeper = :keeper", sp.remove(sp.key("live", mark(m.ID, m.Hidden)))
	change.Delete.ConditionExpression, change.Delete.ExpressionAttributeNames = &condition, names(&condition)
	change.Delete.ExpressionAttributeValues = item{":keeper": text(m.Keeper)}
	if err := sp.write(ctx, change); !isCondition(err) {
		return err
	}
	return nil
}

// Tidy implements engine.Driver. DynamoDB deletes expired items by itself, if the table's time to live
// is on.
func (sp *space) Tidy(context.Context) error { return nil }

// expiresItems reports whether the table's time to live is on. It fails if the credentials do not allow the
// question.
func (sp *space) expiresItems(ctx context.Context) (bool, error) {
	answer, err := sp.server.client.DescribeTimeToLive(ctx,
		&dynamodb.DescribeTimeToLiveInput{TableName: &sp.server.o.Table})
	if err != nil || answer.TimeToLiveDescription == nil {
		return false, err
	}
	t := answer.TimeToLiveDescription
	on := t.TimeToLiveStatus == types.TimeToLiveStatusEnabled ||
		t.TimeToLiveStatus == types.TimeToLiveStatusEnabling
	return on && aws.ToString(t.AttributeName) == "expires", nil
}
