package tasks

import (
	"fmt"
	"strings"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// The result of a task that was cut off tells how much of its output it does not show.
func TestRemains(t *testing.T) {
	log := partials.NewLog(nil)
	line := strings.Repeat("x", 1023) + "\n"
	for range 200 {
		if err := log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := mcp.TextOf(LastOutput(t.Context(), log)[0])
	if want := fmt.Sprintf("[... %d bytes left out ...]\n", 200<<10-maxLastOutput) +
		strings.Repeat(line, maxLastOutput>>10); text != want {
		t.Errorf("%d bytes %.100q, want %d bytes %.100q", len(text), text, len(want), want)
	}
}
