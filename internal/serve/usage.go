package serve

// UsageError is a mistake in flags, variables or the config, which the user has to mend. The exit code is 2
// then.
type UsageError struct {
	Err  error
	Hint string
}

func (e *UsageError) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + "\n" + e.Hint
}

func (e *UsageError) Unwrap() error { return e.Err }
