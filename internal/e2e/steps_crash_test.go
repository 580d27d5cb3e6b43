package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// tenSteps is a config whose tool release has ten steps, some of which run at the same time.
const tenSteps = `
tasks: {maxLive: 1000}
tools:
  work:
    shell: 'echo "$id" >> begun; sleep 0.05; echo "$id($from)"; echo "$id" >> ended'
    input: {id: {type: string}, from: {type: string}}
    idempotent: true
  release:
    steps:
      - {id: s1, tool: work, with: {id: s1, from: ""}}
      - {id: s2, tool: work, with: {id: s2, from: "{{steps.s1.output}}"}}
      - {id: s3, tool: work, with: {id: s3, from: "{{steps.s1.output}}"}}
      - {id: s4, tool: work, with: {id: s4, from: "{{steps.s2.output}}{{steps.s3.output}}"}}
      - {id: s5, tool: work, foreach: "{{steps.s3.output}}", with: {id: s5, from: "{{item}}"}}
      - {id: s6, tool: work, with: {id: s6, from: "{{steps.s5.output}}"}, retry: {times: 1, backoff: 10ms}}
      - {id: s7, tool: work, when: "{{steps.s4.status}} == completed", with: {id: s7, from: "{{steps.s6.output}}"}}
      - {id: s8, tool: work, needs: [s7], with: {id: s8, from: ""}}
      - {id: s9, tool: work, needs: [s7], with: {id: s9, from: ""}}
      - {id: s10, tool: work, with: {id: s10, from: "{{steps.s8.output}}{{steps.s9.output}}{{steps.s4.output}}{{steps.s7.output}}"}}
`

const tenStepsResult = "s10(s8()s9()s4(s2(s1())s3(s1()))s7(s6(s5(s3(s1())))))"

// stepsKilled kills runnel at random moments while it runs ten steps, several times at once, until each run
// has met so many kills or has ended. It checks each run: it ends with the same result, and a step that has
// an end ran once.
func stepsKilled(t *testing.T, where string, atOnce, kills int, env ...string) {
	config := filepath.Join(t.TempDir(), "runnel.yaml")
	if err := os.WriteFile(config, []byte(tenSteps), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	start := func() *witness {
		cmd := programCommand(t, "--config", config, "--state", where)
		cmd.Env = append(cmd.Env, env...)
		w := newWitness(t, cmd)
		w.patience = 3 * watchdog
		return w
	}
	w := start()
	ended := func(id string) bool {
		var task mcp.Task
		w.must(&task, "tasks/get", map[string]any{"taskId": id})
		return task.Status.Terminal()
	}
	runs, met, cut := 0, 0, 0
	for killed := 0; killed < kills; {
		var ids []string
		for range atOnce {
			var created mcp.CreateTaskResult
			w.must(&created, "tools/call", map[string]any{"name": "release", "task": map[string]any{"ttl": 3600_000}})
			ids = append(ids, created.Task.TaskID)
			time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
		}
		runs += len(ids)
		began := true // by this process
		for going := slices.Clone(ids); len(going) > 0; {
			if resumed := strings.Contains(w.log.String(), "this call goes on here"); began || resumed {
				time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
			} else if going = slices.DeleteFunc(going, ended); len(going) > 0 { // a kill would meet what does not run
				time.Sleep(20 * time.Millisecond)
				continue
			}
			going, began = slices.DeleteFunc(going, ended), false
			if killed < kills && len(going) > 0 {
				w.kill()
				killed++
				met += len(going)
				w = start()
			}
		}
		for _, id := range ids {
			cut += checkSteps(t, w, id)
		}
	}
	w.end()
	t.Logf("%d kills met %d runs of %d; %d tasks of steps were cut off and ran again", kills, met, runs, cut)
}

// checkSteps checks a run of tenSteps that has ended, and returns how many of its tasks were cut off.
func checkSteps(t *testing.T, w *witness, id string) (cut int) {
	t.Helper()
	var result mcp.CallToolResult
	w.must(&result, "tasks/result", map[string]any{"taskId": id})
	text, _ := mcp.TextOf(result.Content[0])
	if result.IsError || !strings.Contains(text, "\n"+tenStepsResult+"\n") || strings.Count(text, ": completed\n") != 10 {
		t.Errorf("%s: the result is %q", id, text)
	}
	log := w.output(id)
	completed := map[string]int{}
	for line := range strings.Lines(log) {
		step, child, ok := strings.Cut(strings.TrimSpace(line), ": begins as task ")
		if !ok {
			continue
		}
		var task mcp.Task
		w.must(&task, "tasks/get", map[string]any{"taskId": child})
		switch task.Status {
		case mcp.TaskCompleted:
			completed[step]++
		case mcp.TaskFailed:
			cut++
		default:
			t.Errorf("%s: %s is %s after the end", id, step, task.Status)
		}
	}
	for n := range 10 {
		step := fmt.Sprintf("s%d", n+1)
		if step == "s5" {
			step = "s5.1"
		}
		if completed[step] != 1 {
			t.Errorf("%s: %s was completed %d times\n%s", id, step, completed[step], log)
		}
	}
	return cut
}

// stepKills is how often runnel is killed while it runs steps; make crash does it 200 times, on servers 10
// times.
func stepKills(t *testing.T, few, most int) int {
	if text := os.Getenv("RUNNEL_TEST_STEP_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return stepRuns(t, few, most)
}

// stepRuns is how many runs each kill meets.
func stepRuns(t *testing.T, few, most int) int {
	if os.Getenv("RUNNEL_TEST_CRASH_ROUNDS") != "" {
		return min(crashRounds(t), most)
	}
	return few
}

// Steps survive kill -9 of runnel at any moment: the next one goes on with the first step that has no end.
func TestStepsKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	stepsKilled(t, dir, 1, stepKills(t, 5, 200))
	checkIntegrity(t, dir)
}

// The same on servers, where it takes some 20 s until a runnel counts as gone: several runs meet each kill.
func TestStepsKilledOnRedisAtAnyMoment(t *testing.T) {
	t.Parallel()
	const password = "s3cret-of-this-test"
	address := redisServer(t, password)
	creds := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(creds, []byte("runnel "+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stepsKilled(t, "redis://"+address, stepRuns(t, 2, 20), stepKills(t, 1, 10), "RUNNEL_REDIS_CREDS="+creds)
}

func TestStepsKilledOnNATSAtAnyMoment(t *testing.T) {
	t.Parallel()
	stepsKilled(t, startNATS(t), stepRuns(t, 2, 20), stepKills(t, 1, 10))
}
