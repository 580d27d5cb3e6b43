//go:build unix

package artifacts

import "syscall"

const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
