//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// dayConfig is what a project's runnel.yaml says for a while. It has a tool that no other has, named for it.
type dayConfig struct {
	name, text string
}

// dayProject is a directory with a runnel.yaml, in which several hosts work.
type dayProject struct {
	dir   string
	flags []string // of its runnels

	trusts bool // the config is found, and has to be trusted

	mu     sync.RWMutex // held for reading while a host makes calls, for writing while the config changes
	config *dayConfig
	marker string // a tool that only this config has
}

var (
	dayDocuments = []string{"README.md", "internal/manual/*.md"}
	dayBlock     = regexp.MustCompile("(?ms)^( *)```(yaml|sh)\n(.*?)^ *```$")
	// Hosts cannot start the first, and calls of the others end when their input has been sent.
	dayLeftOut = regexp.MustCompile(`noStdio: true|interactive: true|stdin: open`)
	// How much there is depends on how fast it went.
	dayLog      = regexp.MustCompile(`(?m)^\{"level":"info".*\n`)
	dayFile     = regexp.MustCompile(`(?m)^-- (.+) --\n`)
	notADayName = regexp.MustCompile(`[^a-z0-9]+`)
	dayNetwork  = regexp.MustCompile(`https://mcp\.example\.com/mcp`)
	// Need a state on NATS: the fleet's tests have it.
	dayWorkers  = regexp.MustCompile(`(?m)^ +(runs|retry):.*\n`)
	dayPrograms = []string{"go", "npm", "npx", "pnpm", "yarn", "bun", "just", "task", "cargo", "pytest", "uv",
		"poetry", "python", "python3", "nox", "mypy", "ruff",
		"cmake", "ctest", "ninja", "meson", "docker", "mvn", "gradle", "golangci-lint", "rsync", "ssh",
		"my-server", "eslint", "notify-send"}
)

// readConfigs finds every config that there is: in the documents, and what init proposes for the trees.
func (d *day) readConfigs() (scripts []dayScript) {
	for _, pattern := range dayDocuments {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				d.t.Fatal(err)
			}
			for _, at := range dayBlock.FindAllSubmatchIndex(text, -1) {
				kind, block := string(text[at[4]:at[5]]), string(text[at[6]:at[7]])
				block = regexp.MustCompile(`(?m)^`+string(text[at[2]:at[3]])).ReplaceAllString(block, "")
				name := fmt.Sprintf("%s:%d", file, 1+strings.Count(string(text[:at[0]]), "\n"))
				if kind == "yaml" && dayLeftOut.MatchString(block) {
					continue
				} else if kind == "yaml" {
					d.addConfig(name, block)
				} else if script := newDayScript(name, block); script.text != "" {
					scripts = append(scripts, script)
				}
			}
		}
	}
	for _, pattern := range []string{"internal/propose/testdata/*.txtar", "testdata/day/trees/*.txtar"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			d.addConfig("init "+strings.TrimSuffix(filepath.Base(file), ".txtar"), d.proposal(file))
		}
	}
	return scripts
}

// proposal is what init writes for a tree, from elsewhere.
func (d *day) proposal(file string) string {
	archive, err := os.ReadFile(file)
	if err != nil {
		d.t.Fatal(err)
	}
	tree := filepath.Join(d.dir, "trees", strings.TrimSuffix(filepath.Base(file), ".txtar"))
	files := dayFile.FindAllSubmatchIndex(archive, -1)
	for i, at := range files {
		end := len(archive)
		if i+1 < len(files) {
			end = files[i+1][0]
		}
		// The archive's own runnel.yaml is what another test wants.
		if name := string(archive[at[2]:at[3]]); name != "runnel.yaml" {
			d.write(filepath.Join(tree, name), string(archive[at[1]:end]))
		}
	}
	out := filepath.Join(tree, "proposed", "runnel.yaml")
	d.write(filepath.Join(tree, "proposed", "empty"), "")
	if said, err := d.command(d.dir, "init", "--file", out, tree).CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v\n%s", file, err, said)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

func (d *day) addConfig(name, text string) {
	text = dayNetwork.ReplaceAllString(dayWorkers.ReplaceAllString(text, ""), d.served.url)
	marker := "tools:\n  " + markerOf(name) +
		": {command: [echo, \"{{word}}\"], input: {word: {type: string, default: none}}}\n"
	if strings.HasPrefix(text, "tools:\n") || strings.Contains(text, "\ntools:\n") {
		text = strings.Replace("\n"+text, "\ntools:\n", "\n"+marker, 1)
	} else {
		text += marker
	}
	d.configs = append(d.configs, &dayConfig{name, text})
}

// markerOf is the tool that only a config of this name has.
func markerOf(name string) string {
	return "day_" + notADayName.ReplaceAllString(strings.ToLower(name), "_")
}

// write writes a file of the world, as an editor does: the new file takes the place of the old one.
func (d *day) write(file, text string) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		d.t.Fatal(err)
	}
}

