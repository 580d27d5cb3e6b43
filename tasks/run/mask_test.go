package run_test

import (
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks/run"
	"runnel/tools/secrets"
)

// A secret that is divided between neighbouring texts is masked, as it is in the stream, where they follow
// each other.
func TestSecretInNeighbouringTexts(t *testing.T) {
	s, err := secrets.New([]string{"correct-horse"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	image := mcp.Image([]byte("png"), "image/png")
	text := func(list ...string) (items []mcp.ContentBlock) {
		for _, s := range list {
			items = append(items, mcp.Text(s))
		}
		return items
	}
	for name, c := range map[string]struct{ in, want []mcp.ContentBlock }{
		"two":   {text("it is correct-", "horse, yes"), text("it is ***, yes")},
		"three": {text("cor", "rect-", "horse"), text("***")},
		"one":   {text("it is correct-horse", "yes"), text("it is ***", "yes")},
		"none":  {text("a", "b"), text("a", "b")},
		"apart": {append(append(text("correct-"), image), text("horse")...),
			append(append(text("correct-"), image), text("horse")...)},
		"some items": {append(append(text("a", "b"), image), text("correct-", "horse")...),
			append(append(text("a", "b"), image), text("***")...)},
	} {
		for range 2 {
			got := run.MaskContent(s, c.in)
			if len(got) != len(c.want) {
				t.Fatalf("%s: %s", name, got)
			}
			for i := range got {
				if string(got[i]) != string(c.want[i]) {
					t.Errorf("%s: item %d is %s, want %s", name, i, got[i], c.want[i])
				}
			}
		}
	}
}
