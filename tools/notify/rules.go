package notify

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/rs/zerolog"

	httpclient "runnel/rpc/http/client"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/process"
)

// Rules say which tasks are reported to whom. A supervisor gets them as JSON, and calls Make. nil Rules
// report nothing.
type Rules struct {
	Dir   []byte                    // where commands run
	All   *config.Notify            // for tools that are not in Tools; nil = nothing is reported
	Tools map[string]*config.Notify // by name

	vars  []string
	all   *rule
	tools map[string]*rule
}

// rule is the rule of a tool. nil reports nothing.
type rule struct {
	after time.Duration
	on    []string // statuses, and config.OnMatch
	ways  []*way
}

// sender delivers notices: a desktop, a program or a webhook.
type sender interface {
	check() error // returns an error for what it lacks
	tell(ctx context.Context, n *notice) error
}

// way is one way to deliver notices, with those that wait for it.
type way struct {
	name string // for the log
	sender

	// Guarded by Notices.mu.
	waiting []*notice
	busy    bool // it has a goroutine
	failed  bool // the last notice failed, and the failure is logged
	loses   bool // a notice was lost since the queue was empty, and the loss is logged
}

// FromConfig makes the rules of a config, nil if it has none. vars are "NAME=value"; nil = runnel's own
// environment. A runnel that was started by a notice's command reports nothing, since that could repeat for
// ever.
func FromConfig(conf *config.Config, vars []string) (*Rules, error) {
	r := &Rules{Dir: []byte(conf.Dir()), All: conf.Notify, Tools: map[string]*config.Notify{}}
	for name, tool := range conf.Tools {
		if tool.Notify != nil {
			r.Tools[name] = tool.Notify
		}
	}
	if r.All == nil && len(r.Tools) == 0 {
		return nil, nil
	}
	err := r.Make(vars, conf.Locate)
	if _, inNotice := process.LookupEnv(r.vars, statusVariable); inNotice && err == nil {
		return nil, nil
	}
	return r, err
}

// Make makes the rules from the fields. located adds the place to an error about the value at a path.
func (r *Rules) Make(vars []string, located func(path string, err error) error) error {
	if r.vars = vars; vars == nil {
		r.vars = os.Environ()
	}
	var errs []error
	add := func(path string, conf *config.Notify) *rule {
		made, err := r.rule(conf)
		if err != nil {
			errs = append(errs, located(path, err))
		}
		return made
	}
	r.all, r.tools = add("notify", r.All), map[string]*rule{}
	for _, name := range slices.Sorted(maps.Keys(r.Tools)) {
		r.tools[name] = add(config.Join(config.Join("tools", name), "notify"), r.Tools[name])
	}
	return config.JoinErrors(errs)
}

// of returns the rule of a tool.
func (r *Rules) of(tool string) *rule {
	if r == nil {
		return nil
	}
	if own, ok := r.tools[tool]; ok {
		return own
	}
	return r.all
}

func (r *Rules) rule(conf *config.Notify) (*rule, error) {
	if conf == nil {
		return nil, nil
	}
	conf = new(*conf)
	if err := conf.Complete(); err != nil || conf.Never {
		return nil, err
	}
	made := &rule{after: time.Duration(*conf.After), on: conf.On}
	add := func(name string, s sender) { made.ways = append(made.ways, &way{name: name, sender: s}) }
	if *conf.Desktop {
		add("desktop", &desktop{program{argv: desktopFor(runtime.GOOS), vars: withBus(r.vars), dir: r.dir()}})
	}
	if len(conf.Command) > 0 {
		add("command", &program{argv: func(*notice) ([]string, map[string]string) {
			return conf.Command,
				nil
		}, vars: r.vars, dir: r.dir()})
	}
	if conf.URL != "" {
		variable := func(name string) string { value, _ := process.LookupEnv(r.vars, name); return value }
		to, err := httpclient.NewOptions(conf.URL, conf.Headers, variable, zerolog.Nop())
		if err != nil && !errors.Is(err, httpclient.ErrNotSet) {
			return nil, &config.Error{Problem: err.Error(),
				Allowed: "url: https://HOST/PATH, headers: {NAME: VALUE}"}
		}
		add("url", &webhook{to: to, wrong: err})
	}
	return made, nil
}

// wants reports whether the end of a task is to be reported, or of one that goes on, what it has found.
func (r *rule) wants(t *tasks.Task) bool {
	if r != nil && !t.Status.Terminal() {
		return slices.Contains(r.on, config.OnMatch)
	}
	return r != nil && t.UpdatedAt.Sub(t.CreatedAt) >= r.after && slices.Contains(r.on, string(t.Status))
}

// Check returns an error for what the ways lack, such as a program.
func (r *Rules) Check() error {
	var errs []error
	check := func(of *rule) {
		if of != nil {
			for _, w := range of.ways {
				errs = append(errs, w.check())
			}
		}
	}
	check(r.all)
	for _, name := range slices.Sorted(maps.Keys(r.tools)) {
		check(r.tools[name])
	}
	return errors.Join(errs...)
}

// dir returns the directory in which commands run.
func (r *Rules) dir() string {
	dir, err := filepath.Abs(string(r.Dir))
	if err != nil {
		return string(r.Dir)
	}
	return dir
}
