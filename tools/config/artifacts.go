package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Artifacts is one "artifacts:" of a tool in the config file: which files of its directory are results, if
// the command has made or changed them. Instead of the mapping, a list stands for its files.
type Artifacts struct {
	Files    []string `yaml:"files"`    // patterns as doublestar has them, with slashes, below the directory
	Max      int      `yaml:"max"`      // how many files a result has; default 20
	MaxBytes *Size    `yaml:"maxBytes"` // of all files of a result; default 10 MiB
}

const (
	defaultArtifacts      = 20
	limitArtifacts        = 1000 // tasks/files keeps no more of a task
	defaultArtifactsBytes = Size(10 << 20)
	limitArtifactsBytes   = Size(4 << 30)
)

// SetShort reads the one pattern that may replace the mapping.
func (a *Artifacts) SetShort(text string) error {
	*a = Artifacts{Files: []string{text}}
	return nil
}

// ListKey implements strict.List.
func (*Artifacts) ListKey() string { return "files" }

// complete checks the patterns, and returns a copy with the defaults filled in.
func (a *Artifacts) complete() (*Artifacts, *Error) {
	if a == nil {
		return nil, nil
	}
	a = new(*a)
	if len(a.Files) == 0 {
		return nil, &Error{Problem: "names no files",
			Allowed: `patterns such as ["report/*.html", "**/*.png"]`}
	}
	if a.Max == 0 {
		a.Max = defaultArtifacts
	}
	if a.MaxBytes == nil {
		a.MaxBytes = new(defaultArtifactsBytes)
	}
	if a.Max < 0 || a.Max > limitArtifacts {
		return nil, &Error{Key: "max", Problem: fmt.Sprintf("%d is out of range", a.Max),
			Allowed: fmt.Sprintf("1 to %d", limitArtifacts)}
	}
	if *a.MaxBytes <= 0 || *a.MaxBytes > limitArtifactsBytes {
		return nil, &Error{Key: "maxBytes", Problem: a.MaxBytes.String() + " is out of range",
			Allowed: "1 to " + limitArtifactsBytes.String()}
	}
	for i, pattern := range a.Files {
		key := fmt.Sprintf("files[%d]", i)
		switch {
		case !doublestar.ValidatePattern(pattern) || pattern == "":
			return nil, &Error{Key: key, Problem: fmt.Sprintf("%q is not a pattern", pattern),
				Allowed: "*, **, ?, [a-z] and {a,b}, with / between directories"}
		case path.IsAbs(pattern) || slices.Contains(strings.Split(pattern, "/"), "..") ||
			strings.ContainsAny(pattern, `\:`):
			return nil, &Error{Key: key, Problem: fmt.Sprintf("%q may lead out of the tool's directory",
				pattern), Allowed: "a pattern below it, with / between directories"}
		}
	}
	return a, nil
}
