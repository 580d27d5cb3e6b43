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

// Names of runnel's own are set by runnel alone.
func TestNotesAreRunnelsOwn(t *testing.T) {
	for patch, ok := range map[string]bool{
		`{"runnel/answer/question-1":{"result":{"action":"accept"}}}`:     false,
		`{"a":1,"\u0072unnel/progress":{}}`:                               false,
		`{"a":"\"runnel/progress\""}`:                                     true,
		`{"runnel":1}`:                                                    true,
		`{"a":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`: false,
	} {
		if err := tasks.CheckVariables(json.RawMessage(patch)); (err == nil) != ok {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if got := tasks.OwnVariables(json.RawMessage(`{"a":"\"runnel/progress\"","runnel/progress":{}}`)); string(got) != `{"a":"\"runnel/progress\""}` {
		t.Errorf("%s", got)
	}
}

// Notes that are only shown make room for the variables of people, which may take all of it.
func TestNotesMakeRoom(t *testing.T) {
	const limit = 1 << 20
	text := strings.Repeat(`,"`+strings.Repeat("x", 1<<15)+`"`, 31)
	full := fmt.Appendf(nil, `{"a":[%s]}`, text[1:])
	noted, err := tasks.MergeVariables(full, []byte(`{"runnel/times":[1,2],"runnel/progress":{"done":1}}`))
	if err != nil || len(noted) <= len(full) {
		t.Fatalf("with notes: %d bytes: %v", len(noted), err)
	}
	rest := fmt.Sprintf(`{"b":"%s"}`, strings.Repeat("y", limit-len(full)-len(`,"b":""`)))
	if merged, err := tasks.MergeVariables(noted, []byte(rest)); err != nil || len(merged) != limit {
		t.Fatalf("%d bytes of %d: %v", len(merged), limit, err)
	}
}
