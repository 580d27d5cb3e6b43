//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"runnel/rpc/mcp"
)

const abortSignal = syscall.SIGABRT

// How much more an idle runnel may hold at the end of a round than at the end of the first.
const (
	groundGoroutines = 60
	groundFiles      = 60
	groundHeap       = 96 << 20  // bytes
	groundResident   = 900 << 20 // bytes, at all: the race detector's share is most of it
)

// calm mends everything, ends everything, and holds what is left against what must hold always.
func (g *ground) calm() {
	g.mendAll()
	for _, s := range g.slots {
		s.c.resume()
	}
	g.writeConfig(0)
	for _, s := range g.slots {
		g.cancelAll(s)
	}
	// Every request is answered.
	g.within("every request is answered", func() string {
		for _, s := range g.slots {
			s.c.take()
			g.lives(s)
			if len(s.c.open) > 0 {
				g.cancelAll(s) // those started meanwhile
				return fmt.Sprintf("slot %d: %s of %v ago", s.number, s.c.open[0].what,
					time.Since(s.c.open[0].since))
			}
		}
		return ""
	})
	g.within("every task has ended", func() string {
		for _, s := range g.slots {
			if n := g.cancelAll(s); n > 0 {
				return fmt.Sprintf("%d run, as slot %d lists them: %+v", n, s.number, g.list(s))
			}
		}
		return ""
	})
	if g.t.Failed() {
		return
	}
	for _, k := range g.tasks {
		if g.check(k); g.t.Failed() {
			return
		}
	}
	g.checkLists()
	g.checkProcesses(g.slots)
	for _, s := range g.slots {
		s.c.checkLog()
		if n, id := s.c.audit.unanswered(); n > 0 {
			g.t.Errorf("slot %d: %d requests were not answered, one has id %s", s.number, n, id)
		}
	}
	g.checkResources()
	g.expireAll()
	if g.round%5 == 0 || g.t.Failed() {
		say("round %d after %v: %d tasks, %v", g.round, time.Since(g.began).Round(time.Second),
			len(g.tasks), g.counts)
	}
	g.tasks = nil
	clear(g.cancelled)
}

// within waits until nothing is missing.
func (g *ground) within(what string, missing func() string) {
	g.t.Helper()
	for deadline := time.Now().Add(groundPatience); !g.t.Failed(); time.Sleep(50 * time.Millisecond) {
		said := missing()
		if said == "" {
			return
		}
		if time.Now().After(deadline) {
			g.t.Errorf("%s: not after %v: %s\nsupervisors:\n%s", what, groundPatience, said, g.supervisors())
			for _, s := range g.slots {
				if strings.HasPrefix(said, fmt.Sprintf("slot %d:", s.number)) {
					s.c.ended.Store(true)
					s.c.abort()
				}
			}
			return
		}
	}
}

// supervisors lets those that there are say where they are, and ends them.
func (g *ground) supervisors() string {
	file := filepath.Join(g.state(), "supervisor.log")
	before, _ := os.ReadFile(file)
	said := ""
	for _, pid := range processes(childMark) {
		if line := cmdline(pid); strings.HasPrefix(line, "runnel-supervisor") {
			limits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
			said += fmt.Sprintf("%d: %s\n%s", pid, line, limits)
			_ = syscall.Kill(pid, abortSignal)
		}
	}
	time.Sleep(time.Second)
	after, _ := os.ReadFile(file)
	return fmt.Sprintf("%s%s\n%s", said, before[max(0, len(before)-2000):],
		after[min(len(before), len(after)):])
}

// list is all tasks that a runnel lists.
func (g *ground) list(s *slot) (all []mcp.Task) {
	g.t.Helper()
	for cursor := ""; ; {
		var page mcp.ListTasksResult
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		s.c.must(&page, "tasks/list", params)
		all = append(all, page.Tasks...)
		if cursor = page.NextCursor; cursor == "" {
			return all
		}
	}
}

// cancelAll cancels what runs, and returns how many did.
func (g *ground) cancelAll(s *slot) (running int) {
	for _, s := range g.slots {
		s.c.take()
	}
	known := map[string]*groundTask{}
	for _, k := range g.tasks {
		known[k.id] = k
	}
	for _, task := range g.list(s) {
		if task.Status.Terminal() {
			continue
		}
		running++
		if k := known[task.TaskID]; k != nil {
			if !k.endless && !k.anyEnd && time.Since(k.since) < 30*time.Second {
				continue // it ends by itself
			}
			k.cancelled = true
		}
		g.cancelled[task.TaskID] = true
		_ = s.c.patientCall("tasks/cancel", map[string]any{"taskId": task.TaskID})
	}
	return running
}

