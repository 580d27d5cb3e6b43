package propose

import (
	"slices"
	"testing"
	"testing/fstest"
)

// A tool whose command leaves a report or screenshots has them as artifacts, which are valid in a config.
func TestArtifacts(t *testing.T) {
	for runs, want := range map[string][]string{
		"go test ./...": nil,
		"go test -race -coverprofile=cover.out ./... && go tool cover -html=cover.out -o cover.html": {"cover.html", "cover.out"},
		"go test -coverprofile ../c.out ./...":                                                       nil,
		"go test -coverprofile=/tmp/c.out ./...":                                                     nil,
		"playwright test --project=chromium":                                                         {"playwright-report/index.html", "test-results/**/*.png"},
		"vitest run --coverage":                                                                      {"coverage/index.html", "coverage/lcov-report/index.html", "coverage/lcov.info"},
		"nyc mocha":                                                                                  {"coverage/index.html", "coverage/lcov-report/index.html", "coverage/lcov.info"},
		"pytest --cov=src --cov-report=xml":                                                          {"coverage.xml", "htmlcov/index.html"},
	} {
		if got := artifactsOf(runs); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", runs, got, want)
		}
	}
	for range 2 {
		text, _ := Propose(fstest.MapFS{"package.json": {Data: []byte(`{"scripts": {"test": "vitest run --coverage", "e2e": "playwright test", "lint": "eslint ."}}`)}}, "", nil)
		c := checkConfig(t, text)
		if a := c.Tools["e2e"].Artifacts; a == nil ||
			!slices.Equal(a.Files, []string{"playwright-report/index.html", "test-results/**/*.png"}) {
			t.Errorf("%+v of\n%s", a, text)
		}
		if c.Tools["test"].Artifacts == nil || c.Tools["lint"].Artifacts != nil {
			t.Errorf("proposed:\n%s", text)
		}
	}
}
