package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// askedUser is a client with a user who can be sent to a page: what the model reads, and what the user does.
type askedUser struct {
	*session
	stateless bool
	password  func(message string) string // what the user types when asked; "" = the user declines
	lastID    int
	got       strings.Builder // all lines
	asked     []string        // the messages of the questions
	completed int             // notifications/elicitation/complete
	typesLate func()          // types the password, which the user has agreed to do
	accepts   func(func())    // gets typesLate instead of having it called; nil = it is called
}

const elicitsByURL = `"elicitation":{"url":{}}`

func newAskedUser(t *testing.T, stateless bool, capabilities string, args ...string) *askedUser {
	u := &askedUser{session: process(t, programCommand(t, args...)), stateless: stateless,
		password: func(string) string { return "" }}
	if !stateless {
		u.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{%s},`+
			`"clientInfo":{"name":"user","version":"1"}}}`, capabilities)
		u.line()
		u.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return u
}

// call calls a tool, and returns what the model reads.
func (u *askedUser) call(capabilities, tool, arguments string) string {
	u.t.Helper()
	members := fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments)
	ask := func(more string) string {
		u.lastID++
		params := "{" + members + more + "}"
		if u.stateless {
			params = inEra(capabilities, "", members+more)
		}
		u.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, u.lastID, params)
		return fmt.Sprintf(`"id":%d,"result"`, u.lastID)
	}
	for answer := ask(""); ; {
		line, err := u.next(watchdog)
		if err != nil {
			u.t.Fatalf("no answer to %s %s: %v\n%s\nstderr: %s", tool, arguments, err, &u.got, u.stderr)
		}
		u.got.Write(append(line, '\n'))
		var m struct {
			ID     json.RawMessage
			Method string
			Params urlQuestion
			Result struct {
				Content       []struct{ Text string }
				InputRequests map[string]struct{ Params urlQuestion }
				RequestState  string
			}
		}
		if err := json.Unmarshal(line, &m); err != nil {
			u.t.Fatal(err)
		}
		switch {
		case m.Method == "elicitation/create":
			u.sendLine(`{"jsonrpc":"2.0","id":%s,"result":{"action":%q}}`, m.ID, u.answer(m.Params))
			u.typesLate()
		case m.Method == "notifications/elicitation/complete":
			u.completed++
		case len(m.Result.InputRequests) > 0:
			for key, q := range m.Result.InputRequests {
				action := u.answer(q.Params)
				if len(u.asked)%2 == 0 {
					u.typesLate() // before the client says that the user has agreed
					u.typesLate = func() {}
				}
				answer = ask(fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":%q}}`,
					m.Result.RequestState, key, action))
				u.typesLate()
			}
		case strings.Contains(string(line), answer):
			var text strings.Builder
			for _, c := range m.Result.Content {
				text.WriteString(c.Text)
			}
			return text.String()
		}
	}
}

type urlQuestion struct{ Mode, URL, Message, ElicitationID string }

// answer answers a question as the user does. typesLate then types the password.
func (u *askedUser) answer(q urlQuestion) (action string) {
	u.t.Helper()
	if q.Mode != "url" || !strings.HasPrefix(q.URL, "http://127.0.0.1:") || (q.ElicitationID == "") != u.stateless {
		u.t.Fatalf("the question is %+v", q)
	}
	u.asked = append(u.asked, q.Message)
	u.typesLate = func() {}
	password := u.password(q.Message)
	if password == "" {
		return "decline"
	}
	u.typesLate = func() {
		page, err := http.PostForm(q.URL, url.Values{"password": {password}})
		if err != nil && u.accepts != nil { // it is too late
			return
		}
		if err != nil {
			u.t.Fatal(err)
		}
		defer page.Body.Close()
		if page.StatusCode != http.StatusOK {
			u.t.Fatalf("the page answers with %s", page.Status)
		}
	}
	if u.accepts != nil {
		u.accepts(u.typesLate)
		u.typesLate = func() {}
	}
	return "accept"
}

// until looks at a task until the model has read a text, and returns all that it has read.
func (u *askedUser) until(capabilities, id, want string) string {
	u.t.Helper()
	var read strings.Builder
	for deadline := time.Now().Add(watchdog); ; {
		read.WriteString(u.call(capabilities, "send_to_task", fmt.Sprintf(`{"task_id":%q,"wait_ms":300}`, id)) + "\n")
		if strings.Contains(read.String(), want) {
			return read.String()
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("%q never comes: %s\nall lines:\n%s\nstderr: %s", want, &read, &u.got, u.stderr)
		}
	}
}

// idIn finds the id of a task in what a model has read.
func idIn(t *testing.T, read string) string {
	t.Helper()
	_, rest, _ := strings.Cut(read, "as task ")
	id, _, found := strings.Cut(rest, ".")
	if !found {
		t.Fatalf("no task in %q", read)
	}
	return id
}

