package command

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"runnel/internal/processtest"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/sandbox"
)

// nodeFetch gets a URL through the proxy of the environment. Not every Node.js heeds that by itself.
const nodeFetch = `const via = new URL(process.env.HTTPS_PROXY), to = new URL(process.argv[1]);
require("http").request({host: via.hostname, port: via.port, method: "CONNECT", path: to.host}).on("connect", (answer, socket) => {
	if (answer.statusCode !== 200) { console.log("refused: " + answer.statusCode); process.exit(1); }
	require("https").get({host: to.hostname, path: "/", socket, agent: false, rejectUnauthorized: false, headers: {host: to.host}},
		(r) => r.pipe(process.stdout));
}).end();`

// A command reaches the hosts that its sandbox lists, with the programs that people use, and nothing else: not
// by TCP, UDP or DNS, and not by another name, port, header or redirect. What it cannot, it can without a
// sandbox.
func TestReach(t *testing.T) {
	t.Parallel()
	program, err := process.ThisProgram()
	if err == nil {
		err = (&sandbox.Policy{Proxied: true}).Check(program)
	}
	if err != nil {
		t.Skip(err)
	}
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "https://other.test:1/", http.StatusFound)
			return
		}
		_, _ = fmt.Fprintln(w, "hello", strings.Split(r.Host, ":")[0])
	}))
	defer secure.Close()
	plain := httptest.NewServer(secure.Config.Handler)
	defer plain.Close()
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	at, plainAt := secure.Listener.Addr().String(), plain.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(at)
	_, plainPort, _ := net.SplitHostPort(plainAt)
	hosts := config.Reach{"good.test:" + port, "*.below.test:" + port, "good.test:" + plainPort, at, plainAt}

	run := func(t *testing.T, script string, s *config.Sandbox) (said string) {
		t.Helper()
		base := config.Base{Dir: t.TempDir(),
			Vars: append(os.Environ(), "SELF="+os.Args[0], "AT="+at, "PORT="+port, "PLAIN="+plainPort,
				"UDP="+datagrams.LocalAddr().String(), "FETCH="+nodeFetch)}
		c, err := New("reach", config.Command{Shell: script, Sandbox: s}, base)
		if err != nil {
			t.Fatal(err)
		}
		c.lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		result, _, _ := call(t, c, `{}`)
		return contentText(t, result.Content[0])
	}
	fetch := childVar + "=fetch $SELF "
	for _, c := range []struct{ name, program, script, want string }{
		{"curl", "curl", `curl -sSk https://good.test:$PORT/`, "hello good.test\n"},
		{"curl, below", "curl", `curl -sSk https://a.below.test:$PORT/`, "hello a.below.test\n"},
		{"curl, HTTP", "curl", `curl -sS http://good.test:$PLAIN/`, "hello good.test\n"},
		{"curl, SOCKS", "curl", `curl -sSk --proxy socks5h://` + sandbox.ProxyAddress +
			` https://good.test:$PORT/`, "hello good.test\n"},
		{"node", "node", `node -e "$FETCH" https://good.test:$PORT/`, "hello good.test\n"},
		{"Go", "", fetch + `https://good.test:$PORT/`, "hello good.test\n"},

		{"curl, other host", "curl", `curl -sSk https://other.test:$PORT/`,
			"blocked by the sandbox: connect to other.test:PORT; allowed: good.test:PORT, *.below.test:PORT"},
		{"curl, other port", "curl", `curl -sSk https://good.test:1/`,
			"blocked by the sandbox: connect to good.test:1; allowed: "},
		{"curl, an address", "curl", `curl -sSk --noproxy "" https://127.0.0.2:$PORT/`,
			"blocked by the sandbox: connect to 127.0.0.2:PORT; allowed: "},
		{"curl, header", "curl", `curl -sS -H "Host: good.test:$PLAIN" http://other.test:$PLAIN/; false`,
			"blocked by the sandbox: connect to other.test:PLAIN; allowed: "},
		{"curl, header of another", "curl", `curl -sS -H "Host: other.test" http://good.test:$PLAIN/`,
			"hello good.test\n"},
		{"curl, redirect", "curl", `curl -sSkL https://good.test:$PORT/away`,
			"blocked by the sandbox: connect to other.test:1; allowed: "},
		{"curl, SOCKS, other host", "curl",
			`curl -sSk --proxy socks5h://` + sandbox.ProxyAddress + ` https://other.test:$PORT/`,
			"blocked by the sandbox: connect to other.test:PORT; allowed: "},
		{"curl, silent", "curl", `curl -sk https://other.test:$PORT/ || true`,
			"no output, exit code 0 blocked by the sandbox: connect to other.test:PORT; allowed: "},
		{"node, other host", "node", `node -e "$FETCH" https://other.test:$PORT/`,
			"blocked by the sandbox: connect to other.test:PORT; allowed: "},
		{"Go, other host", "", fetch + `https://other.test:$PORT/`,
			"blocked by the sandbox: connect to other.test:PORT; allowed: "},

		{"TCP", "curl", `curl -sSk --noproxy "*" https://$AT/`, "in a sandbox"},
		{"UDP", "", childVar + "=send $SELF $UDP", ""},
		{"DNS", "", `getent hosts example.com; getent ahosts good.test; echo "exit code $?"`,
			"exit code 2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.program != "" {
				if _, err := exec.LookPath(c.program); err != nil {
					t.Skip(err)
				}
			}
			want := strings.NewReplacer("PORT", port, "PLAIN", plainPort).Replace(c.want)
			for range 2 {
				if said := run(t, c.script, &config.Sandbox{Network: hosts}); !strings.Contains(said, want) ||
					strings.Contains(c.want, "blocked") && strings.Contains(said, "hello") {
					t.Errorf("%s, want %s", said, want)
				}
			}
		})
	}
	// The direct ways are open without a sandbox.
	if said := run(t, `curl -sSk --noproxy "*" https://$AT/`, nil); !strings.Contains(said, "hello") &&
		!strings.Contains(said, "not found") {
		t.Errorf("TCP without a sandbox: %s", said)
	}
	_ = datagrams.SetReadDeadline(time.Now())
	if n, _, err := datagrams.ReadFrom(make([]byte, 8)); err == nil {
		t.Errorf("a datagram of %d bytes came out of the sandbox", n)
	}
	_ = run(t, childVar+"=send $SELF $UDP", nil)
	_ = datagrams.SetReadDeadline(time.Now().Add(processtest.Watchdog))
	if _, _, err := datagrams.ReadFrom(make([]byte, 8)); err != nil {
		t.Errorf("UDP without a sandbox: %v", err)
	}
}
