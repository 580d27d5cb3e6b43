//go:build !linux && !darwin

package system

import "errors"

// Exchange gives two files each other's names in one step. It fails where the system or the file system
// cannot do that.
func Exchange(_, _ string) error { return errors.ErrUnsupported }
