package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/hosts"
	"runnel/internal/serve"
	"runnel/tools/config"
)

// entryFlags name the entry, and the file, that install and uninstall change.
type entryFlags struct {
	scope  *serve.Choice
	name   string
	wrap   string // install: the server that runnel wraps; "" = none
	dryRun bool
}

func addEntryFlags(flags *pflag.FlagSet) *entryFlags {
	e := &entryFlags{scope: serve.OneOf("user", "project")}
	flags.SortFlags = false
	flags.Var(e.scope, "scope",
		"`WHOSE` file: user (yours), project (that of the current directory, for everybody who works in it)")
	flags.StringVar(&e.name, "name", "runnel", "`NAME` of the server in the host")
	flags.BoolVar(&e.dryRun, "dry-run", false, "show what would change in the file, and change nothing")
	return e
}

// check refuses names that no host takes, and unknown hosts.
func (e *entryFlags) check(cmd *cobra.Command, ids []string) error {
	if e.wrap == "" && !hosts.IsName(e.name) {
		return misuse(cmd, "--name: %w", config.Wrong("letters, digits, - and _", "%q is not a name", e.name))
	}
	return checkHosts(cmd, ids)
}

// checkHosts refuses unknown hosts.
func checkHosts(cmd *cobra.Command, ids []string) error {
	for _, id := range ids {
		if hosts.Find(id) == nil {
			err := config.Wrong(strings.Join(hosts.IDs(), ", "), "unknown host %q", id)
			return misuse(cmd, "%w", didYouMean(err, id, hosts.IDs()))
		}
	}
	return nil
}

// file returns the path of the host's file, and where installed entries are recorded: always in the user's
// default state, no matter which one a config names.
func (e *entryFlags) file(i *invocation, h *hosts.Host) (path string, records hosts.Records, err error) {
	state, err := config.Default().StateDir(i.Getenv)
	project := ""
	if e.scope.Word == "project" && err == nil {
		project, err = os.Getwd()
	}
	if err == nil {
		path, err = h.File(hosts.This(i.Getenv), project)
	}
	return path, hosts.Records(filepath.Join(state, "installed")), err
}

// notedFlag is a flag of serve that the host will pass to runnel: it is checked and noted here.
type notedFlag struct {
	pflag.Value
	note func(text string)
}

func (f notedFlag) Set(text string) error {
	err := f.Value.Set(text)
	if err == nil {
		f.note(text)
	}
	return err
}

// givenFlag is such a flag, as it was given.
type givenFlag struct{ flag, text string }

// entryFor returns how a host will start runnel, and what the user should know about the tools that it will
// serve, "" if these were named.
func (i *invocation) entryFor(cmd *cobra.Command, h *hosts.Host, entry *entryFlags, given []givenFlag,
	rest []string) (s hosts.Server, note string, err error) {
	running, err := os.Executable()
	if err != nil {
		return s, "", err
	}
	project := entry.scope.Word == "project"
	s = hosts.Server{Command: hosts.Program(running, i.Getenv("PATH"), project), Env: map[string]string{}}
	keep := func(name string) {
		if value := i.Getenv(name); value != "" && !project {
			s.Env[name] = value
		}
	}
	if h.SetPath {
		keep("PATH")
	}
	// Most hosts pass on few variables, and these say where trust and tasks are.
	if runtime.GOOS != "windows" {
		keep(config.StateVariable)
		keep(config.ConfigVariable)
	}
	if len(rest) > 0 {
		s.Args = rest
		return s, "", nil
	}
	has := func(flag string) bool {
		return slices.ContainsFunc(given, func(g givenFlag) bool { return g.flag == flag })
	}
	if entry.wrap != "" {
		s.Args = []string{"wrap"}
	} else if !has("config") && !has("tool") && !has("selftest") {
		if given, note, err = i.findTools(cmd, h, project, given); err != nil {
			return s, "", err
		}
	}
	for _, g := range given {
		text := g.text
		if g.flag == "config" || g.flag == "state" && !strings.HasPrefix(text, "~") && text != "memory" &&
			!strings.Contains(text, "://") {
			if text, err = pathFor(h, text, project); err != nil {
				return s, "", err
			}
		}
		if i.flags.Lookup(g.flag).NoOptDefVal != "" {
			s.Args = append(s.Args, "--"+g.flag+"="+text)
		} else {
			s.Args = append(s.Args, "--"+g.flag, text)
		}
	}
	return s, note, nil
}

// findTools adds the config file if no tools were named and the host starts runnel in another directory. If
// it starts runnel in the project that is open, the note says that its file counts.
func (i *invocation) findTools(cmd *cobra.Command, h *hosts.Host, project bool,
	given []givenFlag) (_ []givenFlag, note string, err error) {
	own, err := config.Find(config.Places(i.Getenv)[1:])
	if err != nil || own != "" {
		return given, "", err
	}
	file := config.Project()
	_, err = os.Stat(file)
	switch {
	case h.Elsewhere && err == nil:
		return append(given, givenFlag{"config", file}), "", nil
	case h.Elsewhere:
		return nil, "", misuse(cmd, "%s starts its servers in another directory than this: name a tool with "+
			"--tool, or a file with --config", h.Title)
	case !project || err != nil:
		note = fmt.Sprintf("it serves the %s of the project that you open (%s)", config.FileName,
			i.Trust().Project())
	}
	return given, note, nil
}

// pathFor returns a path as a host's file must name it: absolute or, in a project's file, relative to the
// project.
func pathFor(h *hosts.Host, path string, project bool) (string, error) {
	switch {
	case filepath.IsAbs(path):
		return path, nil
	case project && h.Root != "":
		return h.Root + "/" + filepath.ToSlash(path), nil
	case project && !h.Elsewhere:
		return path, nil
	}
	return filepath.Abs(path)
}
