//go:build unix

package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"runnel/internal/dynatest"
	"runnel/internal/enginetest"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

// A record that is not runnel's fails its own task alone.
func TestPoisoned(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state, other := newState(t, s), newState(t, s)
	statetest.Put(t, state, statetest.Working("good"), statetest.Working("bad", "line\n"))
	statetest.Eventually(t, func() bool { return statetest.Get(t, other, "bad").Log.Size() == 5 })
	stop(t, state) // it would write its own again
	whole := itemAt(t, s, "task:bad", "record")
	poisons := []item{
		{"record": number(1)}, {"record": nil}, {"record": data([]byte("\xff"))},
		{"record": &types.AttributeValueMemberBOOL{Value: true}},
		{"end": text("garbage")}, {"end": number(-1)}, {"end": nil}, {"variables": text("garbage")},
		{"variables": text("[]")}, {"variables": number(1)}, {"keeper": nil}, {"keeper": number(1)},
	}
	for _, record := range []string{
		"{", "[]", strings.Repeat(" ", 300_000),
		fmt.Sprintf(`{"status":"unheard","created":%d,"ttl":1000000000000}`, time.Now().UnixNano()),
		fmt.Sprintf(`{"status":"completed","created":%d,"ttl":1000000000000}`, time.Now().UnixNano()),
		fmt.Sprintf(`{"status":"completed","created":%d,"ttl":1000000000000,"outcome":1000000000,"attempt":"x"}`, time.Now().UnixNano()),
	} {
		poisons = append(poisons, item{"record": text(record)})
	}
	for _, poison := range poisons {
		set(t, s, "task:bad", "record", poison)
		if got, err := other.Open("local").Get(t.Context(), "bad"); err != nil || got.Status != mcp.TaskFailed ||
			!strings.Contains(got.StatusMessage, "damaged") {
			t.Errorf("%s: %s %s, %v", spell(poison), got.Status, got.StatusMessage, err)
		}
		if got := statetest.IDs(t, other, 10); !slices.Equal(got, []string{"good", "bad"}) {
			t.Errorf("%s: listed %v", spell(poison), got)
		}
		set(t, s, "task:bad", "record", whole)
		for name := range poison { // what was not there before
			if whole[name] == nil {
				set(t, s, "task:bad", "record", item{name: nil})
			}
		}
	}
	// These stand among the tasks, in their order.
	for _, place := range []string{"garbage", "zzzzzzzzzzzzzzzz", "ffffffffffffffff"} {
		set(t, s, "tasks", place, item{"id": text("no/id"), "expires": number(1 << 40)})
	}
	set(t, s, "live", "live:no/id", item{"keeper": number(1)})
	set(t, s, "alive", "x", item{"beat": text("garbage")})
	if got := statetest.IDs(t, other, 10); !slices.Equal(got, []string{"good", "bad"}) {
		t.Errorf("listed: %v", got)
	}
	if err := spaceOf(t, other, "local").of.Sweep(t.Context()); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if got := statetest.Get(t, other, "good"); got.Status != mcp.TaskWorking {
		t.Errorf("%+v", got)
	}
}

// spell says what is written.
func spell(i item) (said string) {
	for name, value := range i {
		said += fmt.Sprintf("%s = %.60s ", name, fmt.Sprintf("%+v", value))
	}
	return said
}

// A damaged task of a process that is gone is ended once.
func TestPoisonedOrphan(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	var clock statetest.Clock
	state, dead := newState(t, s, at(&clock)), newState(t, s)
	statetest.Put(t, dead, statetest.Working("a"))
	stop(t, dead)
	statetest.Get(t, state, "a")
	stop(t, state)
	set(t, s, "task:a", "record", item{"record": text("garbage")})
	sweep(t, state, &clock, 25*time.Second)
	if left := keys(t, s, "local:live"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if got := statetest.Get(t, state, "a"); got.Status != mcp.TaskFailed ||
		!strings.Contains(got.StatusMessage, "damaged") {
		t.Errorf("%s %s", got.Status, got.StatusMessage)
	}
}

// A damaged piece of output is passed over, and what stands after it is read.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state := newState(t, s)
	task := statetest.Working("a")
	statetest.Put(t, state, task)
	size := int64(0)
	for _, line := range []string{"before\n", "damaged\n", "after\n"} {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
		size += int64(len(line))
		statetest.Eventually(t, func() bool { return statetest.Get(t, state, "a").Log.Size() == size })
	}
	whole := itemAt(t, s, "task:a", outputPlace(15, 0))
	for _, damage := range []item{{"data": data([]byte("longer than it was"))}, {"data": nil},
		{"marks": data([]byte{1})}, {"length": number(1 << 40)}, {"length": text("garbage")}} {
		set(t, s, "task:a", outputPlace(15, 0), damage)
		if got := statetest.ReadAll(t, statetest.Get(t, state, "a").Log); got != "before\nafter\n" {
			t.Errorf("%s: %q", spell(damage), got)
		}
		set(t, s, "task:a", outputPlace(15, 0), whole)
	}
	if got := statetest.ReadAll(t, statetest.Get(t, state, "a").Log); got != "before\ndamaged\nafter\n" {
		t.Errorf("whole again: %q", got)
	}
}

