package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

// startAccounts runs a NATS server with accounts, as nsc makes them, and returns its address and a file of
// credentials for each.
func startAccounts(t *testing.T, names ...string) (url string, creds map[string]string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key := func(kp nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
		t.Helper()
		must(err)
		public, err := kp.PublicKey()
		must(err)
		return kp, public
	}
	operator, operatorKey := key(nkeys.CreateOperator())
	resolver, creds := &server.MemAccResolver{}, map[string]string{}
	var system string
	for _, name := range append(names, "system") {
		account, accountKey := key(nkeys.CreateAccount())
		claims := jwt.NewAccountClaims(accountKey)
		claims.Name = name
		if name == "system" {
			system = accountKey
		} else {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1,
				Streams: -1, Consumer: -1}
		}
		token, err := claims.Encode(operator)
		must(err)
		must(resolver.Store(accountKey, token))

		user, userKey := key(nkeys.CreateUser())
		userToken, err := jwt.NewUserClaims(userKey).Encode(account)
		must(err)
		seed, err := user.Seed()
		must(err)
		file, err := jwt.FormatUserConfig(userToken, seed)
		must(err)
		creds[name] = filepath.Join(t.TempDir(), name+".creds")
		must(os.WriteFile(creds[name], file, 0o600))
	}
	token, err := jwt.NewOperatorClaims(operatorKey).Encode(operator)
	must(err)
	claims, err := jwt.DecodeOperatorClaims(token)
	must(err)
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true,
		NoSigs:           true,
		TrustedOperators: []*jwt.OperatorClaims{claims}, AccountResolver: resolver, SystemAccount: system,
	})
	must(err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s.ClientURL(), creds
}

// An owner that has an account of its own is out of reach for others, also for a client written by hand.
// Permissions within one account would not do: a server answers to whichever subject a request names, also to
// one of another owner's stream.
func TestAccounts(t *testing.T) {
	t.Parallel()
	url, creds := startAccounts(t, "a", "b")
	open := func(name string) *State {
		return newState(t, url,
			func(o *Options) { o.Credentials = creds[name] })
	}
	working := func(owner, id string, output ...string) tasks.Task {
		task := statetest.Working(id, output...)
		task.Owner = owner
		return task
	}
	ours, theirs := open("a"), open("b")
	victim := working("b", "victim", "secret\n")
	statetest.Put(t, ours, working("a", "mine"))
	statetest.Put(t, theirs, victim)

	nc, err := nats.Connect(url, nats.UserCredentials(creds["a"]))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	all, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := js.Stream(t.Context(), "runnel_b"); err == nil {
		t.Errorf("the stream of another account: %+v", s.CachedInfo())
	}
	if _, err := open("a").Open("b").Get(t.Context(), "victim"); err == nil {
		t.Error("read by another account")
	}
	forged := []byte(`{"status":"cancelled","writer":"x","created":9000000000000000000,"ttl":1000000000000}`)
	for _, m := range []*nats.Msg{
		{Subject: "runnel.b.victim.task", Data: forged},
		{Subject: "runnel.a.mine.task", Data: forged},
		{Subject: "$JS.API.DIRECT.GET.runnel_a.runnel.a.mine.task", Reply: "runnel.b.victim.task"},
		{Subject: "runnel-ask.b." + theirs.Keeper, Data: []byte("victim")},
		{Subject: "$JS.API.STREAM.PURGE.runnel_b"}, {Subject: "$JS.API.STREAM.DELETE.runnel_b"},
	} {
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, err := theirs.Open("b").Get(t.Context(), "victim"); err != nil || got.Status != mcp.TaskWorking {
		t.Errorf("%+v, %v", got, err)
	}
	statetest.Put(t, theirs, statetest.Ended(victim, mcp.TaskCompleted, "secret"))
	if got, err := theirs.Open("b").Get(t.Context(), "victim"); err != nil || got.Status != mcp.TaskCompleted {
		t.Errorf("its end: %+v, %v", got, err)
	}
	if asked, _, err := theirs.Open("b").(tasks.Shared).Heed(t.Context()); err != nil || len(asked) > 0 {
		t.Errorf("asked to cancel: %v, %v", asked, err)
	}
	for m, err := all.NextMsg(100 * time.Millisecond); err == nil; m, err = all.NextMsg(100 * time.Millisecond) {
		if strings.Contains(string(m.Data), "secret") ||
			strings.Contains(m.Subject, theirs.Keeper) && m.Subject != "runnel-ask.b."+theirs.Keeper {
			t.Errorf("heard on %s: %q", m.Subject, m.Data)
		}
	}
}
