package text

import (
	"fmt"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"timeout", "idleTimeout", "task", "title", "maxOutput", "maxResult"}
	for _, c := range []struct{ name, want string }{
		{"timout", "timeout"}, {"Timeout", "timeout"}, {"tiemout", "timeout"}, {"tasks", "task"},
		{"max", "maxOutput maxResult"}, {"image", ""}, {"maxoutput", "maxOutput"},
	} {
		if got := fmt.Sprint(Nearest(c.name, names)); got != "["+c.want+"]" {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
