package upstream

import (
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"runnel/internal/processtest"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/sandbox"
)

// A server in a sandbox, its own or that of the whole config, changes its directory and a temporary one, and
// nothing else, before and after it was started again. A server with sandbox: false is in none.
func TestSandboxedServer(t *testing.T) {
	t.Parallel()
	program, err := process.ThisProgram()
	if err == nil {
		err = (&sandbox.Policy{}).Check(program)
	}
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name    string
		own, of *config.Sandbox
		want    string
	}{
		{"own", &config.Sandbox{}, nil, "here, temporary"},
		{"of the whole config", nil, &config.Sandbox{}, "here, temporary"},
		{"off", &config.Sandbox{Off: true}, &config.Sandbox{}, "here, outside, token"},
		{"none", nil, nil, "here, outside, token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, outside := t.TempDir(), t.TempDir()
			conf := child("upstream", "reach", "die")
			conf.Env["OUTSIDE"], conf.Sandbox = outside, c.own
			base := config.Base{Dir: dir, Vars: append(os.Environ(), "MY_TOKEN=x"), Sandbox: c.of}
			u, err := New("fake", conf, base, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			b := newBehind(t, u)
			temporary := map[string]bool{}
			for range 2 {
				for range 2 {
					said, where, _ := strings.Cut(b.mustCall("reach"), " in ")
					if said != c.want {
						t.Errorf("it reaches %q, want %q", said, c.want)
					}
					if where != "" {
						temporary[where] = true
					}
				}
				if _, _, err := b.call("die", &tools.Call{}); err == nil ||
					!strings.Contains(err.Error(), "last words") {
					t.Errorf("got %v", err)
				}
			}
			b.Close()
			if n := len(temporary); n != 2 && strings.Contains(c.want, "temporary") {
				t.Errorf("two starts had %d temporary directories", n)
			}
			for where := range temporary {
				if _, err := os.Stat(where); !os.IsNotExist(err) {
					t.Errorf("the temporary directory %s: %v", where, err)
				}
			}
		})
	}
}

// A server that cannot have its sandbox does not run, and says why.
func TestServerWithoutItsSandbox(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]config.Upstream{
		"url":   {URL: "https://example.com/mcp", Sandbox: &config.Sandbox{}},
		"ask":   {Command: []string{"x"}, Sandbox: &config.Sandbox{Network: config.Reach{"ask"}}},
		"wrong": {Command: []string{"x"}, Sandbox: &config.Sandbox{Network: config.Reach{"some"}}},
	} {
		_, err := New(name, conf, config.Base{}, zerolog.Nop())
		if wrong, ok := err.(*config.Error); !ok || !strings.HasPrefix(wrong.Key, "sandbox") {
			t.Errorf("%s: %v", name, err)
		}
	}
	conf := config.Upstream{Command: []string{os.Args[0], "env"}, Env: processtest.Env("upstream"),
		Sandbox: &config.Sandbox{Limits: config.SandboxLimits{Processes: 5}}}
	u, err := New("bounded", conf, config.Base{Dir: t.TempDir()}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	program, err := process.ThisProgram()
	if err != nil {
		t.Fatal(err)
	}
	want := u.sandbox.Check(program)
	if want == nil {
		t.Skip("this system gives the sandbox")
	}
	if _, err := u.Probe(t.Context(), watchdog); err == nil || !strings.Contains(err.Error(), want.Error()) {
		t.Errorf("%v, want %v", err, want)
	}
}
