package steps

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/config/strict"
	"runnel/tools/inputs"
)

// Steps is a tool that runs steps.
type Steps struct {
	name   string
	config config.Command
	in     *inputs.Inputs
	steps  []step
	key    string
}

var _ tools.Resumable = (*Steps)(nil)

// step is a step whose texts are parsed.
type step struct {
	config.Step
	needs   []string // with those that placeholders name
	outputs []string // the steps whose output placeholders name
	ask     inputs.Template
	foreach inputs.Template
	when    condition
}

// All makes the tools of a config that have steps, sorted by name. known reports whether there may be a tool
// with a name. place keeps the calls of equal tools apart on a state: the directory of the config, "" if the
// tools are the same wherever they are. The error joins those of all tools, each with its place in the file.
func All(c *config.Config, known func(tool string) bool, place string) ([]*Steps, error) {
	var list []*Steps
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if len(c.Tools[name].Steps) == 0 {
			continue
		}
		s, err := newSteps(c, name, known, place)
		if err != nil {
			errs = append(errs, c.Locate(config.Join("tools", name), err))
			continue
		}
		list = append(list, s)
	}
	return list, config.JoinErrors(errs)
}

// keys are those of a tool that are possible with steps.
var keys = []string{"title", "description", "annotations", "_meta", "input", "required", "steps", "task",
	"runs", "queueTimeout", "priority", "maxResult", "notify", "every"}