// A program that asks for a password gets it from the user, on a page that the client sends the user to, in
// both eras. The model sees that the program asks and that it goes on, and nothing that it receives, nor the
// log, nor the state, has the password, although the program prints it.
func TestPassword(t *testing.T) {
	t.Parallel()
	const config = `
tools:
  ask: {command: [bash, -c, 'for n in 1 2; do read -rsp "Password $n for ada: " x; echo; printf %s "$x" | sha256sum; echo "you said <$x>"; done; read -r y; echo "bye $y"'], interactive: true}
`
	for name, c := range map[string]struct {
		stateless    bool
		capabilities string
		more         string // of the config
	}{
		"2025-11-25":            {false, elicitsByURL, ""},
		"2026-07-28":            {true, elicitsByURL, ""},
		"2026-07-28 with tasks": {true, elicitsByURL + "," + takes, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := stateDir(t)
			u := newAskedUser(t, c.stateless, c.capabilities, append(writeConfig(t, config), "--state", state)...)
			var secret []string // what has been typed
			for round := range 2 {
				typed := fmt.Sprintf("s3cret-of-ada-%d", round)
				u.password = func(string) string { return typed }
				secret = append(secret, typed)
				sum := fmt.Sprintf("%x", sha256.Sum256([]byte(typed)))
				read := u.call(c.capabilities, "ask", "{}")
				id := idIn(t, read)
				read += u.until(c.capabilities, id, "\n[nothing new in") // it waits for y
				if n := strings.Count(read, sum); n != 2 {
					t.Errorf("the program has got the password %d times: %q", n, read)
				}
				if n := strings.Count(read, "you said <***>"); n != 2 {
					t.Errorf("what it prints is masked %d times: %q", n, read)
				}
				u.call(c.capabilities, "send_to_task", fmt.Sprintf(`{"task_id":%q,"text":"Ada\n"}`, id))
				u.until(c.capabilities, id, "completed, exit code 0")
			}
			if len(u.asked) < 4 || !strings.Contains(u.asked[0], `ask asks for a password: "Password 1 for ada:"`) {
				t.Errorf("the user was asked %q", u.asked)
			}
			if !c.stateless && u.completed != 4 {
				t.Errorf("the client has heard of %d passwords", u.completed)
			}
			finished(u.session)
			for _, s := range secret {
				if strings.Contains(u.got.String(), s) || strings.Contains(u.stderr.String(), s) {
					t.Errorf("%q has been sent, or logged", s)
				}
				holdsNot(t, state, s)
			}
		})
	}
}

// holdsNot checks that no file below a directory has a text.
func holdsNot(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if files++; strings.Contains(string(content), text) {
			t.Errorf("%s has %q", path, text)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files: %v", files, err)
	}
}

// Where the user cannot be asked, or declines, the model is told how the user types the password. What the
// model types is refused; it can press keys.
func TestPasswordByHand(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `tools: {token: {command: [bash, -c, 'read -rsp "Token: " x; echo; echo ${#x}'], interactive: true}}`)
	for _, c := range []struct{ capabilities, want string }{
		{`"elicitation":{}`, "the user types it in a terminal with: runnel attach "}, // a form is forbidden
		{elicitsByURL, "the user has declined to type it. Give up with the key C-c"},
	} {
		u := newAskedUser(t, false, c.capabilities, append(config, "--state", stateDir(t))...)
		for range 2 {
			id := idIn(t, u.call("", "token", "{}"))
			u.until("", id, c.want)
			refused := u.call("", "send_to_task", fmt.Sprintf(`{"task_id":%q,"text":"guess\n"}`, id))
			if !strings.HasPrefix(refused, "nothing was typed into task "+id) ||
				!strings.Contains(refused, `[it asks for a password, "Token:", which you do not type: `) {
				t.Errorf("what the model types is answered with %q", refused)
			}
			u.call("", "send_to_task", fmt.Sprintf(`{"task_id":%q,"keys":["Enter"]}`, id))
			if got := u.until("", id, "completed, exit code 0"); !strings.Contains(got, "0\n") &&
				!strings.Contains(u.got.String(), `0\n[completed`) {
				t.Errorf("the program got something else: %q", got)
			}
		}
		finished(u.session)
	}
}

