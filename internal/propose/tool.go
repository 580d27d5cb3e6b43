package propose

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Tool is one entry of "tools:".
type Tool struct {
	Name        string
	Description string
	Command     []string
	Inputs      []Input
	Env         []string // "NAME=value"
	Progress    string
	Artifacts   []string // patterns of the files that its result carries
	Ready       string   // the pattern of the line that says that a server listens
	Timeout     string
	Confirm     bool // the user must confirm each call
	ReadOnly    bool // it changes nothing, so a host may run it in parallel
	Sandboxed   bool
	Browser     bool     // its sandbox is for a browser
	Write       []string // the caches that its sandbox lets it change, besides its directory

	leftOut string // why the tool is only listed; "" = it is proposed
	script  string // the name by which its runner knows it
	body    string // what its script runs
}

// Input is an argument of a tool.
type Input struct {
	Name     string
	Schema   string // YAML on one line
	Required bool
}

var (
	more = "{type: array, items: {type: string}, default: [], description: more arguments for the script}"
	one  = "{type: string}"
	// An operand must not be an option, such as a -vettool among the packages of go vet.
	operand  = `{type: string, pattern: "^([^-]|$)"}`
	operands = "{type: array, items: " + operand + ", default: []}"
)

// toolName returns a name that every client accepts.
func toolName(name string) string {
	return strings.Trim(regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(name, "_"), "_")
}

// write writes the tool as YAML. dir is where its command runs, "" for the config's directory.
func (t Tool) write(b *strings.Builder, dir string) {
	line := func(key, value string) { b.WriteString("    " + key + ": " + value + "\n") }
	b.WriteString("  " + word(t.Name) + ":\n")
	line("description", sentence(t.Description))
	line("command", words(t.Command))
	if dir != "" {
		line("dir", quoted(dir))
	}
	var inputs, required []string
	for _, in := range t.Inputs {
		inputs = append(inputs, word(in.Name)+": "+in.Schema)
		if in.Required {
			required = append(required, in.Name)
		}
	}
	if len(inputs) > 0 {
		line("input", "{"+strings.Join(inputs, ", ")+"}")
	}
	if len(required) > 0 {
		line("required", words(required))
	}
	if at := slices.Index(t.Command, "{{args}}"); at > 0 && t.Command[at-1] != "--" {
		line("options", "[args]")
	}
	if len(t.Env) > 0 {
		var vars []string
		for _, v := range t.Env {
			name, value, _ := strings.Cut(v, "=")
			vars = append(vars, name+": "+quoted(value))
		}
		line("env", "{"+strings.Join(vars, ", ")+"}")
	}
	if t.Progress != "" {
		line("progress", "'"+t.Progress+"'") // our own patterns: none has a '
	}
	if t.Ready != "" {
		line("ready", "'"+t.Ready+"'") // none of these has a ' either
	}
	if len(t.Artifacts) > 0 {
		line("artifacts", words(t.Artifacts))
	}
	if t.Timeout != "" {
		line("timeout", t.Timeout)
	}
	if t.Sandboxed {
		line("sandbox", t.sandbox())
	}
	switch {
	case t.Confirm:
		line("annotations", "{destructiveHint: true}")
		question := "Run " + strings.Join(t.Command, " ") + "?"
		line("confirm", sentence(question))
	case t.ReadOnly:
		line("annotations", "{readOnlyHint: true}")
	}
}

func words(list []string) string {
	made := make([]string, len(list))
	for n, w := range list {
		made[n] = word(w)
	}
	return "[" + strings.Join(made, ", ") + "]"
}

var (
	plainWord = pattern(`^[A-Za-z_./-][A-Za-z0-9_./+=-]*$`)
	oddWord   = pattern(`^(?i:true|false|null|yes|no|on|off|y|n|[-.]*[0-9].*|[-.]+inf|[-.]+nan|[-.]+)$`)
	plainText = pattern(`^[A-Z][A-Za-z0-9 ,./()+-]*[A-Za-z0-9.)]$`)
)

// word writes a string in a list: plain if YAML reads it as the same string.
func word(s string) string {
	if plainWord().MatchString(s) && !oddWord().MatchString(s) {
		return s
	}
	return quoted(s)
}

// sentence writes a string after a colon.
func sentence(s string) string {
	if plainText().MatchString(s) && !oddWord().MatchString(s) {
		return s
	}
	return quoted(s)
}

// quoted writes a string in JSON, which YAML reads the same way. No command, and so no config, takes a NUL.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?"))
	return strings.TrimSuffix(b.String(), "\n")
}

// chatter matches lines of a script that do not show what it does.
var chatter = pattern(`^(\s*|#.*|\$\((info|warning) .*|(echo|printf|set|cd) .*)$`)

// describe returns a tool's description: its maintainers' words, else the command that it runs.
func describe(said string, command, body []string) string {
	const most = 160
	text := strings.Join(strings.Fields(strings.Trim(said, "#*- \t")), " ")
	if text == "" {
		text = "Run " + strings.Join(command, " ")
		if n := slices.IndexFunc(body, func(line string) bool {
			return !chatter().
				MatchString(line)
		}); n >= 0 {
			text += " (" + strings.Join(strings.Fields(body[n]), " ") + ")"
		}
	}
	text = strings.NewReplacer("{{", "{", "}}", "}").Replace(text)
	if r := []rune(text); len(r) > most {
		text = string(r[:most-3]) + "..."
	}
	return text
}