// furnish makes the programs that the commands of all configs start.
func (d *day) furnish() {
	bin := filepath.Join(d.dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		d.t.Fatal(err)
	}
	copyFile(d.t, "testdata/day/bin/say", filepath.Join(bin, "say"))
	for _, name := range dayPrograms {
		if err := os.Symlink("say", filepath.Join(bin, name)); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := os.Symlink(d.program, filepath.Join(bin, "runnel")); err != nil {
		d.t.Fatal(err)
	}
	for _, dir := range []string{"home", "config", "state", "tmp"} {
		if err := os.MkdirAll(filepath.Join(d.dir, dir), 0o700); err != nil {
			d.t.Fatal(err)
		}
	}
}

// environ is a user's environment, whose home is below dir.
func (d *day) environ(dir string) []string {
	return []string{"PATH=" + filepath.Join(d.dir, "bin") + ":" + searchPath, "TERM=dumb",
		"TMPDIR=" + filepath.Join(d.dir, "tmp"),
		"HOME=" + filepath.Join(dir, "home"), "XDG_CONFIG_HOME=" + filepath.Join(dir, "config"),
		"XDG_STATE_HOME=" + filepath.Join(dir, "state"),
		"GITHUB_TOKEN=ghp_of-a-day-that-is-long", "DATABASE_URL=postgres://user:pass-of-a-day@db/app",
		"TEAM_TOKEN=team-token-of-a-day",
		"TOKEN=token-of-a-day", "HOOK_KEY=hook-key-of-a-day", "HOOK_TOKEN=hook-token-of-a-day",
		childMark, d.mark, "GORACE=atexit_sleep_ms=0 halt_on_error=0"}
}

// command is the program, as the user of this day.
func (d *day) command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(d.program, args...)
	cmd.Dir, cmd.Env = dir, d.environ(d.dir)
	return cmd
}

// serve starts the program for those who come by HTTP. It lives all day.
func (d *day) serve(dir string, args ...string) *httpServer {
	s := &httpServer{cmd: d.command(dir,
		append(args, "--no-stdio", "--http", ":0", "--log-format", "json")...)}
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		late := time.AfterFunc(watchdog, func() { _ = s.cmd.Process.Kill() })
		defer late.Stop()
		s.end()
		if err := s.cmd.Wait(); err != nil || broken.MatchString(s.log.String()) {
			d.t.Errorf("%v\n%s", err, &s.log)
		}
	})
	s.await(d.t, &s.log)
	return s
}

// open makes the projects and lets the hosts come.
func (d *day) open() {
	found, named := filepath.Join(d.dir, "found"), filepath.Join(d.dir, "named")
	// Otherwise steps last a week, as long as calls stay in the history, and checkExpired counts them as calls.
	longer := []string{"--set", "tasks.maxTtl=240h"}
	d.projects = []*dayProject{{dir: found, flags: longer, trusts: true},
		{dir: named, flags: append(longer, "--config", filepath.Join(named, "runnel.yaml"))}}
	for i, p := range d.projects {
		d.configure(p, d.configs[i])
	}
	address := freeAddress(d.t)
	d.metrics = append(d.metrics, address)
	d.shared = d.serve(named, append([]string{"--metrics", address}, d.projects[1].flags...)...)
	for i, profile := range dayProfiles {
		h := &dayHost{d: d, number: i, profile: profile, project: d.projects[i%2],
			rng: rand.New(rand.NewPCG(d.seed, uint64(i+1)))}
		if profile.http {
			h.project = d.projects[1]
		} else if profile.steady {
			address := freeAddress(d.t)
			d.metrics = append(d.metrics, address)
			h.flags = []string{"--metrics", address}
		}
		h.connect()
		h.list()
		d.hosts = append(d.hosts, h)
	}
}

