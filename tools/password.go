package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/askpass"
	"runnel/tools/fallback"
	"runnel/tools/text"
)

// A program that asks for a password gets it from the user, not from the model: a page of this machine takes
// it, and types it into the terminal, wherever the program runs. The client is asked to send its user there
// (elicitation with a URL). A form would be simpler, and is forbidden: "Servers MUST NOT use form mode
// elicitation to request sensitive information such as passwords" (2026-07-28 client/elicitation; 2025-06-18
// has forms alone, and the same rule). So the users of clients without URLs, and of those that come over HTTP
// and may be on another machine, use runnel attach.
//
// In the handshake era the client is asked as soon as the program asks. In the stateless era the question is
// in the answer to the call, in its task, or in the answer to send_to_task, whichever the client sees.
//
// If the user declines, nothing is typed, and the model hears of it: it can press C-c, or cancel the task.

// passwordPages are the pages that are open, by the ids of their tasks.
type passwordPages struct {
	mu   sync.Mutex
	open map[string]*passwordPage
}

// passwordPage is the page for one prompt. It is open until the program goes on.
type passwordPage struct {
	prompt   *tasks.PasswordPrompt
	question string // what the user is asked
	page     *askpass.Page
	typed    signal.Latch // what was typed has been sent to the program
	over     signal.Latch // the program no longer waits
	answer   atomic.Int32 // one of the following
}

// These are the answers of a user whom the client was asked to send to a page.
const (
	pageAsked = iota // nothing yet
	pageAccepted
	pageRefused // or the client could not ask
)

// find returns the page for a task's prompt, nil if there is none.
func (p *passwordPages) find(t *tasks.Task) *passwordPage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findLocked(t)
}

func (p *passwordPages) findLocked(t *tasks.Task) *passwordPage {
	if page := p.open[t.ID]; page != nil && tasks.SamePrompt(page.prompt, t.Password) {
		return page
	}
	return nil
}

// passwordPage returns the page for a task's prompt, and opens it if there is none: then its user is to be
// asked.
func (s *service) passwordPage(v *run.View, t *tasks.Task) (page *passwordPage, opened bool, err error) {
	s.passwords.mu.Lock()
	defer s.passwords.mu.Unlock()
	if page := s.passwords.findLocked(t); page != nil {
		return page, false, nil
	}
	// The words of the program are quoted, so that they cannot pass for others.
	question := fmt.Sprintf("%s asks for a password: %s\nWhat you type goes to that program. Do not type "+
		"it unless you expect this question: the program can show it to the model.",
		t.Tool, quotePrompt(t))
	page = &passwordPage{prompt: t.Password, question: question}
	if page.page, err = askpass.Open(question); err != nil {
		return nil, false, err
	}
	if !s.runner.Go(func(ctx context.Context) { s.servePage(ctx, v, page) }) {
		page.page.Close()
		return nil, false, rpc.ErrClosed
	}
	s.passwords.open[t.ID] = page // that of an earlier prompt is closed by its own goroutine
	return page, true, nil
}

// servePage types what the user types at a page, until the program no longer waits for it.
func (s *service) servePage(ctx context.Context, v *run.View, page *passwordPage) {
	defer func() {
		page.over.Set()
		s.passwords.mu.Lock()
		if s.passwords.open[v.ID()] == page {
			delete(s.passwords.open, v.ID())
		}
		s.passwords.mu.Unlock()
		page.page.Close()
	}()
	_, release, _ := s.runner.Follow(ctx, v.ID()) // which keeps the view of a task that another process runs
	defer release()
	changed, stop := v.Watch()
	defer stop()
	for tasks.SamePrompt(v.Task().Password, page.prompt) {
		select {
		case password := <-page.page.Password():
			err := v.Send(ctx, tasks.Input{
				Data: []byte(password + "\n"), Person: true, Password: page.prompt.At,
			})
			if err != nil {
				s.o.Log.Warn().Err(err).Str("taskId", v.ID()).Msg("a password is not typed")
				return
			}
			page.typed.Set()
		case <-changed:
		case <-v.Ended():
			return
		case <-ctx.Done():
			return
		}
	}
}

func quotePrompt(t *tasks.Task) string { return strconv.Quote(text.Printable(t.Password.Text)) }

