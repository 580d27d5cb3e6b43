// Package strict decodes YAML into structs, and keeps the places of the values in the text. It knows nothing
// of what the values mean.
//
//	text ─ the YAML library ─▶ decoder: its tree ─▶ structs, by the tag "yaml"
//	                                └▶ places ─ File.Locate ─▶ FILE:LINE:COL
//
// The library parses, and its tree is decoded here, for three reasons: an error names the place and what is
// allowed there; text stays as it was written (in an argv, 1.10 is not 1.1, and yes is not true); and errors
// that are found later need the places, too. Unknown keys and values of a wrong type are mistakes, and all
// mistakes are reported together.
//
// It has no goroutines. Any number of goroutines may read a File.
//
//	path   names a value in the text: tools.test.command[2]
//	place  the positions of a key and its value: line and column, from 1
package strict

// Options say how a text is decoded.
type Options struct {
	// Over leaves what the text does not name as it is: entries of mappings, and what pointers point at.
	Over bool
	// Instead returns a hint at what to write in the place of an unknown key of the mapping at path. words
	// are the texts of all its keys, keys what is known there.
	Instead func(path, key string, words map[string][]string, keys []string) string
	// List returns the list to write in the place of a text at path.
	List func(path, text string) string
}

// Short is a struct or a list that may be written as one word.
type Short interface{ SetShort(text string) error }

// List is a struct that may be written as the list that one of its keys has.
type List interface{ ListKey() string }

// Single is a list of structs, the only one of which may stand for it.
type Single interface{ Single() }

// Rewriter is a struct in whose place people write a text. Rewrite returns what to write instead.
type Rewriter interface{ Rewrite(text string) string }

// Kind is a scalar whose kind has a name of its own, such as "a size".
type Kind interface{ Kind() string }
