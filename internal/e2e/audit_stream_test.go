package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// maxMergedLine bounds the one kind of line that may be longer than others: the merged result of a
	// SEP-1905 stream.
	maxMergedLine = 8<<20 + maxOutgoing

	// statusPace is the least time between two status notifications that only show the last line of output.
	statusPace = time.Second
)

// auditStream is what the audit knows of a task's segments (SEP-1905).
type auditStream struct {
	pushed   int64             // highest seqNr that came as a response to the call
	segments map[int64]segment // every segment that came, by its seqNr
	last     int64             // highest number there is, once isComplete said so; else 0
	complete bool              // the last response to the call has come
}

// segment is an item of content, without its seqNr.
type segment map[string]json.RawMessage

func (s segment) equal(other segment) bool {
	return maps.EqualFunc(s, other, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

func (s segment) String() string {
	b, _ := json.Marshal(s)
	return clipLine(b)
}

// streamed is a result that carries segments.
type streamed struct {
	Task       json.RawMessage   `json:"task"`
	Segments   []segment         `json:"partial-content"`
	Content    []json.RawMessage `json:"content"`
	IsError    bool              `json:"isError"`
	IsComplete *bool             `json:"isComplete"`
	Meta       struct {
		Related  shownTask `json:"io.modelcontextprotocol/related-task"`
		Response any       `json:"io.modelcontextprotocol/model-immediate-response"`
	} `json:"_meta"`
}

// augmentedResult checks the answer to a call with a task: a handle, a stream's first response, or an
// immediate result.
func (a *audit) augmentedResult(s *schema, r *request, id, result json.RawMessage, object any) error {
	var got streamed
	if err := json.Unmarshal(result, &got); err != nil {
		return err
	}
	if got.Task == nil {
		return a.immediate(s, r, &got, object)
	}
	switch {
	case got.IsComplete == nil:
		if err := s.check("CreateTaskResult", object); err != nil {
			return err
		}
	case !slices.Contains(r.modes, "streaming"):
		return errors.New(`a streaming response for a request that does not list "streaming"`)
	default:
		if err := s.check(got.typ(), object); err != nil {
			return err
		}
	}
	if text, ok := got.Meta.Response.(string); !ok || text == "" {
		return errors.New("a handle without model-immediate-response")
	}
	if err := a.handle(r, result); err != nil {
		return err
	}
	var shown shownTask
	if err := json.Unmarshal(got.Task, &shown); err != nil {
		return err
	}
	task := a.tasks[shown.TaskID]
	if got.IsComplete != nil && got.Meta.Related.TaskID != shown.TaskID {
		return fmt.Errorf("related task %q of task %s", got.Meta.Related.TaskID, shown.TaskID)
	}
	if slices.Contains(r.modes, "streaming") && a.pushes {
		a.pushed[string(id)], task.pushed = task, true
	}
	if got.IsComplete != nil {
		return task.push(&got)
	}
	return nil
}

// typ is the type of a result that carries segments.
func (g *streamed) typ() string {
	if g.Segments == nil {
		return failedStream
	}
	return streamingResult
}

// immediate checks case 1 of SEP-1905.
func (a *audit) immediate(s *schema, r *request, got *streamed, object any) error {
	a.endToken(r.token)
	if !slices.Contains(r.modes, "immediate") {
		return errors.New(`an immediate result for a request that does not list "immediate"`)
	}
	if err := s.check("CallToolResult", object); err != nil {
		return err
	}
	id := got.Meta.Related.TaskID
	if a.tasks[id] != nil || id == "" {
		return fmt.Errorf("immediate result of task %q", id)
	}
	a.tasks[id] = &auditTask{session: r.session, ended: true, notified: true}
	return nil
}

// furtherResponse checks a response to a call that was answered: only SEP-1905 has those, only for clients
// that declared that they take them.
func (a *audit) furtherResponse(s *schema, task *auditTask, e envelope, object map[string]any) error {
	var got streamed
	if err := json.Unmarshal(e.Result, &got); err != nil {
		return err
	}
	if task.session != string(e.Session) {
		return fmt.Errorf("sessionId %q of a task with %q", e.Session, task.session)
	}
	if task.ended {
		return errors.New("a streaming response after the terminal status")
	}
	if err := s.check(got.typ(), object["result"]); err != nil {
		return err
	}
	return task.push(&got)
}

// push takes the segments of a response to the call itself.
func (t *auditTask) push(got *streamed) error {
	st := &t.stream
	if st.complete {
		return errors.New("a streaming response after isComplete: true")
	}
	if err := t.carries("responses", len(got.Segments)); err != nil {
		return err
	}
	for _, item := range got.Segments {
		known := len(st.segments)
		n, err := st.take(item)
		if err != nil {
			return err
		}
		if len(st.segments) == known {
			return fmt.Errorf("segment %d is pushed though it was fetched: one mechanism delivers it", n)
		}
		// A number in between may have been given to a response to tasks/result that is still under way.
		if n <= st.pushed || n > st.pushed+1 && !t.pulls {
			return fmt.Errorf("seqNr %d where %d is next", n, st.pushed+1)
		}
		st.pushed = n
	}
	if got.Segments != nil && len(got.Segments) == 0 && !*got.IsComplete {
		return errors.New("a streaming response with nothing in it")
	}
	return st.end(got, st.pushed, &st.complete)
}

// resumed takes the segments of a response to tasks/result with lastSeqNr.
func (t *auditTask) resumed(last int64, got *streamed) error {
	for i, item := range got.Segments {
		n, err := t.stream.take(item)
		if err != nil {
			return err
		}
		if want := last + int64(i) + 1; n != want {
			return fmt.Errorf("seqNr %d where %d is next", n, want)
		}
	}
	complete := false
	return t.stream.end(got, last+int64(len(got.Segments)), &complete)
}

// take notes a segment: whoever asks again gets the same under the same number.
func (st *auditStream) take(item segment) (n int64, err error) {
	if err := json.Unmarshal(item["seqNr"], &n); err != nil || n < 1 {
		return n, fmt.Errorf("seqNr %s", item["seqNr"])
	}
	delete(item, "seqNr")
	if before, ok := st.segments[n]; ok && !before.equal(item) {
		return n, fmt.Errorf("segment %d was %s and is now %s", n, before, item)
	}
	if st.last > 0 && n > st.last {
		return n, fmt.Errorf("segment %d after isComplete at %d", n, st.last)
	}
	if st.segments == nil {
		st.segments = map[int64]segment{}
	}
	st.segments[n] = item
	return n, nil
}

// end notes isComplete. isError stands on the last response only.
func (st *auditStream) end(got *streamed, highest int64, complete *bool) error {
	if *got.IsComplete {
		*complete = true
		st.last = max(st.last, highest)
	} else if got.IsError {
		return errors.New("isError without isComplete")
	}
	return nil
}

// merged checks the result of a streaming task: all segments in order, without seqNr.
func (st *auditStream) merged(result json.RawMessage) error {
	var got struct {
		Content []segment `json:"content"`
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return err
	}
	if st.last == 0 || len(st.segments) != int(st.last) ||
		bytes.Contains(result, []byte("segments left out ...]")) {
		return nil // the client has not seen all of them
	}
	for i, item := range got.Content {
		if want := st.segments[int64(i)+1]; !want.equal(item) {
			return fmt.Errorf("item %d of the merged result is %s, the segment was %s", i, item, want)
		}
	}
	if len(got.Content) != len(st.segments) {
		return fmt.Errorf("%d items of %d segments", len(got.Content), len(st.segments))
	}
	return nil
}

// resumeResult checks what tasks/result with lastSeqNr returns.
func (a *audit) resumeResult(s *schema, r *request, result json.RawMessage, object any) error {
	if err := s.check(streamingResult, object); err != nil {
		return err
	}
	var got streamed
	if err := json.Unmarshal(result, &got); err != nil {
		return err
	}
	var last int64
	if err := json.Unmarshal(r.lastSeqNr, &last); err != nil || last < 1 {
		return fmt.Errorf("a result for lastSeqNr %s", r.lastSeqNr)
	}
	task := a.tasks[r.taskID]
	if task == nil {
		return nil // the task was handed over
	}
	if task.ended && !*got.IsComplete && len(got.Segments) == 0 {
		return errors.New("isComplete: false with nothing to come")
	}
	return task.resumed(last, &got)
}

// ends checks that a stream has had its end before the task has.
func (t *auditTask) ends(shown *shownTask) error {
	stopped := shown.Status == "cancelled" || strings.Contains(shown.StatusMessage, "ttl") ||
		strings.Contains(shown.StatusMessage, "stopped")
	if t.pushed && t.carrier == "responses" && !t.stream.complete && !stopped {
		return fmt.Errorf("status %q before isComplete: true", shown.Status)
	}
	return nil
}

// carries notes which dialect carried content: exactly one does.
func (t *auditTask) carries(dialect string, items int) error {
	if items == 0 {
		return nil
	}
	if t.carrier != "" && t.carrier != dialect {
		return fmt.Errorf("content in %s of a task that had content in %s", dialect, t.carrier)
	}
	t.carrier = dialect
	return nil
}

// partialResult checks what PR #383 puts into a progress notification.
func (t *auditToken) partialResult(params json.RawMessage) error {
	var p struct {
		Partial *struct {
			Append    bool `json:"append"`
			LastChunk bool `json:"lastChunk"`
		} `json:"partialResult"`
	}
	if err := json.Unmarshal(params, &p); err != nil || p.Partial == nil {
		return err
	}
	switch {
	case !t.partials:
		return errors.New("partial result for a request that did not ask for them")
	case t.last:
		return errors.New("partial result after lastChunk: true")
	case p.Partial.Append != (t.chunks > 0):
		return fmt.Errorf("append: %t after %d chunks", p.Partial.Append, t.chunks)
	}
	t.chunks++
	t.last = p.Partial.LastChunk
	return nil
}

// answered checks the result of a plain call whose output came in progress notifications: "content: []".
func (t *auditToken) answered(result json.RawMessage) error {
	if t == nil || t.chunks == 0 {
		return nil
	}
	var got struct {
		Content    []json.RawMessage `json:"content"`
		Structured struct {
			TaskID string `json:"taskId"`
		} `json:"structuredContent"`
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return err
	}
	handedOver := bytes.Contains(result, []byte("is still running, as task"))
	switch {
	case !t.last:
		return errors.New("result before lastChunk: true")
	case len(got.Content) > 0 && !handedOver:
		return errors.New("a result that repeats what partial results said")
	}
	return nil
}

// throttled checks the time between two status notifications that only show the last line of output.
func (t *auditTask) throttled(shown *shownTask, at time.Time) error {
	if at.IsZero() || shown.Status != "working" || shown.StatusMessage == "" {
		return nil
	}
	if since := at.Sub(t.shown); !t.shown.IsZero() && since < statusPace {
		return fmt.Errorf("status notification %v after the last one", since)
	}
	t.shown = at
	return nil
}

// asks notes a request of the server. Its ids begin at 1: two clients ignore the cancellation of id 0.
func (a *audit) asks(e envelope) error {
	var id int
	if err := json.Unmarshal(e.ID, &id); err != nil || id != a.lastAsked+1 {
		return fmt.Errorf("id %s of the server's request %d", e.ID, a.lastAsked+1)
	}
	a.lastAsked = id
	var p struct {
		Meta struct {
			Related shownTask `json:"io.modelcontextprotocol/related-task"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return err
	}
	task := a.tasks[p.Meta.Related.TaskID]
	if task != nil {
		if task.ended {
			return errors.New("a question of a task that has ended")
		}
		if task.session != string(e.Session) {
			return fmt.Errorf("sessionId %q of a task with %q", e.Session, task.session)
		}
	}
	a.asked[string(e.ID)] = p.Meta.Related.TaskID
	return nil
}

// crosses notes that the client is about to answer a question whose cancellation may be on its way.
func (a *audit) crosses(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crossed[id] = true
}

// withdrawn checks a cancellation of the server's.
func (a *audit) withdrawn(e envelope) error {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return err
	}
	if a.crossed[string(p.RequestID)] {
		delete(a.crossed, string(p.RequestID))
		return nil
	}
	if _, open := a.asked[string(p.RequestID)]; !open {
		return fmt.Errorf("cancellation of %s, which is no open request of the server's", p.RequestID)
	}
	delete(a.asked, string(p.RequestID))
	return nil
}

// noQuestion checks that a task that ends leaves no question open, if the client could still answer one.
func (a *audit) noQuestion(task string) error {
	if a.inputEnded {
		return nil
	}
	for id, of := range a.asked {
		if of == task {
			return fmt.Errorf("the task ends before its question %s is withdrawn", id)
		}
	}
	return nil
}