// reports are the files that known programs leave where they run, and that a model wants to see: coverage as
// one page or one file, and the screenshots of browsers.
var reports = []struct {
	runs  func() *regexp.Regexp
	files []string
}{
	{pattern(`\bplaywright +test\b`),
		[]string{"test-results/**/*.png", "playwright-report/index.html"}},
	{pattern(`\bcypress +run\b`), []string{"cypress/screenshots/**/*.png"}},
	{pattern(`\b(vitest|jest)\b.*--coverage|\bvitest +(run +)?--coverage|\b(nyc|c8)\b`),
		[]string{"coverage/index.html", "coverage/lcov-report/index.html", "coverage/lcov.info"}},
	{pattern(`\bpytest\b.*--cov\b`), []string{"htmlcov/index.html", "coverage.xml"}},
	{pattern(`\bcoverage +html\b`), []string{"htmlcov/index.html"}},
}

// written finds the file that a program of Go writes its coverage or a page about it to.
var written = pattern(`\bgo +test\b.*-coverprofile[= ]([A-Za-z0-9_./-]+)|\bgo +tool +cover\b.*-o[= ]([A-Za-z0-9_./-]+)`)

// artifactsOf returns the patterns of the files that what a tool runs leaves in its directory.
func artifactsOf(runs string) (files []string) {
	for _, r := range reports {
		if r.runs().MatchString(runs) {
			files = append(files, r.files...)
		}
	}
	for _, found := range written().FindAllStringSubmatch(runs, -1) {
		name := strings.TrimPrefix(found[1]+found[2], "./")
		if !strings.HasPrefix(name, "/") && !slices.Contains(strings.Split(name, "/"), "..") {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// Caches returns the directories that a program keeps outside of projects and must be able to change, such as
// those of go, npm or cargo, by the program's name.
type Caches func(program string) []string

// confinedWords are the first words of names of tools that need nothing but the project and their caches.
var confinedWords = set("test tests check lint fmt format vet build compile clippy typecheck types tsc style spell coverage unit verify race bench benchmark all")

// outsideBody matches scripts that need the network, or programs that run outside of them.
var outsideBody = pattern(`\b(docker|podman|docker-compose|kubectl|vagrant|curl|wget|ssh|scp|rsync|sudo|git +(clone|fetch|pull|submodule)|` +
	`(npm|pnpm|yarn|bun) +(install|ci|i|add|update)|npx|pnpx|bunx|(pip|pip3|uv|poetry|pdm|gem|bundle|composer|cargo|go|mix|apt|apt-get|brew) +(install|get|sync|update|add|fetch)|` +
	`testcontainers)\b`)

// browserBody matches scripts that start a browser, which talks to itself through unix sockets.
var browserBody = pattern(`\b(playwright +test|puppeteer|cypress|chromium|chrome|firefox)\b`)

// programsOf are programs with caches, and the files by which a project that starts them is known.
var programsOf = []struct {
	program string
	files   []string
}{
	{"go", []string{"go.mod"}},
	{"golangci-lint", []string{".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"}},
	{"npm", []string{"package.json"}},
	{"pnpm", []string{"pnpm-lock.yaml"}},
	{"yarn", []string{"yarn.lock"}},
	{"cargo", []string{"Cargo.toml"}},
	{"uv", []string{"uv.lock"}},
	{"poetry", []string{"poetry.lock"}},
	{"mvn", []string{"pom.xml"}},
	{"gradle", []string{"build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle"}},
}

// confine gives a tool a sandbox if it seems to need nothing else. all: its runner may start whatever the
// project has.
func (t *Tool) confine(d dir, runner string, all bool, caches Caches) {
	words := split(strings.TrimPrefix(t.Name, runner+"_"))
	starts := strings.Join(t.Command, " ") + "\n" + t.body
	browser := browserBody().MatchString(starts)
	reaches := slices.ContainsFunc(words,
		func(w string) bool { return w == "e2e" || w == "integration" || w == "acceptance" })
	if caches == nil || t.Confirm || len(words) == 0 || outsideBody().MatchString(starts) ||
		(!confinedWords()[words[0]] || reaches) && !browser {
		return
	}
	t.Sandboxed, t.Browser = true, browser
	own := map[string]string{"mvnw": "mvn", "gradlew": "gradle"}[path.Base(t.Command[0])]
	own = cmp.Or(own, t.Command[0])
	for _, p := range programsOf {
		if p.program == own || all && d.has(p.files...) {
			t.Write = append(t.Write, caches(p.program)...)
		}
	}
}

// sandbox writes the value of the tool's key of that name.
func (t *Tool) sandbox() string {
	if len(t.Write) == 0 && !t.Browser {
		return "true"
	}
	paths := []string{"."}
	for _, path := range t.Write {
		if strings.HasPrefix(path, "~/") && plainWord().MatchString(path[2:]) {
			paths = append(paths, path)
		} else {
			paths = append(paths, word(path))
		}
	}
	value := "{write: [" + strings.Join(paths, ", ") + "]"
	if t.Browser { // the sockets of docker, of a desktop and of its keyring are there
		value += ", unixSockets: all, hide: [/run, /tmp/.X11-unix]"
	}
	return value + "}"
}
