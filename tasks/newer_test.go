package tasks

import (
	"context"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// extents is stored output.
type extents []partials.Extent

func (extents) Due(bool) {}

func (e extents) Load(context.Context, int64, int) ([]partials.Extent, error) { return e, nil }

// A follower gets the numbers of segments that are stored a moment later than their output, also if no more
// output comes.
func TestNumbersComeLater(t *testing.T) {
	keeper := partials.NewLog(nil)
	keeper.Back(extents(nil))
	if err := keeper.Append(t.Context(), partials.Chunk{Data: []byte("line\n")}); err != nil {
		t.Fatal(err)
	}
	stored, _ := keeper.Unsaved(100)
	task := Task{Status: mcp.TaskWorking, TTL: time.Hour, Merge: true,
		Log: partials.Stored(extents{stored}, 0)}
	task.Log.Follow()
	task.Segments = partials.NewSegments(task.Log)
	task.Segments.Follow()
	now := Newer{Task: task, End: 5, Output: extents{stored}}
	for looks, want := range [][]int64{nil, {5}, nil} {
		now.Ends = func(context.Context, int, int64) ([]int64, error) { return want, nil }
		changed, err := task.Update(t.Context(), now)
		if err != nil || changed != (looks < 2) {
			t.Errorf("look %d: changed: %t, %v", looks, changed, err)
		}
	}
	if n, end := task.Segments.Numbered(); n != 1 || end != 5 {
		t.Errorf("%d numbers, up to %d", n, end)
	}
}
