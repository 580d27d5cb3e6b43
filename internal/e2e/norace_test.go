//go:build !race

package e2e

const raceFactor = 1
