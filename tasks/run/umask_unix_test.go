//go:build unix

package run_test

import "golang.org/x/sys/unix"

func init() { unix.Umask(0o022) } // a state that the user's group may write is refused
