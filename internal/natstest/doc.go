// Package natstest runs NATS servers for tests: a cluster whose nodes are processes of their own, so that one
// can be killed or cut off without a word, as a machine or a cable is.
//
//	node/ is the program of a node, which ends with its stdin
//	Start ─▶ Cluster ─ Kill, Restart: a machine that dies and comes back with its disk
//	                 ─ Pause, Resume: a node that nothing reaches any more, while its connections stay
//
// It needs signals, so it is for Unix.
package natstest
