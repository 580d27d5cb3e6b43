package propose

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

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
