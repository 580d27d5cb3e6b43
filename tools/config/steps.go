package config

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
)

// Step is an element of "steps:" of a tool: a task of another tool, or a question to a person.
type Step struct {
	ID string `yaml:"id"` // by which others name it

	Tool    string   `yaml:"tool"`
	With    Object   `yaml:"with" json:",omitempty"` // the arguments, with placeholders in their texts
	Foreach string   `yaml:"foreach"`                // a placeholder: the tool runs for each item, as {{item}}
	Retry   *Retry   `yaml:"retry" json:",omitempty"`
	Timeout Duration `yaml:"timeout"` // of each task; 0 = none

	Ask string `yaml:"ask"` // instead of a tool: a question, with placeholders

	Needs []string `yaml:"needs"` // the steps that must end before; those that placeholders name need not be listed
	When  string   `yaml:"when"`  // with placeholders; the step is skipped if it is "", false, no or 0
	// A failure of the step does not keep others from running, nor fail the call.
	ContinueOnError bool `yaml:"continueOnError"`
}

// limitSteps is more than anybody reads.
const limitSteps = 100

// stepPlaceholder matches {{name}} and {{steps.ID.field}}.
var stepPlaceholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*)\s*\}\}`)
})

// StepPlaceholder is Placeholder for the texts of steps, where names have dots.
func StepPlaceholder() *regexp.Regexp { return stepPlaceholder() }

var stepID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`) })

// CheckSteps returns a mistake in the steps of a tool, except in their placeholders. need returns the steps
// that those of a step name.
func CheckSteps(steps []Step, need func(s *Step) []string) *Error {
	if len(steps) > limitSteps {
		return &Error{Key: "steps", Problem: fmt.Sprintf("has %d elements", len(steps)),
			Allowed: fmt.Sprintf("at most %d", limitSteps)}
	}
	at := map[string]int{}
	for i := range steps {
		s := &steps[i]
		key := func(name string) string { return fmt.Sprintf("steps[%d].%s", i, name) }
		if !stepID().MatchString(s.ID) {
			return &Error{Key: key("id"), Problem: fmt.Sprintf("%q is not a name for a step", s.ID),
				Allowed: "a letter, then up to 63 letters, digits, - and _"}
		}
		if other, taken := at[s.ID]; taken {
			return &Error{Key: key("id"), Allowed: "a name of its own",
				Problem: fmt.Sprintf("%q is the name of steps[%d], too", s.ID, other)}
		}
		at[s.ID] = i
		if (s.Tool == "") == (s.Ask == "") {
			return &Error{Key: fmt.Sprintf("steps[%d]", i),
				Problem: "names nothing to do, or both a tool and a question", Allowed: "tool or ask"}
		}
		if s.Ask != "" {
			for name, set := range map[string]bool{"with": len(s.With) > 0, "foreach": s.Foreach != "",
				"retry": s.Retry != nil, "timeout": s.Timeout != 0} {
				if set {
					return &Error{Key: key(name), Problem: "is impossible with ask",
						Allowed: "a step with a tool"}
				}
			}
		}
		if s.Timeout < 0 {
			return &Error{Key: key("timeout"), Problem: s.Timeout.String() + " is negative",
				Allowed: "0 or more"}
		}
		if s.Retry != nil {
			if wrong := s.Retry.complete(); wrong != nil {
				return &Error{Key: Join(key("retry"), wrong.Key), Problem: wrong.Problem,
					Allowed: wrong.Allowed}
			}
		}
	}
	return checkNeeds(steps, at, need)
}

// checkNeeds returns an error if a step needs one that is not there, or itself through others.
func checkNeeds(steps []Step, at map[string]int, need func(s *Step) []string) *Error {
	for i := range steps {
		for n, name := range steps[i].Needs {
			if _, ok := at[name]; !ok {
				return &Error{Key: fmt.Sprintf("steps[%d].needs[%d]", i, n),
					Problem: fmt.Sprintf("%q is not a step", name), Allowed: "the id of another step"}
			}
		}
	}
	var path []string
	done := map[string]bool{}
	var visit func(i int) *Error
	visit = func(i int) *Error {
		s := &steps[i]
		if slices.Contains(path, s.ID) {
			return &Error{Key: fmt.Sprintf("steps[%d].needs", i),
				Problem: fmt.Sprintf("step %s needs itself, through %v", s.ID,
					path[slices.Index(path, s.ID):]),
				Allowed: "needs without a circle"}
		}
		if done[s.ID] {
			return nil
		}
		path = append(path, s.ID)
		for _, name := range need(s) {
			if wrong := visit(at[name]); wrong != nil {
				return wrong
			}
		}
		path, done[s.ID] = path[:len(path)-1], true
		return nil
	}
	for i := range steps {
		if wrong := visit(i); wrong != nil {
			return wrong
		}
	}
	return nil
}
