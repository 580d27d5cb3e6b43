package serve

// UsageError is a mistake that the user has to mend: in flags, variables or the config. It makes the exit code 2.
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
