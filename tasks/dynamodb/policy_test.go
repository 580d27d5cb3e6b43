package dynamodb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"runnel/internal/dynatest"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// policy is one of IAM, as far as the manual's needs it.
type policy struct {
	Statement []struct {
		Effect    string
		Action    words
		Resource  words
		Condition map[string]map[string]words
	}
}

// words are one string or several, as IAM has them.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	if text[0] != '"' {
		return json.Unmarshal(text, (*[]string)(w))
	}
	*w = make(words, 1)
	return json.Unmarshal(text, &(*w)[0])
}

// policyOf is the policy that the manual gives, for an owner.
func policyOf(t *testing.T, owner string) (p policy) {
	t.Helper()
	readme, err := os.ReadFile("../../internal/manual/states.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(readme), "## In DynamoDB\n")
	if ok {
		_, text, ok = strings.Cut(text, "```json\n")
	}
	if text, _, _ = strings.Cut(text, "```"); !ok {
		t.Fatal("the manual has no policy")
	}
	decoder := json.NewDecoder(strings.NewReader(strings.ReplaceAll(text, ":a:", ":"+owner+":")))
	decoder.DisallowUnknownFields()
	var all struct {
		Version string
		policy
	}
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all.policy
}

// allows reports whether the policy allows an action on partitions: none where a request names none.
func (p policy) allows(t *testing.T, action string, partitions []string) bool {
	t.Helper()
	for _, s := range p.Statement {
		if s.Effect != "Allow" {
			t.Fatalf("effect %s", s.Effect)
		}
		holds := slices.Contains(s.Action, "dynamodb:"+action) &&
			slices.Contains(s.Resource, "arn:aws:dynamodb:REGION:ACCOUNT:table/runnel")
		for operator, keys := range s.Condition {
			for key, values := range keys {
				switch {
				case key == "dynamodb:LeadingKeys" && operator == "ForAllValues:StringLike":
					// true where there are none.
					for _, pk := range partitions {
						holds = holds && slices.ContainsFunc(values, func(v string) bool {
							begin, like := strings.CutSuffix(v, "*")
							return like && !strings.ContainsAny(begin, "*?") && strings.HasPrefix(pk, begin)
						})
					}
				case key == "dynamodb:LeadingKeys" && operator == "Null" && values[0] == "false":
					holds = holds && len(partitions) > 0
				default:
					t.Fatalf("condition %s %s", operator, key)
				}
			}
		}
		if holds {
			return true
		}
	}
	return false
}

// asks are the actions that a request needs, as AWS documents them, each with the partitions that it names.
func asks(action string, body []byte) (map[string][]string, error) {
	type keys = map[string]any
	var r struct {
		Key, Item                 keys
		ExpressionAttributeValues keys
		RequestItems              map[string]json.RawMessage
		TransactItems             []map[string]struct{ Key, Item keys }
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	all := map[string][]string{}
	add := func(action string, places ...keys) {
		all[action] = append(all[action], []string{}...)
		for _, place := range places {
			if pk, ok := place["pk"].(map[string]any); ok {
				all[action] = append(all[action], fmt.Sprint(pk["S"]))
			}
		}
	}
	switch action {
	case "TransactWriteItems":
		of := map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem",
			"ConditionCheck": "ConditionCheckItem"}
		for _, changes := range r.TransactItems {
			for kind, c := range changes {
				add(of[kind], c.Key, c.Item)
			}
		}
	case "BatchGetItem":
		for _, text := range r.RequestItems {
			var some struct{ Keys []keys }
			if err := json.Unmarshal(text, &some); err != nil {
				return nil, err
			}
			add(action, some.Keys...)
		}
	case "BatchWriteItem":
		for _, text := range r.RequestItems {
			var some []map[string]struct{ Key, Item keys }
			if err := json.Unmarshal(text, &some); err != nil {
				return nil, err
			}
			for _, changes := range some {
				for _, c := range changes {
					add(action, c.Key, c.Item)
				}
			}
		}
	case "Query":
		add(action, keys{"pk": r.ExpressionAttributeValues[":pk"]})
	default:
		add(action, r.Key, r.Item)
	}
	return all, nil
}

// guard stands before a server and refuses what the policy does, as IAM would: the server of the tests has no
// permissions. It notes each action that it has seen.
type guard struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]bool
}

