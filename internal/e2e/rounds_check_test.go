//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"runnel/rpc/mcp"
)

// calm lets everything end, and holds what is left against what must hold always.
func (f *fleet) calm(rounds int) {
	began := time.Now()
	f.within("every request is answered", func() string {
		for _, s := range f.slots {
			s.c.take()
			f.lives(s)
			if len(s.c.open) > 0 {
				return fmt.Sprintf("slot %d: %s of %v ago", s.number, s.c.open[0].what,
					time.Since(s.c.open[0].since))
			}
		}
		return ""
	})
	f.within("every task has ended", func() string {
		for _, s := range f.slots {
			for _, task := range f.list(s) {
				if !task.Status.Terminal() {
					return fmt.Sprintf("slot %d: %s is %s: %s", s.number, task.TaskID, task.Status,
						task.StatusMessage)
				}
			}
		}
		return ""
	})
	runs := f.readRuns()
	for _, k := range f.tasks {
		if f.check(k, runs[k.number]); f.t.Failed() {
			return
		}
	}
	f.checkLists()
	f.checkProcesses(slices.Concat(f.slots, f.workers))
	for _, s := range f.slots {
		s.c.checkLog()
		if n, id := s.c.audit.unanswered(); n > 0 {
			f.t.Errorf("slot %d: %d requests were not answered, one has id %s", s.number, n, id)
		}
	}
	f.t.Logf("round %d after %v: %d tasks, %v until calm", rounds, time.Since(f.began).Round(time.Second),
		f.made, time.Since(began).Round(time.Second))
	f.tasks = nil
}

// runOf is what the commands of one call have written.
type runOf struct{ begun, ended, overlapped, pid int } // pid: of the last one

func (f *fleet) readRuns() map[int]runOf {
	text, err := os.ReadFile(f.runs)
	if err != nil {
		f.t.Error(err)
	}
	all := map[int]runOf{}
	for line := range strings.Lines(string(text)) {
		var what string
		var n, pid int
		if _, err := fmt.Sscanf(line, "%s %d %d\n", &what, &n, &pid); err != nil {
			f.t.Errorf("%v: %q", err, line)
		}
		r := all[n]
		switch what {
		case "begin":
			r.begun, r.pid = r.begun+1, pid
		case "end":
			r.ended++
		case "overlap":
			r.overlapped++
		}
		all[n] = r
	}
	return all
}

// check holds a task against what its client was told and what its commands have written, at each front.
func (f *fleet) check(k *groundTask, run runOf) {
	if run.overlapped > 0 {
		f.t.Errorf("%v: two workers ran it at the same time: %+v", k, run)
	}
	if k.tool == "once" && run.begun > 1 {
		f.t.Errorf("%v: it has no retry, and was begun %d times", k, run.begun)
	}
	if !k.known() {
		return
	}
	if end, told := k.client.toldEnd(k.id); told {
		k.saw(k.client, end, "a notification")
	}
	for _, s := range f.slots {
		var task mcp.Task
		a := s.c.patientCall("tasks/get", map[string]any{"taskId": k.id})
		if a.Error != nil {
			s.c.lost(k, "tasks/get", a)
			f.t.Errorf("%v: tasks/get in slot %d: %s", k, s.number, a.Error.Message)
			continue
		}
		if err := json.Unmarshal(a.Result, &task); err != nil {
			f.t.Errorf("%v: %v", k, err)
			continue
		}
		k.saw(s.c, task, "tasks/get")
		f.checkEnd(k, task, run)
		f.checkOutput(k, s, task)
	}
	f.ended[string(k.status)]++
}

// checkEnd holds that a task has failed only for a reason.
func (f *fleet) checkEnd(k *groundTask, task mcp.Task, run runOf) {
	gone := strings.Contains(task.StatusMessage, "(killed, or it crashed)")
	switch {
	case k == f.spared && run.begun < 3:
		f.t.Errorf("%v: its worker was killed twice, and it was begun %d times", k, run.begun)
	case task.Status == mcp.TaskCompleted && run.ended == 0:
		f.t.Errorf("%v has completed, and its command has not ended: %+v", k, run)
	case task.Status == mcp.TaskCompleted, task.Status == mcp.TaskCancelled && k.cancelled:
	case gone && strings.HasPrefix(task.StatusMessage, "the runnel ") &&
		f.killedSince(k, "front killed") > 0 && run.begun == 0:
	case gone && k.tool == "once" && f.killedSince(k, "worker killed") > 0:
	// On a busy machine an election takes longer than runnel waits for a place to put the call.
	case strings.Contains(task.StatusMessage, " cannot be run by a worker: no server of ") && run.begun == 0 &&
		f.killedSince(k, "leader killed")+f.killedSince(k, "node cut off") > 0:
	default:
		f.t.Errorf("%v: %s %q, and nothing has happened to who ran it; %+v", k, task.Status,
			task.StatusMessage, run)
	}
}

var attemptLine = regexp.MustCompile(`(?m)^\[attempt (\d+) on .*\]\n`)

// checkOutput holds that a log has what each attempt wrote, from its first line without a gap, and what the
// client of the task was sent, and nothing else.
func (f *fleet) checkOutput(k *groundTask, s *slot, task mcp.Task) {
	output := s.c.output(k.id)
	cut := k.status == mcp.TaskCancelled // its partials stop at once
	if carried, whole := k.client.carried(k.id); !strings.HasPrefix(output, carried) &&
		(!cut || !strings.HasPrefix(carried, output)) || whole && !cut && carried != output {
		f.t.Errorf("%v: partials of %d bytes (all of them: %t), the log has %d:\n%.300q\n%.300q", k,
			len(carried), whole, len(output), carried, output)
	}
	attempts := attemptLine.Split(output, -1)
	for i, text := range attempts {
		lines := 0
		for line := range strings.Lines(text) {
			if want := fmt.Sprintf("chunk %06d\n", lines); line != want &&
				(line == "" || !strings.HasPrefix(want, line) ||
					i == len(attempts)-1 && task.Status == mcp.TaskCompleted) {
				f.t.Errorf("%v: line %d of attempt %d is %q\n%s", k, lines, i+1, line,
					clipLine([]byte(output)))
				return
			}
			lines++
		}
		if i == len(attempts)-1 && task.Status == mcp.TaskCompleted && lines != k.chunks || lines > k.chunks {
			f.t.Errorf("%v: %s, attempt %d has %d chunks of %d", k, task.Status, i+1, lines, k.chunks)
		}
	}
}
