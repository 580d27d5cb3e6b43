package logs

import (
	"fmt"
	"testing"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tasks/statetest"
)

// What does a page of the log of a task that has ended cost?
func BenchmarkStoredPage(b *testing.B) {
	s := sqlite.New(sqlite.Options{Dir: b.TempDir(), Log: zerolog.Nop()})
	defer s.Close()
	task := statetest.Logged("task")
	statetest.Put(b, s, task)
	for i := range 40_000 {
		if err := task.Log.Append(b.Context(), partials.Chunk{Data: fmt.Appendf(nil, "line %06d of a build that \"says\" a lot\n", i)}); err != nil {
			b.Fatal(err)
		}
	}
	statetest.Put(b, s, statetest.Ended(task, mcp.TaskCompleted, "fine"))
	r := tasks.NewRunner(tasks.Options{State: s, Log: zerolog.Nop()})
	defer r.Close()
	srv := &server{runner: r}
	params := rawjson.Encode(mcp.ResourceParams{URI: tasks.LogURI("task") + "?after=600000"})
	b.SetBytes(mcp.MaxPage)
	b.ReportAllocs()
	for b.Loop() {
		page, final, err := srv.read(b.Context(), &rpc.Caller{Version: &mcp.Version{}}, params)
		if err != nil || !final || len(page) < mcp.MaxPage/2 {
			b.Fatal(len(page), final, err)
		}
	}
}