// canAskPassword reports whether a client can send its user to a page of this machine.
func canAskPassword(c *rpc.Caller) bool {
	return c != nil && c.OnThisMachine() && CanDo(c, "elicitation/create", passwordByURL)
}

var passwordByURL = json.RawMessage(`{"mode":"url"}`)

// askPasswords asks the client of a call for the passwords that the call's program asks for, until the task
// has ended.
func (s *service) askPasswords(ctx context.Context, d *delivery) {
	v := &d.Run.View
	changed, stop := v.Watch()
	defer stop()
	var asked *tasks.PasswordPrompt
	for {
		c, t := d.audience.caller(), v.Task()
		// A client of the stateless era that was told of the task looks for no question of it.
		unseen := c.Version.Stateless && d.audience.left.Load()
		if t.Password != nil && !tasks.SamePrompt(t.Password, asked) && !unseen && canAskPassword(c) {
			asked = t.Password
			s.askPassword(ctx, c, v, &t, false, d.audience.pass)
			continue
		}
		select {
		case <-changed:
		case <-v.Ended():
			return
		case <-ctx.Done():
			return
		}
	}
}

// askPassword asks a client to send its user to the page for a task's prompt, by a function like
// Call.Request. It returns when the user has answered, or the program no longer waits, and at once if the
// user has been asked, unless again is set. In the handshake era the client then also hears that its user has
// typed the password.
func (s *service) askPassword(ctx context.Context, c *rpc.Caller, v *run.View, t *tasks.Task, again bool,
	request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)) {
	page, opened, err := s.passwordPage(v, t)
	if err == nil && !opened && !again {
		return
	}
	if err != nil {
		s.o.Log.Warn().Err(err).Str("taskId", t.ID).Msg("the user is not asked for a password")
		return
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with this function
		select {
		case <-page.over.Done():
			cancel()
		case <-asking.Done():
		}
	}()
	id := rand.Text()
	params := map[string]string{"mode": "url", "url": page.page.URL, "message": page.question}
	if !c.Version.Stateless {
		params["elicitationId"] = id
	}
	response, err := request(asking, "elicitation/create", rawjson.Encode(params))
	var answer mcp.ElicitResult
	switch {
	case asking.Err() != nil:
	case err != nil || json.Unmarshal(response, &answer) != nil || answer.Action != mcp.ElicitAccept:
		page.answer.Store(pageRefused)
		page.page.Close()
		return
	default:
		page.answer.Store(pageAccepted)
	}
	if c.Version.Stateless {
		return
	}
	select {
	case <-page.over.Done():
		if page.typed.IsSet() {
			_ = c.Notify("notifications/elicitation/complete", map[string]string{"elicitationId": id}) // it may have left
		}
	case <-ctx.Done():
	}
}

// askFromCall asks for the password that a task waits for from a call of send_to_task, unless its user has
// been asked in a way that the client sees. It reports whether that has taken time.
func (s *service) askFromCall(ctx context.Context, in *fallback.Call, v *run.View, t *tasks.Task) bool {
	if v == nil || t.Password == nil || !canAskPassword(in.Caller) {
		return false
	}
	page := s.passwords.find(t)
	switch stateless := in.Caller.Version.Stateless; {
	case page != nil && (!stateless || page.answer.Load() != pageAsked):
		return false
	case stateless:
		s.askPassword(ctx, in.Caller, v, t, true, in.Request)
		return true
	}
	s.runner.Go(func(ctx context.Context) {
		s.askPassword(ctx, in.Caller, v, t, false,
			func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
				return Request(ctx, in.Caller, method, params)
			})
	})
	return false
}

// passwordWords tells a model that a task asks for a password, and who types it; "" if it does not.
func (s *service) passwordWords(t *tasks.Task) string {
	if t.Password == nil || t.Status.Terminal() {
		return ""
	}
	how := "the user types it in a terminal with: runnel attach " + t.ID
	if page := s.passwords.find(t); page != nil {
		switch answer := page.answer.Load(); {
		case page.typed.IsSet():
			how = "the user has typed it"
		case answer == pageRefused:
			how = "the user has declined to type it. Give up with the key C-c, or let " + how
		default:
			how = "the user is asked for it. If no page opens, " + how
		}
	}
	return fmt.Sprintf("[it asks for a password, %s, which you do not type: %s]", quotePrompt(t), how)
}