// check holds a task against what its clients were told, in each runnel of its owner.
func (g *ground) check(k *groundTask) {
	if !k.known() {
		return
	}
	k.cancelled = k.cancelled || g.cancelled[k.id] // perhaps before the handle had come
	c := k.client
	if end, told := c.toldEnd(k.id); told {
		k.saw(c, end, "a notification")
	}
	for _, s := range g.slots {
		if s.owner != k.owner {
			if a := s.c.patientCall("tasks/get", map[string]any{"taskId": k.id}); a.Error == nil {
				g.t.Errorf("%v is seen by %s", k, s.owner)
			}
			continue
		}
		var task mcp.Task
		a := s.c.patientCall("tasks/get", map[string]any{"taskId": k.id})
		if a.Error != nil {
			s.c.lost(k, "tasks/get", a)
			continue
		}
		if err := json.Unmarshal(a.Result, &task); err != nil {
			g.t.Errorf("%v: %v", k, err)
			continue
		}
		if !task.Status.Terminal() {
			g.t.Errorf("%v: %s in slot %d when everything has ended", k, task.Status, s.number)
			continue
		}
		k.saw(s.c, task, "tasks/get")
		s.c.result(k)
		g.within("a result", func() string {
			s.c.take()
			if len(s.c.open) > 0 {
				return fmt.Sprintf("slot %d: %v", s.number, k)
			}
			return ""
		})
		if k.readable(g) {
			g.checkOutput(k, s, task)
		}
	}
}

// checkOutput looks at the log: a prefix of what the tool wrote, the whole of it if the task has completed,
// and nothing else than what the client got that the call was made by.
func (g *ground) checkOutput(k *groundTask, s *slot, task mcp.Task) {
	output := s.c.output(k.id)
	// Partials of a cancelled task stop at once, and who does not read is not waited for when a task is cut
	// off.
	cut := k.status == mcp.TaskCancelled || k.status == mcp.TaskFailed && k.unread
	if carried, whole := k.client.carried(k.id); whole && !strings.HasPrefix(carried, output) &&
		(!cut || !strings.HasPrefix(output, carried)) {
		g.t.Errorf("%v: its end, %q, was told after partials of %d bytes, its log has %d:\n%.300q\n%.300q\nstderr:\n%s",
			k, task.StatusMessage, len(carried), len(output), carried, output, &k.client.log)
	}
	if k.tool == "chatter" && strings.Contains(task.StatusMessage, "no output") {
		g.t.Errorf("%v: %s %q, and it prints all the time", k, task.Status, task.StatusMessage)
	}
	if short := k.ttl < 3600_000; !k.troubled && !k.cancelled && !k.endless && !k.anyEnd && !short {
		want := mcp.TaskCompleted
		if k.fails {
			want = mcp.TaskFailed
		}
		if task.Status != want {
			g.t.Errorf("%v: %s %q, and nothing was wrong", k, task.Status, task.StatusMessage)
		}
	}
	if k.chunks < 0 {
		return
	}
	written := len(output) / knownBytes
	if err := checkChunks(output[:written*knownBytes], written, knownBytes); err != nil {
		g.t.Errorf("%v: the output is no prefix of what the tool wrote: %v", k, err)
	}
	if len(output)%knownBytes != 0 && !k.troubled && !k.cancelled || written > k.chunks {
		g.t.Errorf("%v: %d bytes of output, of %d chunks of %d", k, len(output), k.chunks, knownBytes)
	}
	if task.Status != mcp.TaskCompleted {
		return
	}
	if written != k.chunks {
		g.t.Errorf("%v has completed with %d chunks of %d", k, written, k.chunks)
	}
	if k.want != "" && !strings.Contains(k.result, k.want) {
		g.t.Errorf("%v: result %.300s, want %q", k, k.result, k.want)
	}
}

