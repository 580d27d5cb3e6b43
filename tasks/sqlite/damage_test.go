package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// Rows that runnel has not written so fail their task, with what is wrong, or count as output that is no
// longer kept. Nothing loops, nothing that is not JSON comes out, doctor finds it, and other tasks are as
// they were.
func TestSQLiteDamagedRows(t *testing.T) {
	t.Parallel()
	const mine = " WHERE task = (SELECT number FROM task WHERE id = 'hurt')"
	for name, c := range map[string]struct {
		damage string
		fails  bool // the task, and not only a part of its output
	}{
		"no outcome":            {"UPDATE task SET outcome = NULL WHERE id = 'hurt'", true},
		"an empty outcome":      {"UPDATE task SET outcome = x'' WHERE id = 'hurt'", true},
		"an outcome of nothing": {"UPDATE task SET outcome = CAST('{}' AS BLOB) WHERE id = 'hurt'", true},
		"half an outcome": {"UPDATE task SET outcome = substr(outcome, 1, 20) WHERE id = 'hurt'",
			true},
		"a bad byte in it":   {"UPDATE task SET outcome = CAST(replace(CAST(outcome AS TEXT), 'fine', 'f' || x'ff' || 'ne') AS BLOB) WHERE id = 'hurt'", true},
		"a line's end in it": {"UPDATE task SET outcome = CAST(replace(CAST(outcome AS TEXT), ':', x'0a' || ':') AS BLOB) WHERE id = 'hurt'", true},
		"works without a keeper": {"UPDATE task SET status = 'working', outcome = NULL WHERE id = 'hurt'",
			true},
		"works with an empty one": {"UPDATE task SET status = 'working', outcome = NULL, keeper = '' WHERE id = 'hurt'", true},
		"a strange status":        {"UPDATE task SET status = 'wor' || char(10) WHERE id = 'hurt'", true},
		"a negative ttl":          {"UPDATE task SET ttl = -5 WHERE id = 'hurt'", true},
		"variables": {"UPDATE task SET variables = CAST('{\"a\":' AS BLOB) WHERE id = 'hurt'",
			true},
		"variables on two lines": {"UPDATE task SET variables = CAST('{\"a\":' || char(10) || '1}' AS BLOB) WHERE id = 'hurt'", true},
		"numbers of segments":    {"UPDATE segment SET ends = x'0101'" + mine, true},
		"more numbers":           {"UPDATE segment SET first = 7" + mine, true},
		"numbers that end never": {"UPDATE segment SET ends = x'ffffffffffffffffffff'" + mine, true},
		"an overlong row":        {"UPDATE log SET stop = stop + 1000" + mine, false},
		"a short row":            {"UPDATE log SET stop = start + 1" + mine, false},
		"an endless row":         {"UPDATE log SET stop = 9223372036854775807" + mine, false},
		"a negative row":         {"UPDATE log SET start = -9223372036854775807, stop = -9223372036854775000" + mine, false},
		"a row that overlaps": {"INSERT INTO log SELECT task, start + 1, stop, marks, data FROM log" +
			mine, false},
		"a row within another": {"INSERT INTO log SELECT task, start + 1, start + 2, x'10', x'61' FROM log" +
			mine, false},
		"no data":     {"UPDATE log SET data = x''" + mine, false},
		"no marks":    {"UPDATE log SET marks = x''" + mine, false},
		"other marks": {"UPDATE log SET marks = x'ff'" + mine, false},
		"a bad byte in text": {"UPDATE log SET data = CAST(x'ff' || substr(data, 2) AS BLOB)" + mine,
			false},
		"an item that is none": {"UPDATE log SET data = CAST(replace(CAST(data AS TEXT), '{', 'x') AS BLOB)" +
			mine, false},
		"an item on two lines": {"UPDATE log SET data = CAST(replace(CAST(data AS TEXT), '\"type\":', '\"type\"' || char(10)) AS BLOB)" + mine, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			s := openStore(t, Options{})
			whole := statetest.Working("whole", "all of it\n")
			hurt := statetest.Working("hurt", "text\n")
			if err := hurt.Log.Append(ctx,
				partials.Chunk{Kind: partials.Item, Data: []byte(`{"type":"image"}`)}); err != nil {
				t.Fatal(err)
			}
			hurt.Merge = true
			statetest.Put(t, s, whole, hurt)
			statetest.Put(t, s, statetest.Ended(whole, mcp.TaskCompleted, "fine"),
				statetest.Ended(hurt, mcp.TaskCompleted, "fine"))
			if r, err := Check(ctx, s.Dir()); err != nil || r.Damage != nil || r.Unsound != nil {
				t.Fatalf("before: %+v, %v", r, err)
			}
			if _, err := s.db.w.db.Exec(c.damage); err != nil {
				t.Fatal(err)
			}
			r := statetest.NewRunner(t, run.Options{State: s})
			read := make(chan struct{})
			go func() {
				defer close(read)
				task, err := r.Await(ctx, "hurt")
				if err != nil {
					t.Errorf("await: %v", err)
					return
				}
				if failed := task.Status == mcp.TaskFailed; failed != c.fails {
					t.Errorf("it is %s: %s", task.Status, task.StatusMessage)
				}
				if c.fails && (task.Outcome == nil || task.Outcome.Err == nil ||
					!strings.Contains(task.Outcome.Err.Message, "damaged") ||
					!strings.Contains(task.StatusMessage, "damaged")) {
					t.Errorf("its end does not say so: %q, %+v", task.StatusMessage, task.Outcome)
				}
				if !c.fails {
					checkResult(t, &task)
				}
				if line, err := json.Marshal(task.Shown()); err != nil || !json.Valid(line) {
					t.Errorf("on the wire: %s, %v", line, err)
				}
				for pos := int64(0); pos < task.Log.Size(); {
					_, next, err := task.Log.ReadAt(ctx, pos, 1000)
					if err != nil || next <= pos {
						t.Errorf("reading at %d of %d comes to %d: %v", pos, task.Log.Size(), next, err)
						return
					}
					pos = next
				}
				page := statetest.Page(t, task.Segments, 0, 1<<20)
				if !page.Complete || !json.Valid(page.Content) ||
					strings.Contains(string(page.Content), "\n") {
					t.Errorf("its segments: %s, complete %v", page.Content, page.Complete)
				}
				if merged, _, err := task.Segments.Merged(1 << 20); err != nil || !json.Valid(merged) ||
					strings.Contains(string(merged), "\n") {
					t.Errorf("merged: %s", merged)
				}
				if run, release, err := r.Follow(ctx, "hurt"); err != nil || run != nil {
					t.Errorf("followed: %v", err)
				} else {
					release()
				}
				list, _, err := r.List(ctx, "", 10)
				if err != nil || len(list) != 2 {
					t.Errorf("listed: %v, %v", list, err)
				}
			}()
			select {
			case <-read:
			case <-time.After(time.Minute):
				t.Fatal("reading it does not end")
			}
			if task := statetest.Get(t, s, "whole"); task.Status != mcp.TaskCompleted ||
				statetest.ReadAll(t, task.Log) != "all of it\n" {
				t.Errorf("the other task: %s", task.Status)
			}
			if r, err := Check(ctx, s.Dir()); err != nil || len(r.Unsound) != 1 ||
				!strings.Contains(r.Unsound[0], "hurt") {
				t.Errorf("checked: %q, %v", r.Unsound, err)
			}
		})
	}
}

// checkResult fails the test if the task's result is none that can be sent.
func checkResult(t *testing.T, task *tasks.Task) {
	result, err := task.Result()
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(result)
	if err != nil || strings.Contains(string(line), "\n") {
		t.Errorf("its result: %s, %v", line, err)
	}
	if fmt.Sprint(task.Outcome.Err) != "<nil>" {
		t.Errorf("its result is an error: %v", task.Outcome.Err)
	}
}
