package tracker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// Whatever is dropped, repeated and reordered of SEP-2679: where the log can be read the content is exact and
// without a gap, where it cannot, what is missing is reported, and nothing is made up.
func TestRangeIsExactOrReported(t *testing.T) {
	const sent = 60
	chunks := make([]string, sent)
	for n := range chunks {
		chunks[n] = strings.Repeat(fmt.Sprintf("<é%d>", n), 1+n%7)
	}
	whole := strings.Join(chunks, "")
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var got strings.Builder
		var asked []int64
		gaps := 0
		tr := New(Options{
			Window: 1 + r.IntN(5),
			Content: func(items []json.RawMessage, _ bool) {
				for _, item := range items {
					text, _ := mcp.TextOf(item)
					got.WriteString(text)
				}
			},
			Gap:     func(Gap) { gaps++ },
			Missing: func() {},
		})
		ask := func() {
			if len(asked) > 0 { // its answer comes first
				return
			}
			if w, ok := tr.Wanted(false, -1); ok {
				asked = append(asked, w.After)
			}
		}
		tr.Handle("x")
		written, dead := 0, r.IntN(3) == 0
		answer := func() {
			after := asked[0]
			asked = asked[1:]
			defer ask()
			log := strings.Join(chunks[:written], "")
			text := log[after:]
			switch {
			case dead && r.IntN(2) == 0:
				tr.FetchedRange("", 0, errors.New("not found"))
				return
			case dead: // what is not the output is not taken for it
				tr.FetchedRange("[5 bytes of output are no longer kept]\n"+text, after+int64(len(text)), nil)
				return
			}
			// Pages end between characters.
			if page := 40; len(text) > page && after+int64(page) > int64(got.Len()) {
				for text[page]&0xc0 == 0x80 {
					page++
				}
				if r.IntN(2) == 0 {
					text = text[:page]
				}
			}
			tr.FetchedRange(text, after+int64(len(text)), nil)
		}
		was := map[int]bool{}
		send := func(n int) {
			was[n] = true
			tr.Notification("notifications/tasks/partial",
				fmt.Appendf(nil, `{"taskId":"x","seq":%d,"content":[{"type":"text","text":%q}]}`, n,
					chunks[n]))
			ask()
		}
		for n := 0; n < sent; n++ {
			written = max(written, n+1)
			switch r.IntN(12) {
			case 0:
				if n == sent-1 { // that the last ones did not come only the result tells
					send(n)
				}
			case 1:
				for last := min(n+r.IntN(6), sent-1); last >= n; last-- {
					written = max(written, last+1)
					send(last)
				}
			default:
				send(n)
			}
			for len(asked) > 0 && r.IntN(3) == 0 {
				answer()
			}
		}
		tr.Status(mcp.TaskCompleted, "")
		ask()
		quits := r.IntN(4) == 0 // what was asked for last comes too late
		for tr.ranged.active() && len(asked) > 0 && !quits {
			answer()
		}
		tr.Flush()
		missing := len(was) < sent
		exact := got.String() == whole
		if !exact && (gaps == 0 || !dead && !quits) || missing && dead && gaps == 0 ||
			exact && gaps > 0 && !dead && !quits {
			t.Fatalf("seed %d: dead %t, quits %t, missing %t, %d gaps\ngot  %q\nwant %q", seed, dead, quits,
				missing, gaps, got.String(), whole)
		}
		for len(asked) > 0 { // what comes too late is not handed out
			was := got.Len()
			if answer(); got.Len() > was {
				t.Fatalf("seed %d: %q came after the end", seed, got.String()[was:])
			}
		}
		// In order, and only what was written.
		rest := whole
		for _, piece := range strings.SplitAfter(got.String(), ">") {
			_, after, ok := strings.Cut(rest, piece)
			if !ok {
				t.Fatalf("seed %d: %q is not what was written", seed, got.String())
			}
			rest = after
		}
	}
}
