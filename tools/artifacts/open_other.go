//go:build !unix

package artifacts

const openFlags = 0