// What hides its input and asks for nothing is typed into. Prompts are seen whatever else the program does,
// also those that end their line, and those that show stars; a model that presses Enter first may type
// no more than before.
func TestPasswordPrompts(t *testing.T) {
	t.Parallel()
	const stars = `printf "Password: "; stty -icanon -echo; while read -rN1 c && [ "$c" != $'\r' ] && [ "$c" != $'\n' ]; do printf "*"; p=$p$c; done; stty sane; echo; echo "${#p}"`
	config := writeConfig(t, fmt.Sprintf(`
tools:
  line: {command: [bash, -c, 'echo Password:; read -rs p; echo "len ${#p}"'], interactive: true}
  stars: {command: [bash, -c, %q], interactive: true}
  again: {command: [bash, -c, 'printf "Password: "; while [ -z "$p" ]; do read -rs p; done; echo "len ${#p}"'], interactive: true}
  repl: {command: [bash, -c, 'stty -echo; while printf "> "; read -r l; do echo "got $l"; done'], interactive: true}
`, stars))
	u := newAskedUser(t, false, `"elicitation":{}`, append(config, "--state", "memory")...)
	for range 2 {
		for _, tool := range []string{"line", "stars", "again"} {
			id := idIn(t, u.call("", tool, "{}"))
			u.until("", id, "[it asks for a password, ")
			if tool == "again" {
				u.call("", "send_to_task", fmt.Sprintf(`{"task_id":%q,"keys":["Enter"]}`, id))
			}
			if refused := u.call("", "send_to_task", fmt.Sprintf(`{"task_id":%q,"text":"guess\n"}`, id)); !strings.HasPrefix(refused,
				"nothing was typed into task "+id) {
				t.Errorf("%s: what the model types is answered with %q", tool, refused)
			}
			u.call("", "cancel_task", fmt.Sprintf(`{"task_id":%q}`, id))
		}
		id := idIn(t, u.call("", "repl", "{}"))
		if read := u.call("", "send_to_task", fmt.Sprintf(`{"task_id":%q,"text":"one\n"}`, id)); !strings.Contains(read, "got one") {
			t.Errorf("a program without echo: %q", read)
		}
		u.call("", "cancel_task", fmt.Sprintf(`{"task_id":%q}`, id))
	}
	finished(u.session)
}

// A password that the user types at last goes to no program that has gone on and shows what is typed.
func TestPasswordTooLate(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `
tools:
  busy: {command: [bash, -c, 'trap "stty echo; while :; do echo on; sleep 0.02; done" INT; read -rsp "Password: " x; echo'], interactive: true}
`)
	for range 2 {
		u := newAskedUser(t, false, elicitsByURL, append(config, "--state", "memory")...)
		var late func()
		u.password = func(string) string { return "too-late-for-ada" }
		u.accepts = func(typeIt func()) { late = typeIt }
		id := idIn(t, u.call("", "busy", "{}"))
		u.until("", id, "[it asks for a password, ")
		u.call("", "send_to_task", fmt.Sprintf(`{"task_id":%q,"keys":["C-c"]}`, id))
		u.until("", id, "on\n")
		late()
		read := ""
		for range 5 {
			read += u.call("", "send_to_task", fmt.Sprintf(`{"task_id":%q,"wait_ms":300}`, id))
		}
		if strings.Contains(read, "too-late") || strings.Contains(read, "***") || strings.Contains(read, "it asks") {
			t.Errorf("the model reads %.400q", read)
		}
		u.call("", "cancel_task", fmt.Sprintf(`{"task_id":%q}`, id))
		finished(u.session)
	}
}

// ssh-keygen changes the passphrase of a key with what the user types, three times in a row.
func TestPasswordOfAKey(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed: .ci/run installs it")
	}
	config := writeConfig(t, `tools: {change: {command: [ssh-keygen, -p, -a, "1", -f, key], interactive: true}}`)
	key := filepath.Join(filepath.Dir(config[1]), "key")
	password := "the first of all"
	if out, err := exec.Command("ssh-keygen", "-q", "-a", "1", "-t", "ed25519", "-N", password, "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	u := newAskedUser(t, false, elicitsByURL, append(config, "--state", "memory")...)
	for round := range 2 {
		before, after := password, fmt.Sprintf("the next of all, %d", round)
		u.password = func(message string) string {
			if strings.Contains(message, "old passphrase") {
				return before
			}
			return after
		}
		password = after
		read := u.call("", "change", "{}")
		if strings.Contains(read, "as task ") { // the user has not been fast enough for one call
			read += u.until("", idIn(t, read), "completed, exit code 0")
		}
		if !strings.Contains(read+u.got.String(), "Your identification has been saved") {
			t.Errorf("the model reads %q", read)
		}
		if out, err := exec.Command("ssh-keygen", "-y", "-P", password, "-f", key).CombinedOutput(); err != nil {
			t.Errorf("the key has another passphrase: %s", out)
		}
	}
	finished(u.session)
}

// finished ends a session, whose client reads to the end.
func finished(s *session) {
	s.t.Helper()
	if _, code, err := s.finish(); code != 0 || err != nil {
		s.t.Errorf("exit code %d, %v\n%s", code, err, s.stderr)
	}
}
