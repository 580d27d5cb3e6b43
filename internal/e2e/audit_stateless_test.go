package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	metaPrefix     = "io.modelcontextprotocol/"
	tasksExtension = metaPrefix + "tasks"
	ourPartials    = "runnel/task-partials"
)

// statelessRequest is what a request of the stateless era declares, nil for one of a session.
type statelessRequest struct {
	tasks    bool // the tasks extension
	partials bool // runnel/task-partials
	asks     bool // elicitation
	samples  bool // sampling
	results  bool // partialResults (SEP-2998)
	token    string

	filter subscriptionFilter // subscriptions/listen
}

type subscriptionFilter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Resources []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"`
}

// auditSubscription is what the audit knows of one subscriptions/listen request.
type auditSubscription struct {
	request *request
	agreed  *subscriptionFilter // nil before the acknowledgement
	seq     map[string]int64    // the next partial's, by task
	ended   map[string]bool     // tasks whose terminal state was told
	closed  bool
}

// statelessAudit is what the audit knows of the stateless era.
type statelessAudit struct {
	subscriptions map[string]*auditSubscription // by the bytes of the request's id
	handles       map[string]bool               // tasks that a CreateTaskResult told of
	awaited       map[string]bool               // tasks whose result a session has called for
	ended         map[string]bool               // tasks that were shown to have ended
	questions     map[string]string             // by task and key
	results       map[string]*auditResults      // by partialResultToken
}

// auditResults are the partial results of one call (SEP-2998).
type auditResults struct {
	seq   int64
	ended bool
}

func newStatelessAudit() statelessAudit {
	return statelessAudit{map[string]*auditSubscription{}, map[string]bool{}, map[string]bool{},
		map[string]bool{}, map[string]string{}, map[string]*auditResults{}}
}