// checkLists holds that each owner sees its tasks, each once, and no other's.
func (g *ground) checkLists() {
	for _, s := range g.slots {
		listed := map[string]bool{}
		for _, task := range g.list(s) {
			if listed[task.TaskID] {
				g.t.Errorf("slot %d lists %s twice", s.number, task.TaskID)
			}
			listed[task.TaskID] = true
		}
		for _, k := range g.tasks {
			if k.known() && k.owner != s.owner && listed[k.id] {
				g.t.Errorf("slot %d lists %v", s.number, k)
			}
			if k.known() && k.owner == s.owner && k.readable(g) && !listed[k.id] {
				g.t.Errorf("slot %d does not list %v", s.number, k)
			}
		}
	}
}

// checkProcesses holds that nothing lives on that belongs to a runnel that is gone, or to a task that has
// ended; all are the slots of those that are not gone.
func (g *ground) checkProcesses(all []*slot) {
	g.within("no process is left", func() string {
		live := map[string]bool{}
		for _, s := range all {
			live[s.mark()] = true
		}
		for _, pid := range processes(childMark) {
			line := cmdline(pid)
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			_, rest, ok := strings.Cut(string(env), "GROUND_SLOT=")
			if !ok {
				continue
			}
			number, _, _ := strings.Cut(rest, "\x00")
			mark := "GROUND_SLOT=" + number
			command := strings.Contains(line, "sleep 601") || strings.Contains(line, "printf") ||
				strings.Contains(line, "echo on")
			if command || !live[mark] {
				return fmt.Sprintf("%d of %s: %s", pid, mark, line)
			}
		}
		return ""
	})
}

// checkResources holds that the first runnel, which nobody kills, does not grow.
func (g *ground) checkResources() {
	u := resourcesOf(g.t, g.metrics)
	if g.round == 0 {
		g.first = u
		return
	}
	grown := func(u resources) bool {
		return u.goroutines > g.first.goroutines+groundGoroutines || u.files > g.first.files+groundFiles ||
			u.heap > g.first.heap+groundHeap || u.resident > groundResident
	}
	for deadline := time.Now().Add(groundPatience); grown(u) &&
		time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		u = resourcesOf(g.t, g.metrics)
	}
	if grown(u) {
		g.t.Errorf("the first runnel holds %+v, after the first round it held %+v", u, g.first)
	}
	if g.round%5 == 0 {
		say("the first runnel holds %+v, after the first round it held %+v", u, g.first)
	}
}

// expireAll moves the clock past every ttl: then there are no tasks.
func (g *ground) expireAll() {
	g.clock.Add(int64(25 * 3600))
	g.now()
	g.within("every task is over", func() string {
		for _, s := range g.slots {
			if left := g.list(s); len(left) > 0 {
				return fmt.Sprintf("slot %d lists %d, one is %+v", s.number, len(left), left[0])
			}
		}
		return ""
	})
}

// end ends all runnels: nothing is left, and the state is sound.
func (g *ground) end() {
	for _, s := range g.slots {
		s.c.ended.Store(true)
		s.c.resume()
		if g.t.Failed() {
			s.c.kill()
			continue
		}
		s.c.end()
		s.c.checkLog()
	}
	// One that has no thread left from its start on may well end.
	if log, err := os.ReadFile(filepath.Join(g.state(), "supervisor.log")); err == nil &&
		bytes.Contains(log, []byte("DATA RACE")) {
		g.t.Errorf("supervisors:\n%s", log)
	}
	checkIntegrity(g.t, g.state())
}

// patientCall is call for an answer that may be an error, and lets one that does not come say where it hangs.
func (c *groundClient) patientCall(method string, params any) answer {
	c.t.Helper()
	got := c.ask(method, params)
	select {
	case a := <-got:
		return a
	case <-c.gone:
		c.t.Fatalf("%s: the process is gone\nstderr:\n%s", method, &c.log)
	case <-time.After(c.patience):
		c.ended.Store(true)
		c.t.Errorf("%s %v: no answer in slot %d", method, params, c.slot.number)
		c.abort()
		c.t.FailNow()
	}
	return answer{}
}

// toldEnd is the end of a task as a notification told it.
func (c *groundClient) toldEnd(id string) (mcp.Task, bool) {
	c.witness.mu.Lock()
	defer c.witness.mu.Unlock()
	end, told := c.statuses[id]
	return end, told
}

// carried is what partials carried of a task; whole if its end was told behind them.
func (c *groundClient) carried(id string) (text string, whole bool) {
	_, whole = c.toldEnd(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.text[id]; b != nil {
		text = b.String()
	}
	return text, whole
}
