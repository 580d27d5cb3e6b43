package hosts

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// serversConfig has two servers: vite, of a project of npm, and Debian's nginx.
const serversConfig = `tools:
  dev:
    description: Serves the site while it is developed
    # vite refuses a second server of a project without --bypass-lock
    command: [npm, run, dev, --, --port, "{{port}}", --strictPort, --bypass-lock]
    dir: DIR/site
    input: {port: {type: integer}}
    ready: 'Local: +(https?://\S+)'
  web:
    description: Serves the site
    dir: DIR
    input: {port: {type: integer}}
    ready: 'start worker process \d+'
    shell: |
      mkdir -p web-$port
      cat > web-$port.conf <<END
      daemon off;
      pid nginx.pid;
      error_log stderr notice;
      events {}
      http {
        access_log off;
        client_body_temp_path body;
        proxy_temp_path proxy;
        fastcgi_temp_path fastcgi;
        uwsgi_temp_path uwsgi;
        scgi_temp_path scgi;
        server {
          listen 127.0.0.1:$port;
          location / { return 200 "a page of nginx"; }
        }
      }
      END
      echo "the site will be at http://127.0.0.1:$port/"
      exec nginx -p web-$port -e stderr -c $PWD/web-$port.conf
`

// A visit is one run of servers: the model starts one after the other, reads where it is, and opens it.
type visit struct {
	tools []string // the servers, in the order of their calls

	mu        sync.Mutex
	ports     []int
	listening []chan time.Time // when the port first took a connection
}

// servers starts servers that are ready after a while and never end. The scenario has a state: each run needs
// its own one.
func servers() Scenario {
	v := &visit{tools: []string{"dev", "web", "dev"}}
	if testing.Short() {
		v.tools = []string{"web", "web"}
	}
	return Scenario{Name: "servers", Config: serversConfig, Before: v.prepare, Play: v.play, Check: v.check,
		NoGolden: true} // it has ports and times
}

// prepare writes the project that vite serves.
func (v *visit) prepare(run *Run) {
	if !slices.Contains(v.tools, "dev") {
		return
	}
	site := filepath.Join(run.Dir, "site")
	vite := install(run.T, Host{Name: "vite", Program: "vite/bin/vite.js"})
	for _, dir := range []string{"node_modules/.bin", "node_modules"} {
		if err := os.MkdirAll(filepath.Join(site, dir), 0o755); err != nil {
			run.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"package.json": `{"name": "site", "private": true, "scripts": {"dev": "vite"}}`,
		"index.html":   "<!doctype html>\n<title>a page of vite</title>\n",
	} {
		if err := os.WriteFile(filepath.Join(site, name), []byte(text), 0o644); err != nil {
			run.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"node_modules/vite":      filepath.Dir(filepath.Dir(vite)),
		"node_modules/.bin/vite": vite,
	} {
		if err := os.Symlink(to, filepath.Join(site, name)); err != nil {
			run.Fatal(err)
		}
	}
}

// play opens the server that was started last, and starts the next one.
func (v *visit) play(run *Run, results []Result) []Call {
	arrived := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	n := len(results)
	if n == len(v.ports) && n > 0 { // the first request of the host with this result
		v.open(run, n-1, plain(results[n-1].Text), arrived)
	}
	if n == len(v.tools) {
		return nil
	}
	if n == len(v.ports) {
		v.ports = append(v.ports, freePort(run.T))
		v.listening = append(v.listening, listens(v.ports[n]))
	}
	return []Call{{v.tools[n], object{"port": v.ports[n]}}}
}

// open makes a request to a server whose URL the model has read when its host's request arrived.
func (v *visit) open(run *Run, i int, read string, arrived time.Time) {
	url := regexp.MustCompile(fmt.Sprintf(`http://[a-z0-9.]+:%d/`, v.ports[i])).FindString(read)
	if url == "" || !strings.Contains(read, " s: ") || !strings.Contains(read, "It goes on, as task ") {
		run.Errorf("%s is ready, and the model has read %q", v.tools[i], read)
		return
	}
	run.Figure(v.tools[i], "read %d ms after it listened", arrived.Sub(<-v.listening[i]).Milliseconds())
	if got, err := get(url); err != nil || !strings.Contains(got, "a page of ") {
		run.Errorf("%s at %s answers %q, %v", v.tools[i], url, got, err)
	}
}

// check looks whether the servers have ended with the session.
func (v *visit) check(run *Run) {
	if len(run.Results) != len(v.tools) {
		run.Errorf("the model has read %d results, not %d", len(run.Results), len(v.tools))
	}
	for i, port := range v.ports {
		if !eventually(goneLimit, func() bool { return !takesConnections(port) }) {
			run.Errorf("%s outlives the session", v.tools[i])
		}
	}
	for _, command := range run.Left {
		if strings.Contains(command, "vite") || strings.Contains(command, "nginx") {
			run.Errorf("it outlives the session: %s", command)
		}
	}
}

// get makes a request, not through a proxy.
func get(url string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", response.Status)
	}
	return string(body), err
}

// freePort returns a port that is free now.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// listens receives the time at which a port first takes a connection, within the time of a run.
func listens(port int) chan time.Time {
	first := make(chan time.Time, 1)
	go func() {
		defer close(first) // a server that never listens has the zero time
		for deadline := time.Now().Add(runLimit); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
			if takesConnections(port) {
				first <- time.Now()
				return
			}
		}
	}()
	return first
}

func takesConnections(port int) bool {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("localhost:%d", port), time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
