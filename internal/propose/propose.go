package propose

import (
	"fmt"
	"io/fs"
	"strings"
)

// Files names the files that Propose reads, for messages.
const Files = "Makefile, justfile, Taskfile.yml, package.json, go.mod, Cargo.toml, pyproject.toml, CMakeLists.txt, meson.build, compose.yaml, Dockerfile"

// maxTools is how many tools of one source are proposed: with more, a model chooses badly.
const maxTools = 16

// A source reads one kind of manifest. That there is none is not an error.
type source struct {
	runner string
	read   func(dir) (file string, list []Tool)
}

// sources are in order of precedence for names: the tool test is what the maintainers call test.
var sources = []source{
	{"make", makefile}, {"just", justfile}, {"task", taskfile}, {"npm", node},
	{"go", golang}, {"cargo", cargo}, {"python", python}, {"cmake", cmake}, {"meson", meson},
	{"compose", compose}, {"docker", docker},
}

// Propose returns the text of a runnel.yaml for a directory, and the files that it was made from; without files the text is empty. path is the
// directory's path for a config that lies elsewhere, "" for one that lies in it.
func Propose(directory fs.FS, path string) (text string, files []string) {
	var b strings.Builder
	taken := map[string]bool{}
	for _, s := range sources {
		file, list := s.read(dir{directory})
		var left []string
		written := 0
		for _, tool := range list {
			if taken[tool.Name] {
				tool.Name = s.runner + "_" + tool.Name
			}
			switch {
			case taken[tool.Name]:
				continue
			case written == maxTools:
				left = append(left, tool.Name)
				continue
			case written == 0:
				fmt.Fprintf(&b, "\n  # %s\n", file)
				files = append(files, file)
			}
			taken[tool.Name] = true
			written++
			tool.write(&b, path)
		}
		if len(left) > 0 {
			fmt.Fprintf(&b, "  # left out: %s\n", strings.Join(left, ", "))
		}
	}
	if len(files) == 0 {
		return "", nil
	}
	return fmt.Sprintf("# Proposed by runnel init from %s. Read it: a model may run everything in this file.\n# Remove what it should not run, and improve descriptions that say little.\ntools:%s", strings.Join(files, ", "), b.String()), files
}
