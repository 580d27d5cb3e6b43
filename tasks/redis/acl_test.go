package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// client is one written by hand: it says to the server whatever it likes.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, s *server) *client {
	t.Helper()
	conn, err := net.Dial("tcp", s.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, bufio.NewReader(conn)}
}

// say sends a command and returns the first line of the answer.
func (c *client) say(t *testing.T, words ...string) string {
	t.Helper()
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := c.conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// aclOf is the ACL that the manual gives, for an owner: some commands.
func aclOf(t *testing.T, owner, password string) (commands [][]string) {
	t.Helper()
	readme, err := os.ReadFile("../../internal/manual/states.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(readme)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ACL SETUSER a ") {
			commands = append(commands, strings.Fields(strings.NewReplacer("SETUSER a ", "SETUSER "+owner+" ", "PASSWORD", password, ":a:", ":"+owner+":").Replace(line)))
		}
	}
	if commands == nil {
		t.Fatal("the manual has no ACL")
	}
	return commands
}

// With the manual's ACL an owner's user does all that runnel does, and with a client written by hand nothing
// to other owners.
func TestACL(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := dial(t, s)
	open := func(owner string) *State {
		for _, command := range aclOf(t, owner, "secret-of-"+owner) {
			if said := admin.say(t, command...); said != "+OK" {
				t.Fatal(said)
			}
		}
		file := filepath.Join(t.TempDir(), "creds")
		if err := os.WriteFile(file, []byte(owner+" secret-of-"+owner), 0o600); err != nil {
			t.Fatal(err)
		}
		return newState(t, s, func(o *Options) { o.Credentials = file; o.Limits = tasks.Limits{MaxLive: 9, MaxStartsPerMinute: 99} })
	}
	ours := open("a")
	elsewhere := open("a")
	theirs := open("b")
	if said := admin.say(t, "ACL", "SETUSER", "default", "off"); said != "+OK" {
		t.Fatal(said)
	}

	a, b := statetest.NewRunner(t, run.Options{State: ours, Owner: "a"}), statetest.NewRunner(t, run.Options{State: elsewhere, Owner: "a"})
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
	task := statetest.Working("task")
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
	if err := spaceOfOwner(t, ours, "a").Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := ours.Space("a").Forget(t.Context(), task.CreatedAt, true); err != nil {
		t.Error(err)
	}
	if _, err := ours.Space("a").Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := ours.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("task")); err == nil || !strings.Contains(err.Error(), "ACL") { // of owner local
		t.Errorf("another owner: %v", err)
	}

	victim := statetest.Working("victim", "secret\n")
	victim.Owner = "b"
	statetest.Put(t, theirs, victim)
	forger := dial(t, s)
	if said := forger.say(t, "AUTH", "a", "secret-of-a"); said != "+OK" {
		t.Fatal(said)
	}
	if said := forger.say(t, "HLEN", "runnel:a:live"); !strings.HasPrefix(said, ":") {
		t.Errorf("its own: %s", said)
	}
	const key = "runnel:b:task:victim"
	for _, words := range [][]string{
		{"HGETALL", key}, {"HSET", key, "keeper", ""}, {"DEL", key}, {"XRANGE", "runnel:b:log:victim", "-", "+"}, {"XADD", "runnel:b:log:victim", "*", "d", "x"},
		{"ZRANGE", "runnel:b:tasks", "0", "-1"}, {"SADD", "runnel:b:asked:" + theirs.Keeper, "victim"}, {"SET", "runnel:b:schema", "2"},
		{"EVAL", "return redis.call('HGETALL', KEYS[1])", "1", key}, {"EVAL", "return redis.call('HGETALL', '" + key + "')", "0"},
		{"EVAL", "return redis.call('PUBLISH', 'runnel:b:ask:x', 'victim')", "0"},
		{"SUBSCRIBE", "runnel:b:wake:victim"}, {"PSUBSCRIBE", "*"}, {"PUBLISH", "runnel:b:ask:" + theirs.Keeper, "victim"}, {"PUBSUB", "CHANNELS"},
		{"SCAN", "0"}, {"KEYS", "*"}, {"RANDOMKEY"}, {"DBSIZE"}, {"SORT", "runnel:a:none", "BY", "nosort", "GET", key}, {"COPY", key, "runnel:a:x"}, {"RENAME", key, "runnel:a:x"},
		{"DUMP", key}, {"OBJECT", "ENCODING", key}, {"MONITOR"}, {"CLIENT", "LIST"}, {"CLIENT", "KILL", "TYPE", "normal"}, {"CONFIG", "GET", "*"}, {"INFO"}, {"FLUSHALL"},
		{"SWAPDB", "0", "1"}, {"SCRIPT", "FLUSH"}, {"FUNCTION", "LIST"}, {"ACL", "LIST"}, {"DEBUG", "SLEEP", "0"}, {"REPLICAOF", "NO", "ONE"}, {"SHUTDOWN"}, {"MOVE", key, "1"},
		{"MIGRATE", "127.0.0.1", "1", key, "0", "1"}, {"SLOWLOG", "GET"}, {"LATENCY", "LATEST"}, {"MEMORY", "USAGE", key},
	} {
		said := forger.say(t, words...)
		inScript := strings.Contains(said, "user executing the script can't") || strings.Contains(said, "ACL failure in script") // as versions have it
		if !strings.HasPrefix(said, "-NOPERM") && !inScript && !strings.HasPrefix(said, "-ERR DEBUG command not allowed") {
			t.Errorf("%q: %s", words, said)
		}
	}
	asked, fenced, err := theirs.Open("b").(tasks.Shared).Heed(t.Context())
	if got, failed := theirs.Open("b").Get(context.Background(), "victim"); failed != nil || err != nil || got.Status != mcp.TaskWorking || len(asked)+len(fenced) > 0 {
		t.Errorf("%+v, asked %v, fenced %v, %v, %v", got, asked, fenced, err, failed)
	}
}

func spaceOfOwner(t testing.TB, s *State, owner string) *space {
	t.Helper()
	sp := s.Space(owner)
	if err := sp.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sp.Driver.(*space)
}
