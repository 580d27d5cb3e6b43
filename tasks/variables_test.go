package tasks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"runnel/tasks"
)

// The cost of a patch grows with its length, not with its square: the whole patch was checked again for each
// name, for minutes with this one.
func TestVariablesOfManyNames(t *testing.T) {
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, `,"name%d":1`, i)
	}
	patch := json.RawMessage("{" + b.String()[1:] + "}")
	for range 2 {
		if err := tasks.CheckVariables(patch); err != nil {
			t.Fatal(err)
		}
		merged, err := tasks.MergeVariables(patch, json.RawMessage(`{"name1":null,"other":2}`))
		if err != nil || len(merged) < len(patch)/2 {
			t.Fatal(len(merged), err)
		}
		reserved := append(patch[:len(patch)-1:len(patch)-1], `,"runnel/x":1}`...)
		if err := tasks.CheckVariables(reserved); err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Error(err)
		}
	}
}
