package tasks

import "time"

// Defaults of a [Runner] and a State, and of how calls are answered (package tools). Those of a config file
// are the same.
const (
	DefaultOwner         = "local"
	DefaultTTL           = time.Hour
	DefaultMaxTTL        = 24 * time.Hour
	DefaultPollInterval  = 2 * time.Second
	DefaultMaxLive       = 100
	DefaultMaxState      = 4 << 30
	DefaultSyncWait      = 50 * time.Second // the most common hosts give up after 60 s
	DefaultImmediateWait = 100 * time.Millisecond
	DefaultHeartbeat     = 10 * time.Second
)
