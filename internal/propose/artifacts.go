package propose

import (
	"regexp"
	"slices"
	"strings"
)

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
