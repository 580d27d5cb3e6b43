package serve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"runnel/internal/selftest"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/command"
	"runnel/tools/config"
	"runnel/tools/every"
	"runnel/tools/model"
	"runnel/tools/notify"
	"runnel/tools/secrets"
	"runnel/tools/steps"
	"runnel/tools/upstream"
)

// Registry makes the set of the tools of the config, of --tool and of --selftest, and of the upstreams; count
// is the number of tools alone. The error reports everything that is wrong with the config.
func (s *Setup) Registry(conf *config.Config) (set *upstream.Set, count int, err error) {
	return s.registry(conf, true)
}

// startDelay is how long a starting server delays work that can wait: its first answers come first.
const startDelay = time.Second

// registry is Registry. Unless whole, it only logs what is wrong with the schemas of tools, after startDelay.
func (s *Setup) registry(conf *config.Config, whole bool) (set *upstream.Set, count int, err error) {
	set = upstream.NewSet(&tools.Registry{})
	sources := map[string]string{} // the origin of each tool
	var errs []error
	add := func(tool tools.Tool, from string) {
		name := tool.Describe().Name
		if other, taken := sources[name]; taken {
			errs = append(errs, fmt.Errorf("%s: tool %q is named twice, first by %s", from, name, other))
			return
		}
		sources[name] = from
		if name == s.Detach {
			errs = append(errs, detachTool(tool, conf))
		}
		if err := set.Tools.Add(tool); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", from, err))
		}
	}
	commands, err := command.All(conf, s.Env)
	models, unasked := model.All(conf, s.Env)
	upstreams, wrong := upstream.Servers(conf, s.ServersBase(conf), s.Logger())
	made, misstepped := steps.All(conf, s.mayHave(conf), s.placeOfTools(conf))
	hidden, mistaken := s.Secrets(conf)
	told, unclear := notify.FromConfig(conf, s.Env)
	errs = append(errs, conf.Check(), err, unasked, misstepped, wrong, mistaken, unclear)
	if whole {
		errs = append(errs, command.CheckSchemas(conf, commands), model.CheckSchemas(conf, models),
			steps.CheckSchemas(conf, made))
	} else {
		log := s.Logger()
		time.AfterFunc(startDelay, func() {
			if err := errors.Join(command.CheckSchemas(conf, commands), model.CheckSchemas(conf, models),
				steps.CheckSchemas(conf, made)); err != nil {
				log.Error().Err(err).Msg("calls of a tool will fail")
			}
		})
	}
	var specs []mcp.Tool
	addOwn := func(tool tools.Tool) {
		spec := tool.Describe()
		specs = append(specs, spec)
		add(tool, cmp.Or(conf.Origin("tools."+spec.Name), "--set"))
	}
	for _, c := range commands {
		addOwn(c)
	}
	for _, m := range models {
		addOwn(m)
	}
	for _, tool := range made {
		addOwn(tool)
	}
	byClock, mistimed := every.All(conf, specs, s.placeOfTools(conf))
	errs = append(errs, mistimed)
	for _, spec := range s.Options.Tools {
		c, err := command.FromLine(spec,
			config.Base{Vars: s.Env, MaxResult: conf.MaxResult(), Sandbox: conf.Sandbox})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Options.From["tool"], err))
			continue
		}
		add(c, s.Options.From["tool"])
	}
	if conf.Selftest {
		for _, tool := range selftest.Tools() {
			add(tool, conf.Origin("selftest"))
		}
	}
	if s.NoUpstreams {
		upstreams = nil
	}
	if s.Wrapped != nil {
		u, err := upstream.New(upstream.WrappedName, *s.Wrapped, s.ServersBase(conf), s.Logger())
		if err != nil {
			errs = append(errs, err)
		} else {
			upstreams = append(upstreams, u)
		}
	}
	s.Tools = len(sources)
	s.Upstreams, s.Classes = len(upstreams), len(conf.Fleet.Classes)
	for _, u := range upstreams {
		errs = append(errs, set.Add(u))
	}
	set.Only = s.Only
	if err := errors.Join(errs...); err != nil {
		return set, 0, &UsageError{Err: err}
	}
	if s.scheduler != nil {
		s.scheduler.Replace(byClock)
	}
	if s.secrets != nil {
		s.secrets.Replace(hidden)
		s.Notices.Replace(told)
	}
	return set, len(sources), nil
}

// mayHave returns a function that reports whether a tool may be here: those of other servers and of workers
// are not known yet.
func (s *Setup) mayHave(conf *config.Config) func(tool string) bool {
	return func(tool string) bool {
		if _, ok := conf.Tools[tool]; ok || s.Wrapped != nil ||
			len(conf.Upstreams)+len(conf.Fleet.Classes) > 0 || conf.Elsewhere(tool) || conf.Selftest {
			return true
		}
		return slices.ContainsFunc(s.Options.Tools, func(spec string) bool {
			name, _, _ := strings.Cut(spec, "=")
			return name == tool
		})
	}
}

// placeOfTools keeps what a state has of this config's tools apart from those of equal tools in other
// directories. A state on servers is used from other machines, where the directory is another one.
func (s *Setup) placeOfTools(conf *config.Config) string {
	if conf.State.IsURL() {
		return ""
	}
	return cmp.Or(conf.Dir(), "none")
}

// ServersBase is the environment in which the upstreams of a config are made.
func (s *Setup) ServersBase(conf *config.Config) config.Base {
	return config.Base{Vars: s.Env, Version: Version(), Secrets: s.secrets, Sandbox: conf.Sandbox}
}

// Secrets returns the secrets that a config names.
func (s *Setup) Secrets(conf *config.Config) (set *secrets.Set, err error) {
	var more map[string]string
	if s.Wrapped != nil {
		more = s.Wrapped.Env
	}
	set, s.Unset, err = conf.MakeSecrets(s.Env, more)
	return set, err
}

// detachTool makes the calls of a tool outlive this process.
func detachTool(tool tools.Tool, conf *config.Config) error {
	command, ok := tool.(*command.Command)
	switch {
	case !ok:
		return fmt.Errorf("--detach: %s is not a command: only commands can run detached",
			tool.Describe().Name)
	case command.OnWorkers():
		return nil // a worker's calls outlive this process anyway
	case !conf.State.OnDisk():
		return fmt.Errorf("--detach needs tasks on disk, and they live in %s: name a directory with --state",
			conf.State.Place())
	}
	if err := command.Detach(); err != nil {
		return fmt.Errorf("--detach: %w", err)
	}
	return nil
}
