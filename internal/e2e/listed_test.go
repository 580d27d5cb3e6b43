package e2e

import (
	"strings"
	"testing"
)

// After a kill -9 the list of the next session says why the tasks of the one before have failed. It shows ten
// of them, and how to see the others.
func TestListSaysWhyTasksFailed(t *testing.T) {
	t.Parallel()
	serve := append(writeConfig(t, `tools: {long: {shell: "echo first; sleep 600"}}`),
		"--state", t.TempDir())
	for range 2 {
		w := startWitness(&witness{t: t, patience: watchdog, plain: true}, programCommand(t, serve...))
		for range 6 {
			w.texts("start_task", map[string]any{"tool": "long", "until": "first"})
		}
		w.kill()
	}
	w := startWitness(&witness{t: t, patience: watchdog, plain: true}, programCommand(t, serve...))
	for range 2 {
		said, r := w.texts("list_tasks", nil)
		if r.IsError || strings.Count(said, "the runnel that ran this task is gone (killed, or it crashed)") != 10 ||
			!strings.Contains(said, " ago: first\n") || !strings.Contains(said, "\n[older ones: call list_tasks ") {
			t.Errorf("the list says %s", said)
		}
	}
	w.end()
}
