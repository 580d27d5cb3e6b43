package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"runnel/tasks"
)

// A client that watches a fleet goes on after an election, and is told nothing twice.
func TestWriteChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		says := []any{"a\n", "a\n", tasks.ErrBusy, "b\n", gone}
		var out strings.Builder
		err := writeChanges(t.Context(), &out, func(context.Context) (string, error) {
			next := says[0]
			says = says[1:]
			if err, ok := next.(error); ok {
				return "", err
			}
			return next.(string), nil
		})
		if out.String() != "a\nb\n" || !errors.Is(err, gone) {
			t.Errorf("%q, %v", &out, err)
		}
	})
}