func newSteps(c *config.Config, name string, known func(string) bool, place string) (*Steps, error) {
	conf := c.Tools[name]
	all, _ := strict.Keys(reflect.TypeFor[config.Command]())
	for _, key := range all {
		if !slices.Contains(keys, key) && c.Given(config.Join(config.Join("tools", name), key)) {
			return nil, &config.Error{Key: key, Problem: "is impossible with steps",
				Allowed: strings.Join(keys, ", ")}
		}
	}
	if tools.CheckName(name) != nil {
		return nil, &config.Error{Problem: fmt.Sprintf("%q is not a name for a tool", name),
			Allowed: "1 to 128 letters, digits, _, - and ."}
	}
	s := &Steps{name: name, config: conf}
	var err error
	if s.in, err = inputs.Parse(conf.Input, conf.Required); err != nil {
		return nil, err
	}
	errs := []error{s.config.Complete()}
	if s.config.Task == mcp.TaskForbidden {
		errs = append(errs, &config.Error{Key: "task",
			Problem: "is impossible with steps, since a call of them is a task", Allowed: "optional"})
	}
	for i := range conf.Steps {
		made, err := s.parse(fmt.Sprintf("steps[%d]", i), conf.Steps[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if tool := made.Tool; tool != "" && !known(tool) {
			errs = append(errs, &config.Error{Key: fmt.Sprintf("steps[%d].tool", i),
				Problem: fmt.Sprintf("there is no tool %q", tool), Allowed: "the name of another tool"})
		}
		s.steps = append(s.steps, *made)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if wrong := config.CheckSteps(conf.Steps, func(of *config.Step) []string { return s.step(of.ID).needs }); wrong != nil {
		return nil, wrong
	}
	if path := circle(c, name); path != nil {
		return nil, &config.Error{Key: "steps", Allowed: "steps that end",
			Problem: "it runs itself, through " + strings.Join(path, ", ")}
	}
	about := []byte(place)
	if place == "" {
		about = rawjson.Encode(conf.Steps)
	}
	sum := sha256.Sum256(about)
	s.key = name + "@" + hex.EncodeToString(sum[:8])
	return s, nil
}

// circle returns the tools by whose steps a tool runs itself, nil if it does not.
func circle(c *config.Config, name string) []string {
	seen := map[string]bool{}
	var from func(tool string, path []string) []string
	from = func(tool string, path []string) []string {
		path = append(path, tool)
		for _, s := range c.Tools[tool].Steps {
			if s.Tool == name {
				return append(path, s.Tool)
			}
			if !seen[s.Tool] && len(c.Tools[s.Tool].Steps) > 0 {
				seen[s.Tool] = true
				if found := from(s.Tool, path); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return from(name, nil)
}

// step returns the step with an id.
func (s *Steps) step(id string) *step {
	i := slices.IndexFunc(s.steps, func(other step) bool { return other.ID == id })
	if i < 0 {
		return nil
	}
	return &s.steps[i]
}

// parse parses the texts of a step. key is its place in the config.
func (s *Steps) parse(key string, of config.Step) (*step, error) {
	made := &step{Step: of, needs: slices.Clone(of.Needs), when: parseCondition(of.When),
		ask: inputs.ParseStep(of.Ask), foreach: inputs.ParseStep(of.Foreach)}
	written := map[string][]string{"when": {of.When}, "ask": {of.Ask}, "foreach": {of.Foreach}}
	texts(of.With, func(text string) { written["with"] = append(written["with"], text) })
	for _, place := range slices.Sorted(maps.Keys(written)) {
		for _, text := range written[place] {
			inEach := place == "with" && of.Foreach != ""
			wrong := s.unclosed(text, inEach)
			for _, name := range inputs.ParseStep(text).Names {
				id, isStep, mistake := s.check(name, inEach)
				if wrong = cmp.Or(wrong, mistake); wrong != nil {
					break
				}
				if isStep && !slices.Contains(made.needs, id) {
					made.needs = append(made.needs, id)
				}
				if isStep && strings.HasSuffix(name, ".output") && !slices.Contains(made.outputs, id) {
					made.outputs = append(made.outputs, id)
				}
			}
			if wrong != nil {
				wrong.Key = config.Join(key, place)
				return nil, wrong
			}
		}
	}
	return made, nil
}

// opened matches the beginning of a placeholder.
var opened = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*(\}?)`)
})

// unclosed returns what is wrong with a text whose placeholder has no end. One that names nothing may be
// meant for another program.
func (s *Steps) unclosed(text string, inEach bool) *config.Error {
	for _, m := range opened().FindAllStringSubmatch(config.StepPlaceholder().ReplaceAllString(text, " "), -1) {
		if _, _, unknown := s.check(m[1], inEach); unknown == nil || m[2] != "" {
			return &config.Error{Problem: fmt.Sprintf("%q is not closed", m[0]), Allowed: "{{" + m[1] + "}}"}
		}
	}
	return nil
}

// fields are what a placeholder says of a step.
var fields = []string{"output", "answer", "exitCode", "status"}

// check returns the step that a placeholder names, or what is wrong with it. inEach: it may name the item of
// a foreach.
func (s *Steps) check(name string, inEach bool) (id string, isStep bool, wrong *config.Error) {
	parts := strings.Split(name, ".")
	switch {
	case name == "item" && inEach || len(parts) == 1 && slices.Contains(s.in.Names, name):
		return "", false, nil
	case len(parts) != 3 || parts[0] != "steps":
		return "", false, &config.Error{Problem: fmt.Sprintf("placeholder {{%s}} names no input", name),
			Allowed: s.in.Allowed() + ", or a step, as {{steps.ID.output}}"}
	case !slices.ContainsFunc(s.config.Steps, func(other config.Step) bool { return other.ID == parts[1] }):
		return "", false, &config.Error{Problem: fmt.Sprintf("placeholder {{%s}} names no step", name),
			Allowed: "the id of a step"}
	case !slices.Contains(fields, parts[2]):
		return "", false, &config.Error{Allowed: strings.Join(fields, ", "),
			Problem: fmt.Sprintf("placeholder {{%s}} names nothing of a step", name)}
	}
	return parts[1], true, nil
}

// Describe implements tools.Tool.
func (s *Steps) Describe() mcp.Tool {
	description := s.config.Description
	if description == "" {
		var names []string
		for i := range s.steps {
			names = append(names, s.steps[i].ID)
		}
		description = "runs the steps " + strings.Join(names, ", ")
	}
	return mcp.Tool{Name: s.name, Title: s.config.Title, Description: description, InputSchema: s.in.Schema,
		Annotations: s.config.Annotations, Meta: s.config.Meta,
		Execution: &mcp.ToolExecution{TaskSupport: s.config.Task, StreamPartial: true}}
}

// ResumeKey implements tools.Resumable.
func (s *Steps) ResumeKey() string { return s.key }

// Traits implements tools.Kind.
func (s *Steps) Traits() tools.Traits {
	return tools.Traits{Detached: s.config.Runs != "", Repeatable: true, Lasts: true}
}

// Replace implements tools.Kind: calls go on with the steps that they have begun with.
func (s *Steps) Replace(tools.Tool) {}

// CheckSchemas returns the mistakes in the JSON Schemas of the tools, each with its place in the config.
func CheckSchemas(c *config.Config, list []*Steps) error {
	var errs []error
	for _, s := range list {
		if err := s.in.CheckSchemas(nil); err != nil {
			errs = append(errs, c.Locate(config.Join("tools", s.name), err))
		}
	}
	return config.JoinErrors(errs)
}
