package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"runnel/internal/clients"
	"runnel/internal/hosts"
	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// Hosts checks whether the named hosts would start runnel.
func (d *Doctor) Hosts(ctx context.Context, ids []string) {
	for _, id := range ids {
		h := hosts.Find(id)
		if d.installed(ctx, h, true) == 0 {
			d.bad("host "+id, "no file of %s names runnel as a server; add it with runnel install %s",
				h.Title, id)
		}
	}
}

// installed looks for entries of runnel in a host's files, the user's and this directory's. With start, it
// starts the entries in the user's file. An entry of a project's file may have come with other people's
// files: it is started only if it is harmless.
func (d *Doctor) installed(ctx context.Context, h *hosts.Host, start bool) (found int) {
	program, _ := os.Executable()
	files, project := h.Files(hosts.This(d.Getenv))
	for n, file := range files {
		text, err := hosts.Read(file)
		if err == nil && text == nil {
			continue
		}
		var servers map[string]hosts.Server
		if err == nil {
			if servers, err = h.Servers(text); err != nil {
				err = fmt.Errorf("%s: %w", file, err)
			}
		}
		if err != nil && start { // else the file may not concern runnel
			found++
			d.bad("host "+h.ID, "%v", err)
		}
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			if s := servers[name]; s.Runnel(program) {
				found++
				d.entry(ctx, h, file, name, s, project, start, n == 0 || d.harmless(h, s, program, project))
			}
		}
	}
	return found
}

// harmless reports whether an entry starts this program with nothing but a config that the user trusts.
func (d *Doctor) harmless(h *hosts.Host, s hosts.Server, program, project string) bool {
	found, err := exec.LookPath(s.Command)
	args := s.Args
	if len(args) == 2 && args[0] == "--config" {
		file := strings.ReplaceAll(args[1], cmp.Or(h.Root, "\x00"), project)
		if !filepath.IsAbs(file) {
			file = filepath.Join(project, file)
		}
		if _, err := os.Stat(file); err == nil && filepath.Base(file) == config.FileName &&
			d.Trust().Refuses(file) == "" {
			args = nil
		}
	}
	return err == nil && found == program && len(s.Env) == 0 && len(args) == 0
}

// entry checks one entry that starts runnel.
func (d *Doctor) entry(ctx context.Context, h *hosts.Host, file, name string, s hosts.Server, project string,
	start, safe bool) {
	what := fmt.Sprintf("host %s, server %s", h.ID, name)
	command, env, dir := d.asHost(h, s, project)
	switch {
	case s.Off:
		d.bad(what, "%s has it switched off: switch it on in the host", file)
		return
	case strings.ContainsRune(command[0], filepath.Separator):
		if _, err := exec.LookPath(command[0]); err != nil {
			d.bad(what, "%s names %s, which is not a program: runnel install %s writes the right one", file,
				command[0], h.ID)
			return
		}
	}
	switch {
	case start && safe:
	case start:
		d.print("?    ", what, "%s is the project's, and starts %s with arguments that another person may "+
			"have chosen: it was not tried. If you trust it, name that command to runnel doctor, after --", file, term.Printable(command[0]))
		return
	default: // the arguments may hold secrets and are not shown
		d.fine(what, "%s starts %s", file, term.Printable(command[0]))
		return
	}
	u, err := upstream.New(name, config.Upstream{Command: command},
		config.Base{Dir: dir, Vars: env, Version: serve.Version()}, zerolog.Nop())
	var p upstream.Probed
	if err == nil {
		p, err = u.Probe(ctx, checkTime)
	}
	if err == nil && p.Tools == 0 {
		err = fmt.Errorf("it starts, but serves no tools there: %s", d.whyNone(s.Args))
	}
	if err != nil {
		err = fmt.Errorf("%w\nhow it is started: %s", err, file)
	}
	suits := ""
	if defaults := clients.OfHost(h.ID).Defaults(); defaults != "" {
		suits = "; unless a config or a flag says otherwise, " + strings.ReplaceAll(defaults, "`", "")
	}
	d.check(what, err, "it starts, %s, %d ms; %s%s", term.Count(p.Tools, "tool"), p.After.Milliseconds(),
		file, suits)
}

// whyNone says why an entry with some arguments serves no tools.
func (d *Doctor) whyNone(args []string) string {
	named := func(arg string) bool {
		return strings.HasPrefix(arg, "--tool") ||
			strings.HasPrefix(arg, "--config")
	}
	switch project := d.Trust().Project(); {
	case slices.Contains(args, "wrap"):
		return "the server behind it has none or does not answer; name that server to runnel doctor, after -- or with --url"
	case slices.ContainsFunc(args, named):
		return "what it names has none; name one with --tool, or a file with --config"
	case strings.HasSuffix(project, ", trusted"): // a host passes few variables
		return "it looks for the " + config.FileName + " of the project (" + project +
			"), but not where your shell's XDG variables keep the trust"
	default:
		return "it looks for the " + config.FileName + " of the project (" + project +
			"); or name a tool with --tool, a file with --config"
	}
}

// asHost returns how a host would start a server. Most hosts pass on these variables only, and a desktop's PATH names only the system's own
// programs.
func (d *Doctor) asHost(h *hosts.Host, s hosts.Server, project string) (command, env []string, dir string) {
	for _, name := range []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "USERPROFILE",
		"APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "TEMP", "TMPDIR"} {
		value := d.Getenv(name)
		if name == "PATH" && h.SetPath && runtime.GOOS != "windows" {
			value = "/usr/bin:/bin:/usr/sbin:/sbin"
		}
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name])
	}
	dir = project
	if h.Elsewhere {
		dir = string(filepath.Separator)
	}
	command = append([]string{s.Command}, s.Args...)
	if h.Root != "" {
		for n := range command {
			command[n] = strings.ReplaceAll(command[n], h.Root, project)
		}
	}
	return command, env, dir
}
