package propose

import (
	"io/fs"
	"path"
	"strings"
)

// maxIncluded is how many Makefiles are read for one.
const maxIncluded = 32

var includeLine = pattern(`^(?:-include|sinclude|include)\s+(.+)$`)

// withIncluded puts the Makefiles that a Makefile includes in the place of the lines that name them. Names
// that make works out are left as they are, but for $(wildcard ...) and $(CURDIR).
func (d dir) withIncluded(text string, left *int) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for n, line := range lines {
		m := includeLine().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		names, _, _ := strings.Cut(m[1], "#")
		var all []string
		for name := range strings.FieldsSeq(strings.NewReplacer("$(wildcard ", " ", "$(CURDIR)/", "",
			"${CURDIR}/", "", ")", " ").Replace(names)) {
			found, err := fs.Glob(d.FS, path.Clean(name))
			if err != nil {
				continue
			}
			for _, file := range found {
				if included, ok := d.readOne(file); ok && *left > 0 {
					*left--
					all = append(all, d.withIncluded(included, left))
				}
			}
		}
		if len(all) > 0 {
			lines[n] = strings.Join(all, "\n")
		}
	}
	return strings.Join(lines, "\n")
}
