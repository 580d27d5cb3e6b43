// Package remote is another server seen from its client's side: one call of a tool, followed to its end in whatever era and dialect the
// server speaks, and the lists of what it has, bounded as they come.
package remote
