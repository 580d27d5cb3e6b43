package propose

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Files names the files that Propose reads, for messages.
const Files = "Makefile, justfile, Taskfile.yml, mise.toml, package.json, deno.json, composer.json, Rakefile, mix.exs, go.mod, Cargo.toml, pyproject.toml, pom.xml, build.gradle, CMakeLists.txt, meson.build, compose.yaml, Dockerfile"

// maxTools is how many tools of one source are proposed: with more, a model chooses badly.
const maxTools = 16

// A source reads one kind of manifest. That there is none is not an error.
type source struct {
	runner string
	read   func(dir) (file string, list []Tool)
	usual  bool // its tools are those of any such project, not what the maintainers wrote
}

// sources are in order of precedence for names: the tool test is what the maintainers call test.
var sources = []source{
	{"make", makefile, false}, {"just", justfile, false}, {"task", taskfile, false}, {"mise", mise, false},
	{"npm", node, false}, {"deno", deno, false},
	{"composer", composer, false}, {"rake", rake, false}, {"mix", mix, true}, {"go", golang, true},
	{"cargo", cargo, true}, {"python", python, true},
	{"mvn", maven, true}, {"gradle", gradle, true}, {"cmake", cmake, true}, {"meson", meson, true},
	{"compose", compose, true}, {"docker", docker, true},
}

// Reasons to leave a tool out, see also neverEnds.
const (
	doneAbove = "a tool above does it"
	tooMany   = "there are enough"
)

// Propose returns the text of a runnel.yaml for a directory, and the files that it was made from; without
// files the text is empty. path is the directory's path for a config that lies elsewhere, "" for one that
// lies in it. Tests, linters and builds get a sandbox with their caches, unless caches is nil.
func Propose(directory fs.FS, path string, caches Caches) (text string, files []string) {
	var b strings.Builder
	taken := map[string]Tool{}
	confined := false
	for _, s := range sources {
		file, list := s.read(dir{directory})
		left := map[string][]string{}
		bodies := map[string]bool{}
		written := 0
		for _, tool := range list {
			other, clashes := taken[tool.Name]
			switch {
			case tool.leftOut != "":
			case clashes && s.usual && (tool.Name != "test" ||
				len(tool.Inputs) == 0), // a choice of tests is worth a tool of its own
				clashes && slices.Contains(calls(other.body), tool.script),
				len(strings.Fields(tool.body)) > 1 && !strings.Contains(tool.body, "$@") && bodies[tool.body]:
				tool.leftOut = doneAbove
			case written == maxTools:
				tool.leftOut = tooMany
			case clashes:
				tool.Name = s.runner + "_" + tool.Name
				if _, clashes := taken[tool.Name]; clashes {
					tool.leftOut = doneAbove
				}
			}
			if tool.leftOut != "" {
				left[tool.leftOut] = append(left[tool.leftOut], cmp.Or(tool.script, tool.Name))
				continue
			}
			if written == 0 {
				fmt.Fprintf(&b, "\n  # %s\n", file)
				files = append(files, file)
			}
			tool.confine(dir{directory}, s.runner, !s.usual, caches)
			tool.Artifacts = artifactsOf(strings.Join(tool.Command, " ") + "\n" + tool.body)
			confined = confined || tool.Sandboxed
			taken[tool.Name] = tool
			bodies[tool.body] = true
			written++
			tool.write(&b, path)
		}
		for _, reason := range []string{doneAbove, neverEnds, tooMany} {
			if names := left[reason]; len(names) > 0 && written > 0 {
				fmt.Fprintf(&b, "  # left out, since %s: %s\n", reason, words(names))
			}
		}
	}
	if len(files) == 0 {
		return "", nil
	}
	head := fmt.Sprintf("# Proposed by runnel init from %s. Read it: a model may run everything in this file.\n"+
		"# Remove what it should not run, and improve descriptions that say little.\n",
		strings.Join(files, ", "))
	if confined {
		head += "# A tool with a sandbox has no network: fetch dependencies before, or see runnel help sandbox.\n"
	}
	return head + "tools:" + b.String(), files
}