// prefixes are those of the servers that a project's config names.
func (p *dayProject) prefixes() (list []string) {
	for _, m := range regexp.MustCompile(`(?m)\bprefix: *(\w+)`).FindAllStringSubmatch(p.config.text, -1) {
		list = append(list, m[1])
	}
	return list
}

// dayScript is a block of commands that the documents show.
type dayScript struct {
	name, text string
}

var (
	dayComment = regexp.MustCompile(`(?m)\s+# .*$`)
	// A screen and what goes on for ever are watched by others; what is on other machines is tried by the
	// day's own servers.
	notAScript = regexp.MustCompile(`(?m)^.*(\btop\b|--watch|-w\b|\bui\b|runnel install  |nats://|redis://|dynamodb://|^sudo|/etc/|systemctl|docker run|claude mcp).*\n`)
	aCommand   = regexp.MustCompile(`(?m)^(runnel|printf|id=|lines=)`)
)

// newDayScript keeps the commands that can be run as they stand. Where a task is named as an example, the
// script starts one.
func newDayScript(name, block string) dayScript {
	text := dayComment.ReplaceAllString(notAScript.ReplaceAllString(block, ""), "")
	if !aCommand.MatchString(text) ||
		regexp.MustCompile(`(?m)^(go|make|npm|git|brew|apt|curl) `).MatchString(text) {
		return dayScript{}
	}
	// Kill -9, and process numbers in what the shell says: TestReadme runs it.
	if strings.Contains(text, "$!") {
		return dayScript{}
	}
	if strings.Contains(text, "4d8a") {
		text = "id=$(runnel call nap --detach --tool 'nap=sleep 600')\n" +
			strings.ReplaceAll(text, "4d8a", `"$id"`)
	}
	return dayScript{name, dayNetwork.ReplaceAllString(text, `"$SERVED"`)}
}

// run plays a script as a new user, and returns what it said.
func (d *day) run(script dayScript) string {
	home := filepath.Join(d.dir, "user")
	defer os.RemoveAll(home)
	project := filepath.Join(home, "project")
	for _, dir := range []string{"home", "config", "state"} {
		d.write(filepath.Join(home, dir, "empty"), "")
	}
	d.write(filepath.Join(project, "runnel.yaml"),
		"tools:\n  hi: {command: [echo, hi]}\n  test: {command: [go, test]}\n  greet: {command: [echo, \"{{who}}\"], input: {who: {type: string}}, required: [who]}\n")
	d.write(filepath.Join(project, "Makefile"), "test:\n\t@echo tested\n")
	cmd := exec.Command("bash", "-c", "runnel trust >&2\n"+script.text)
	cmd.Dir, cmd.Env = project, append(d.environ(home), "SERVED="+d.served.url)
	var out, errs syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = watchdog
	if err := cmd.Start(); err != nil {
		d.t.Error(err)
		return ""
	}
	late := time.AfterFunc(watchdog, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if !late.Stop() {
		d.t.Errorf("%s does not end:\n%s\n%s\n%s", script.name, script.text, &out, &errs)
	}
	if broken.MatchString(errs.String()) {
		d.t.Errorf("%s: %s", script.name, &errs)
	}
	said := fmt.Sprintf("exit code %d\n%s\nstderr:\n%s", cmd.ProcessState.ExitCode(), &out,
		dayLog.ReplaceAllString(errs.String(), ""))
	return strings.ReplaceAll(said, home, "HOME")
}
