package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/process"
)

// maxPrefix leaves half of a tool's name to the server that it comes from.
const maxPrefix = 64

// New checks a configuration and makes the upstream of a name, which starts when its tools are needed first. What is
// wrong with it is a *config.Error.
func New(name string, conf config.Upstream, env config.Environment, log zerolog.Logger) (*Server, error) {
	switch {
	case len(conf.Command) == 0:
		return nil, &config.Error{Problem: "says no server to start", Allowed: "command (a list of words)"}
	case conf.Command[0] == "":
		return nil, &config.Error{Key: "command[0]", Problem: "is empty", Allowed: "a program's name or path"}
	case conf.Prefix != "" && tools.CheckName(conf.Prefix) != nil || len(conf.Prefix) > maxPrefix:
		return nil, &config.Error{Key: "prefix", Problem: fmt.Sprintf("%q cannot stand in a tool's name", conf.Prefix), Allowed: fmt.Sprintf("up to %d letters, digits, _, - and .", maxPrefix)}
	case conf.HungAfter != nil && *conf.HungAfter < 0:
		return nil, &config.Error{Key: "hungAfter", Problem: conf.HungAfter.String() + " is negative", Allowed: "0 (for ever) or more"}
	}
	for _, tool := range conf.Deny {
		if slices.Contains(conf.Allow, tool) {
			return nil, &config.Error{Key: "deny", Problem: fmt.Sprintf("%q stands in allow, too", tool), Allowed: "one of the two"}
		}
	}
	dir, vars, err := env.Inherit("", conf.Env)
	if err != nil {
		return nil, err
	}
	vars = process.Environ(vars, dir, conf.Env)
	before, _ := process.LookupEnv(vars, hopsVariable)
	hops, _ := strconv.Atoi(before) // "" is 0
	if hops >= maxHops {
		return nil, &config.Error{Problem: fmt.Sprintf("there are %d runnels before this one already, each the upstream of another", hops), Allowed: "a config for the upstream, by --config, that does not name itself"}
	}
	vars = append(vars, fmt.Sprintf("%s=%d", hopsVariable, hops+1))
	u := newServer(name, conf, dir, vars, log)
	u.version = env.Version
	return u, nil
}

const (
	// hopsVariable tells an upstream how many runnels stand before it. One that reads the config of the runnel that started it would
	// start another one, and so on.
	hopsVariable = "RUNNEL_HOPS"
	maxHops      = 8
)

// Servers makes the upstreams that the config describes, sorted by name. They run in the directory of the
// config file.
func Servers(c *config.Config, vars []string, version string, log zerolog.Logger) ([]*Server, error) {
	env := config.Environment{Dir: c.Dir(), Vars: vars, Version: version}
	var list []*Server
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u, err := New(name, c.Upstreams[name], env, log)
		if err != nil {
			errs = append(errs, c.Locate(config.Join("upstreams", name), err))
			continue
		}
		list = append(list, u)
	}
	return list, config.JoinErrors(errs)
}

// same reports whether an upstream is what another one is: nothing about it has changed in the config.
func (u *Server) same(as *Server) bool {
	a, b := u.config, as.config
	return u.name == as.name && slices.Equal(a.Command, b.Command) && a.Prefix == b.Prefix && slices.Equal(a.Allow, b.Allow) &&
		slices.Equal(a.Deny, b.Deny) && a.Restart == b.Restart && u.hungAfter == as.hungAfter && u.dir == as.dir &&
		strings.Join(u.env, "\x00") == strings.Join(as.env, "\x00")
}
