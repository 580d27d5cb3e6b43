package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"runnel/internal/natstest"
	"runnel/rpc/mcp"
)

// watching is a Prometheus that scrapes some runnels.
type watching struct {
	t   *testing.T
	url string
}

func startPrometheus(t *testing.T, targets ...string) *watching {
	t.Helper()
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed: it is in Debian's package prometheus")
		}
	}
	rules, err := filepath.Abs("testdata/deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// A page is written within 2 s even if the state does not answer.
	dir, address := t.TempDir(), freeAddress(t)
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: runnel, static_configs: [{targets: [%s]}]}]\n", rules,
		strings.Join(targets, ", "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, check := range [][]string{{"rules", rules}, {"config", config}} {
		if out, err := exec.Command("promtool", append([]string{"check"}, check...)...).
			CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", check, err, out)
		}
	}
	cmd := exec.Command("prometheus", "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &watching{t, "http://" + address}
}

// asks asks until the answer has data.
func (p *watching) asks(path, has string) {
	p.t.Helper()
	said := ""
	for deadline := time.Now().Add(watchdog); !regexp.MustCompile(has).
		MatchString(said); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Errorf("%s has no %s:\n%s", path, has, said)
			return
		}
		response, err := http.Get(p.url + path)
		if err != nil { // it starts
			continue
		}
		var b strings.Builder
		_ = response.Write(&b)
		_ = response.Body.Close()
		said = b.String()
	}
}

func (p *watching) finds(query string) {
	p.t.Helper()
	p.asks("/api/v1/query?query="+url.QueryEscape(query), `"value":\[[0-9.]+,"[0-9.e+-]+"\]`)
}

// Every expression of the dashboard, of the alerts and of the autoscaling finds data in a Prometheus that scrapes
// a fleet, and the alerts that the fleet gives a reason for are raised.
func TestDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	front, worker := freeAddress(t), freeAddress(t)
	prometheus := startPrometheus(t, front, worker)
	servers := natstest.Start(t, 1, environ(t))
	c := &crew{
		t: t, program: builtProgram(t), dir: t.TempDir(),
		env: append(environ(t), "RUNNEL_STATE="+servers.URL()+"?maxBytes=67108864"), config: writeConfig(t, `
tools:
  quick: {shell: date, runs: builds}
  here: {shell: date}
  waits: {shell: date, runs: nobody}
`),
	}
	c.work("one", "--class", "builds", "--metrics", worker)
	serve := exec.Command(c.program, append(c.config, "--metrics", front, "--http", freeAddress(t))...)
	serve.Env = c.env
	w := newWitness(t, serve)
	call := func(tool string) (id map[string]any) {
		var created mcp.CreateTaskResult
		w.must(&created, "tools/call",
			map[string]any{"name": tool, "arguments": map[string]any{}, "task": map[string]any{}})
		return map[string]any{"taskId": created.Task.TaskID}
	}
	call("waits")
	for n := range 3 { // a rate needs calls between two scrapes
		for _, tool := range []string{"quick", "here"} {
			w.must(&mcp.CallToolResult{}, "tasks/result", call(tool))
		}
		prometheus.finds(fmt.Sprintf("sum(runnel_worker_taken_total) > %d", n))
		prometheus.finds(fmt.Sprintf(`sum(runnel_tasks_ended_total{tool="here"}) > %d`, n))
	}

	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("testdata/deploy/dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	if err != nil || len(dashboard.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	shown := strings.NewReplacer("$owner", ".*", "$__rate_interval", "1m") // as Grafana fills them in
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			prometheus.finds(shown.Replace(target.Expr))
		}
	}

	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err = os.ReadFile("testdata/deploy/alerts.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &alerts)
	}
	if err != nil || len(alerts.Groups) != 1 {
		t.Fatal(alerts, err)
	}
	// These limits would take too long to reach.
	now := strings.NewReplacer("> 300", "> 1", "> 0.8 *", "> 0 *", "_current) <", "_current) <=")
	away := ""
	for _, rule := range alerts.Groups[0].Rules {
		if rule.Alert == "RunnelStateDoesNotAnswer" {
			away = rule.Expr
			continue
		}
		prometheus.finds(now.Replace(rule.Expr))
	}
	scaled, err := os.ReadFile("testdata/deploy/kubernetes/autoscaling.yaml")
	query := regexp.MustCompile(`query: (.+)`).FindSubmatch(scaled)
	if err != nil || query == nil {
		t.Fatalf("no query in %s, %v", scaled, err)
	}
	prometheus.finds(string(query[1]))
	prometheus.asks("/api/v1/alerts", `RunnelCallsWaitWithoutWorkers`)
	servers.Kill(0)
	prometheus.finds(away)
	w.kill()
}