// sentStateless notes a request that carries fields of the stateless era in its _meta.
func (a *audit) sentStateless(r *request, id, params json.RawMessage) {
	var p struct {
		Meta          map[string]json.RawMessage `json:"_meta"`
		Notifications subscriptionFilter         `json:"notifications"`
	}
	_ = json.Unmarshal(params, &p)
	if p.Meta[metaPrefix+"protocolVersion"] == nil && p.Meta[metaPrefix+"clientCapabilities"] == nil {
		return
	}
	var c struct {
		Elicitation    json.RawMessage            `json:"elicitation"`
		Sampling       json.RawMessage            `json:"sampling"`
		PartialResults json.RawMessage            `json:"partialResults"`
		Extensions     map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(p.Meta[metaPrefix+"clientCapabilities"], &c)
	r.stateless = &statelessRequest{
		tasks: c.Extensions[tasksExtension] != nil, partials: c.Extensions[ourPartials] != nil,
		asks: c.Elicitation != nil, samples: c.Sampling != nil, results: c.PartialResults != nil,
		token: string(p.Meta["partialResultToken"]), filter: p.Notifications,
	}
	if r.stateless.token != "" {
		a.stateless.results[r.stateless.token] = &auditResults{}
	}
	before := a.stateless.subscriptions[string(id)]
	// The id is free, or it would be in flight.
	if r.method == "subscriptions/listen" && (before == nil || before.closed || before.request.cancelled) {
		a.stateless.subscriptions[string(id)] = &auditSubscription{request: r, seq: map[string]int64{},
			ended: map[string]bool{}}
	}
}

// statelessError checks an error: "Implementations MUST NOT emit any code from this sub-range that is not
// defined by this specification" (2026-07-28 basic, "Error Codes").
func (a *audit) statelessError(s *schema, e envelope, object map[string]any) error {
	var failure struct {
		Code int `json:"code"`
	}
	if err := json.Unmarshal(e.Error, &failure); err != nil {
		return err
	}
	switch c := failure.Code; {
	case c == -32021:
		return s.check("MissingRequiredClientCapabilityError", object)
	case c == -32022:
		return s.check("UnsupportedProtocolVersionError", object)
	case c <= -32000 && c >= -32099 || c == -32042:
		return fmt.Errorf("error code %d", c)
	}
	return s.check("JSONRPCErrorResponse", object)
}

// statelessResult checks a result: "The result MUST include a resultType field", and who the server is.
func (a *audit) statelessResult(r *request, e envelope, object map[string]any) error {
	s := schemaOf(a.t, newestStateless)
	if e.Error != nil {
		return a.statelessError(s, e, object)
	}
	var result struct {
		ResultType string          `json:"resultType"`
		Requests   json.RawMessage `json:"inputRequests"`
		State      string          `json:"requestState"`
		Meta       struct {
			Server       json.RawMessage `json:"io.modelcontextprotocol/serverInfo"`
			Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(e.Result, &result); err != nil {
		return err
	}
	if result.Meta.Server == nil {
		return errors.New("a result without serverInfo in its _meta")
	}
	var types []string
	switch {
	case r.method == "tools/call" && result.ResultType == "input_required":
		types = []string{"InputRequiredResult"}
		switch {
		case result.Requests == nil && result.State == "":
			return errors.New(`input_required: "at least one of inputRequests or requestState"`)
		case strings.Contains(string(result.Requests), `"method":"elicitation/create"`) && !r.stateless.asks:
			return errors.New("a question for a client that did not declare elicitation")
		case strings.Contains(string(result.Requests), `"method":"sampling/createMessage"`) && !r.stateless.samples:
			return errors.New("a question to the model of a client that did not declare sampling")
		}
	case r.method == "tools/call" && result.ResultType == "task":
		types = []string{"CreateTaskResult", closedCreated}
		if !r.stateless.tasks {
			return errors.New("a task for a client that did not declare the extension")
		}
	case result.ResultType != "complete":
		return fmt.Errorf("resultType %q of %s", result.ResultType, r.method)
	case r.method == "subscriptions/listen":
		types = []string{"SubscriptionsListenResult"}
		subscription := a.stateless.subscriptions[string(e.ID)]
		subscription.closed = true
		if subscription.agreed == nil {
			return errors.New("a subscription ends before its acknowledgement")
		}
		if !bytes.Equal(result.Meta.Subscription, e.ID) {
			return fmt.Errorf("subscriptionId %s of request %s", result.Meta.Subscription, e.ID)
		}
	default:
		types = statelessResultTypes[r.method]
	}
	if types == nil && !strings.HasPrefix(r.method, "runnel/") { // a method of our own
		return fmt.Errorf("result for %s, which 2026-07-28 does not have", r.method)
	}
	for _, typ := range types {
		if err := s.check(typ, object["result"]); err != nil {
			return err
		}
	}
	if t := a.stateless.results[r.stateless.token]; t != nil {
		t.ended = true
	}
	switch {
	case result.ResultType == "task":
		return a.created(e.Result)
	case r.method == "tasks/get":
		return a.statelessTask(e.Result)
	}
	return nil
}

var statelessResultTypes = map[string][]string{
	"server/discover":          {"DiscoverResult"},
	"tools/list":               {"ListToolsResult"},
	"tools/call":               {"CallToolResult"},
	"resources/list":           {"ListResourcesResult"},
	"resources/templates/list": {"ListResourceTemplatesResult"},
	"resources/read":           {"ReadResourceResult"},
	"tasks/get":                {"GetTaskResult", closedTask},
	"tasks/update":             {"UpdateTaskResult", "EmptyResult"},
	"tasks/cancel":             {"CancelTaskResult", "EmptyResult"},
}

func (a *audit) created(result json.RawMessage) error {
	var t shownTask
	if err := json.Unmarshal(result, &t); err != nil {
		return err
	}
	if a.stateless.handles[t.TaskID] || a.tasks[t.TaskID] != nil {
		return fmt.Errorf("second handle of task %s", t.TaskID)
	}
	a.stateless.handles[t.TaskID] = true
	return t.check()
}

// statelessTask notes the state of a task that was shown.
func (a *audit) statelessTask(state json.RawMessage) error {
	var t struct {
		shownTask
		Requests map[string]json.RawMessage `json:"inputRequests"`
	}
	if err := json.Unmarshal(state, &t); err != nil {
		return err
	}
	if a.stateless.ended[t.TaskID] && !t.terminal() {
		return fmt.Errorf("status %q of a task that has ended", t.Status)
	}
	a.stateless.ended[t.TaskID] = t.terminal()
	// "MUST NOT use the same key to refer to two distinct requests over a task's lifetime"
	for key, question := range t.Requests {
		name := t.TaskID + " " + key
		if before, known := a.stateless.questions[name]; known && before != string(question) {
			return fmt.Errorf("key %q of two questions", key)
		}
		a.stateless.questions[name] = string(question)
	}
	if t.Status == "input_required" && len(t.Requests) == 0 {
		return errors.New("input_required without a question")
	}
	return t.check()
}

// statelessNotification checks a notification of the stateless era. ok is false if it is none.
func (a *audit) statelessNotification(e envelope, object map[string]any) (ok bool, err error) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(e.Params, &p)
	s := schemaOf(a.t, newestStateless)
	subscribed := p.Meta[metaPrefix+"subscriptionId"]
	switch method := e.method(); {
	case subscribed != nil, method == "notifications/tasks",
		method == "notifications/subscriptions/acknowledged":
		typ := s.notifications[method]
		if typ == "" {
			return true, fmt.Errorf("2026-07-28 has no notification %s from a server", method)
		}
		if err := s.check(typ, object); err != nil {
			return true, err
		}
		if method == "notifications/tasks" {
			if err := s.check("TaskStatusNotification", object); err != nil {
				return true, err
			}
		}
		return true, a.onSubscription(e, a.stateless.subscriptions[string(subscribed)])
	case method == "notifications/tools/partial_result":
		if err := s.check(partialToolResult, object); err != nil {
			return true, err
		}
		return true, a.partialResult(e)
	default:
		return false, nil
	}
}

// onSubscription checks a notification that belongs to a subscription.
func (a *audit) onSubscription(e envelope, s *auditSubscription) error {
	switch {
	case s == nil:
		return errors.New("a notification of no subscription")
	case s.closed:
		return errors.New("a notification after the subscription's end")
	case s.request.session != string(e.Session):
		return fmt.Errorf("sessionId %q of a subscription with %q", e.Session, s.request.session)
	}
	method := e.method()
	if method == "notifications/subscriptions/acknowledged" {
		if s.agreed != nil {
			return errors.New("second acknowledgement")
		}
		var p struct {
			Notifications subscriptionFilter `json:"notifications"`
		}
		if err := json.Unmarshal(e.Params, &p); err != nil {
			return err
		}
		s.agreed = &p.Notifications
		asked := s.request.stateless.filter
		if p.Notifications.Tools && !asked.Tools {
			return errors.New("acknowledges toolsListChanged, which was not asked for")
		}
		for _, uri := range p.Notifications.Resources {
			if !slices.Contains(asked.Resources, uri) {
				return fmt.Errorf("acknowledges %s, which was not asked for", uri)
			}
		}
		for _, id := range p.Notifications.TaskIDs {
			if !slices.Contains(asked.TaskIDs, id) {
				return fmt.Errorf("acknowledges task %s, which was not asked for", id)
			}
		}
		return nil
	}
	if s.agreed == nil {
		return fmt.Errorf("%s before the acknowledgement", method)
	}
	var t struct {
		shownTask
		Seq int64  `json:"seq"`
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(e.Params, &t); err != nil {
		return err
	}
	switch {
	case method == "notifications/tools/list_changed":
		if !s.agreed.Tools {
			return errors.New("list_changed for a subscription without toolsListChanged")
		}
		return nil
	case method == "notifications/resources/updated":
		if !slices.Contains(s.agreed.Resources, t.URI) {
			return fmt.Errorf("an update of %s, which the subscription does not name", t.URI)
		}
		return nil
	case !slices.Contains(s.agreed.TaskIDs, t.TaskID):
		return fmt.Errorf("%s of task %s, which the subscription does not name", method, t.TaskID)
	case s.ended[t.TaskID]:
		return fmt.Errorf("%s of a task whose end was told", method)
	case method == partialMethod:
		if !s.request.stateless.partials || !s.request.stateless.tasks {
			return errors.New("a partial for a client that did not declare runnel/task-partials")
		}
		if t.Seq != s.seq[t.TaskID] {
			return fmt.Errorf("seq %d where %d is next", t.Seq, s.seq[t.TaskID])
		}
		s.seq[t.TaskID]++
		return nil
	case method == "notifications/tasks":
		s.ended[t.TaskID] = t.terminal()
		return a.statelessTask(e.Params)
	}
	// "notifications/progress and notifications/message MUST NOT".
	return fmt.Errorf("%s on a subscription", method)
}

// partialResult checks a partial of a plain call (SEP-2998).
func (a *audit) partialResult(e envelope) error {
	var p struct {
		Token json.RawMessage `json:"partialResultToken"`
		Seq   int64           `json:"seq"`
		Final bool            `json:"final"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return err
	}
	t := a.stateless.results[string(p.Token)]
	switch {
	case t == nil:
		return fmt.Errorf("a partial result for token %s, which no request gave", p.Token)
	case t.ended:
		return errors.New("a partial result after the last one, or after the response")
	case p.Seq != t.seq:
		return fmt.Errorf("seq %d where %d is next (SEP-2998)", p.Seq, t.seq)
	}
	t.seq++
	t.ended = p.Final
	return nil
}

// eraOfQuestion checks a request of the server: only a session may be asked, never a client of the stateless
// era
// ("The server MUST NOT write JSON-RPC requests to stdout"). A session is asked for a task of that era if it
// calls tasks/result.
func (a *audit) eraOfQuestion(e envelope) error {
	for id := range a.stateless.handles {
		if strings.Contains(string(e.Params), id) && !a.stateless.awaited[id] {
			return fmt.Errorf("a request for task %s of the stateless era", id)
		}
	}
	if !a.opened {
		return errors.New("a request of the server without a session")
	}
	return nil
}
