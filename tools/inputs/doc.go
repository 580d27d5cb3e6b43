// Package inputs has the arguments that the tools of a config take, and the texts that are filled with them.
//
//	input, required ─ Parse ─▶ Inputs: names, defaults, the JSON Schema of tools/list
//	a text with {{name}} ─ Inputs.Template ─▶ Template
//	a call's arguments ─ Inputs.Arguments ─▶ Arguments ─ Template.Fill ─▶ text
//
// A value is text and nothing else: it is never read as part of the text around it.
// It has no goroutines. Any number of goroutines may read an Inputs once its templates have been made.
package inputs
