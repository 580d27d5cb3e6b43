package tools

import (
	"regexp"
	"testing"
)

// What is only parsed at the start must compile at the first call.
func FuzzProgressPattern(f *testing.F) {
	for _, pattern := range []string{`(\d+)%`, `\[(\d+)/(\d+)\]`, `(`, `a`, `(a)(b)(c)`, `(a{1000})`, `(a{1001})`, `((a{100}){100})`, `(\pL)`, `(?P<n>a)`, "(\xff)"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		re, err := regexp.Compile(pattern)
		fine := pattern == "" || err == nil && (re.NumSubexp() == 1 || re.NumSubexp() == 2)
		if err := checkProgress(pattern); (err == nil) != fine {
			t.Errorf("%q: %v", pattern, err)
		}
		if fine && pattern != "" && compileProgress(pattern) == nil {
			t.Errorf("%q is not compiled", pattern)
		}
	})
}
