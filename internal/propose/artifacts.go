package propose

import (
	"regexp"
	"slices"
	"strings"
)

// reports are the files that known programs leave where they run, and that a model wants to see: coverage as
// one page or one file, and the screenshots of browsers.
var reports = []struct {
	runs  *regexp.Regexp
	files []string
}{
	{regexp.MustCompile(`\bplaywright +test\b`),
		[]string{"test-results/**/*.png", "playwright-report/index.html"}},
	{regexp.MustCompile(`\bcypress +run\b`), []string{"cypress/screenshots/**/*.png"}},
	{regexp.MustCompile(`\b(vitest|jest)\b.*--coverage|\bvitest +(run +)?--coverage|\b(nyc|c8)\b`),
		[]string{"coverage/index.html", "coverage/lcov-report/index.html", "coverage/lcov.info"}},
	{regexp.MustCompile(`\bpytest\b.*--cov\b`), []string{"htmlcov/index.html", "coverage.xml"}},
	{regexp.MustCompile(`\bcoverage +html\b`), []string{"htmlcov/index.html"}},
}

// written finds the file that a program of Go writes its coverage or a page about it to.
var written = regexp.MustCompile(`\bgo +test\b.*-coverprofile[= ]([A-Za-z0-9_./-]+)|\bgo +tool +cover\b.*-o[= ]([A-Za-z0-9_./-]+)`)

// artifactsOf returns the patterns of the files that what a tool runs leaves in its directory.
func artifactsOf(runs string) (files []string) {
	for _, r := range reports {
		if r.runs.MatchString(runs) {
			files = append(files, r.files...)
		}
	}
	for _, found := range written.FindAllStringSubmatch(runs, -1) {
		name := strings.TrimPrefix(found[1]+found[2], "./")
		if !strings.HasPrefix(name, "/") && !slices.Contains(strings.Split(name, "/"), "..") {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