func newGuard(t *testing.T, s *dynatest.Server, p policy) *guard {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g, proxy := &guard{seen: map[string]bool{}}, httputil.NewSingleHostReverseProxy(target)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		needed, err := asks(action, body)
		if err != nil {
			t.Error(err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		for action, partitions := range needed {
			g.seen[action] = true
			if !p.allows(t, action, partitions) {
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized to perform: dynamodb:%s"}`, action)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// With the manual's policy an owner's credentials do all that runnel does, and with a client written by hand
// nothing to other owners. The policy is read here as AWS documents it: whether AWS reads it so, no server of
// the tests can show.
func TestPolicy(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	g := newGuard(t, s, policyOf(t, "a"))
	through := func(o *Options) {
		o.Endpoint, o.Limits = g.URL, tasks.Limits{MaxLive: 9, MaxStartsPerMinute: 99}
	}
	ours := newState(t, s, through)
	elsewhere := newState(t, s, through)
	theirs := newState(t, s)
	a, b := statetest.NewRunner(t, run.Options{State: ours, Owner: "a"}),
		statetest.NewRunner(t, run.Options{State: elsewhere, Owner: "a"})
	run := statetest.StartDelivered(t, a, statetest.UntilDone)
	view, release, err := b.Follow(t.Context(), run.ID())
	if err != nil || view == nil {
		t.Fatal(err)
	}
	defer release()
	if got, err := b.Cancel(t.Context(), run.ID()); err != nil || got.Status != mcp.TaskCancelled {
		t.Errorf("%+v, %v", got, err)
	}
	<-view.Ended()
	task := statetest.Working("task", "line\n")
	task.Owner = "a"
	statetest.Put(t, ours, task)
	if _, err := ours.Open("a").SetVariables(t.Context(), "task", []byte(`{"v":1}`)); err != nil {
		t.Error(err)
	}
	again := statetest.Working("task")
	again.Owner = "a"
	if _, err := elsewhere.Open("a").(tasks.Shared).Take(t.Context(), again, []byte(`{}`)); err != nil {
		t.Error(err)
	}
	orphan := spaceOf(t, elsewhere, "a")
	r, err := orphan.Read(t.Context(), "task")
	if err != nil {
		t.Fatal(err)
	}
	r.Stored.Keeper = "another process" // its end needs a look at that one's lease
	if err := orphan.End(t.Context(), r, []byte("{}")); err == nil ||
		!strings.Contains(err.Error(), tasks.ErrFenced.Error()) {
		t.Errorf("an orphan's end: %v", err)
	}
	if err := spaceOf(t, ours, "a").of.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := ours.Open("a").List(t.Context(), tasks.OldestFirst, "", 10); err != nil {
		t.Error(err)
	}
	if _, _, err := ours.Space("a").Forget(t.Context(), task.CreatedAt.AddDate(1, 0, 0), true); err != nil {
		t.Error(err)
	}
	if _, err := ours.Space("a").Check(t.Context()); err != nil {
		t.Error(err)
	}
	err = ours.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("task")) // of owner local
	if err == nil || !strings.Contains(err.Error(), "what their policy must allow") {
		t.Errorf("another owner: %v", err)
	}
	g.mu.Lock()
	for _, statement := range policyOf(t, "a").Statement {
		for _, action := range statement.Action {
			if !g.seen[strings.TrimPrefix(action, "dynamodb:")] {
				t.Errorf("%s is allowed, and was not needed here", action)
			}
		}
	}
	g.mu.Unlock()

	victim := statetest.Working("victim", "secret\n")
	victim.Owner = "b"
	statetest.Put(t, theirs, victim)
	stop := spaceOf(t, theirs, "b").of.Stop
	statetest.Eventually(t, func() bool { return len(keys(t, s, "victim output")) == 1 })
	stop() // so that nothing changes by itself
	const key = `"Key":{"pk":{"S":"runnel:b:task:victim"},"sk":{"S":"record"}}`
	const item = `"Item":{"pk":{"S":"runnel:b:schema"},"sk":{"S":"schema"},"version":{"N":"2"}}`
	const own = `"Item":{"pk":{"S":"runnel:a:x"},"sk":{"S":"x"}}`
	before := keys(t, s, "runnel:b:")
	for _, c := range []struct{ action, body string }{
		{"GetItem", key}, {"DeleteItem", key}, {"PutItem", item},
		{"UpdateItem", key + `,"UpdateExpression":"REMOVE keeper"`},
		{"Query", `"KeyConditionExpression":"pk = :pk","ExpressionAttributeValues":{":pk":{"S":"runnel:b:tasks"}}`},
		{"Query", `"KeyConditionExpression":"pk = :other","ExpressionAttributeValues":{":other":{"S":"runnel:b:tasks"}}`},
		{"BatchGetItem", `"RequestItems":{"runnel":{"Keys":[{"pk":{"S":"runnel:a:x"},"sk":{"S":"x"}},{"pk":{"S":"runnel:b:task:victim"},"sk":{"S":"record"}}]}}`},
		{"BatchWriteItem", `"RequestItems":{"runnel":[{"PutRequest":{` + own + `}},{"DeleteRequest":{` +
			key + `}}]}`},
		{"TransactWriteItems", `"TransactItems":[{"Put":{"TableName":"runnel",` + own +
			`}},{"Delete":{"TableName":"runnel",` + key + `}}]`},
		{"TransactWriteItems", `"TransactItems":[{"ConditionCheck":{"TableName":"runnel",` + key +
			`,"ConditionExpression":"attribute_exists(pk)"}}]`},
		{"PutItem", `"Item":{"pk":{"S":"runnel:b:asked:` + theirs.Keeper + `"},"sk":{"S":"victim"}}`},
		{"PutItem", `"Item":{"pk":{"S":"runnel:ab:schema"},"sk":{"S":"schema"}}`},
		{"PutItem", `"Item":{"pk":{"S":"runnel:a"},"sk":{"S":"x"}}`},
		{"Scan", ""}, {"ExecuteStatement", `"Statement":"SELECT * FROM runnel"`}, {"DeleteTable", ""},
		{"UpdateTable", ""}, {"UpdateTimeToLive", ""}, {"DescribeTable", ""},
	} {
		body := `{"TableName":"runnel"`
		if c.body != "" {
			body += "," + c.body
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL,
			strings.NewReader(body+"}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Amz-Target", "DynamoDB_20120810."+c.action)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if !strings.Contains(string(said), "AccessDenied") {
			t.Errorf("%s %s: %s", c.action, c.body, said)
		}
	}
	if after := keys(t, s, "runnel:b:"); !slices.Equal(before, after) {
		t.Errorf("%q became %q", before, after)
	}
	if got, err := theirs.Open("b").Get(t.Context(), "victim"); err != nil || got.Status != mcp.TaskWorking {
		t.Errorf("%+v, %v", got, err)
	}
}
