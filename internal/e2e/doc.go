// Package e2e holds the black-box tests: they play a client, a person at a terminal, a broken server or a
// hostile machine, and look only at what the program reads and writes.
//
//	transcript_test.go   conversations on the wire (testdata/transcripts), in process and with the real program
//	audit_test.go        judges every message of every session: order, schemas, correlation; testdata/audit shows it bad sessions
//	session_test.go      a run of the program with a client at its stdin and stdout, in process or as a process
//	binary_test.go       TestMain, and the programs that tests start
//	ground_*_test.go     several runnels on one state, and all that can go wrong around them (make hostile)
//	rounds_*_test.go     a fleet on three servers, one of whose parts is killed or cut off each round (make fleet)
package e2e