func TestHandleInTime(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	var clock statetest.Clock
	here, there := newState(t, s), newState(t, s, at(&clock))
	enginetest.HandleInTime(t, here.State, there.State, func(sp *engine.Space) {
		for range 6 {
			if err := sp.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			clock.Add(engine.RenewInterval)
		}
	})
}

func TestUnanswered(t *testing.T) {
	t.Parallel()
	enginetest.Unanswered(t, newState(t, dynatest.Start(t)).State)
}

// A server that has stopped is waited for, then the error says that it does not answer. It goes on where it
// was.
func TestStopped(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state := newState(t, s)
	statetest.Unresponsive(t, state, func() { s.Pause(t) }, func() { s.Resume(t) },
		func(ctx context.Context) error { return spaceOf(t, state, "local").of.Sweep(ctx) })
}

// Variables that no item has room for are refused, and those that were there stay.
func TestLongVariables(t *testing.T) {
	t.Parallel()
	state := newState(t, dynatest.Start(t))
	statetest.Put(t, state, statetest.Working("a"))
	patch := func(n int) []byte {
		text := `{"first":1`
		for i := range n {
			text += fmt.Sprintf(`,"v%d":"%s"`, i, strings.Repeat("x", 60_000))
		}
		return []byte(text + "}")
	}
	if _, err := state.Open("local").SetVariables(t.Context(), "a", patch(5)); err != nil {
		t.Errorf("what fits: %v", err)
	}
	var refused *rpc.Error
	if _, err := state.Open("local").SetVariables(t.Context(), "a", patch(6)); !errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "the limit of a state in DynamoDB is 307200") {
		t.Errorf("what does not: %v", err)
	}
	if got := statetest.Get(t, state, "a").Variables; len(got) < 300_000 || len(got) > pieceBytes {
		t.Errorf("%d bytes", len(got))
	}
}

// A request that AWS throttles, or that meets another one, is tried again; a refusal is reported at once.
func TestThrottled(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var refusals []string // one is taken by each write
	g := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "TransactWriteItems") && len(refusals) > 0 {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(refusals[0]))
			refusals = refusals[1:]
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer g.Close()
	state := newState(t, s, func(o *Options) { o.Endpoint = g.URL })
	if err := state.Space("local").Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop(t, state)
	refusals = []string{
		`{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}`,
		`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}`,
		`{"__type":"com.amazonaws.dynamodb.v20120810#TransactionInProgressException","Message":"wait"}`,
		`{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"cancelled","CancellationReasons":[{"Code":"None"},{"Code":"TransactionConflict"},{"Code":"None"}]}`,
		`{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"cancelled","CancellationReasons":[{"Code":"ThrottlingError"},{"Code":"None"},{"Code":"None"}]}`,
	}
	statetest.Put(t, state, statetest.Working("a"))
	if len(refusals) > 0 {
		t.Errorf("%d were not met", len(refusals))
	}
	for refusal, says := range map[string]string{
		`{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"expired"}`:                    "asks for other AWS credentials",
		`{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"the token is invalid"}`: "asks for other AWS credentials",
		`{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no"}`:                         "what their policy must allow",
		`{"__type":"com.amazon.coral.validate#ValidationException","message":"too large"}`:                   "refuses it: ValidationException: too large",
	} {
		refusals = []string{refusal}
		err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("b"))
		// ErrBusy comes after a wait.
		if !errors.As(err, new(tasks.Trouble)) || errors.Is(err, tasks.ErrBusy) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", refusal, err)
		}
	}
}
