package tasks

import (
	"time"

	"github.com/google/uuid"
)

// NewID makes a task's id: a random UUID whose first 16 bits are the clock's milliseconds. So ids of one moment stand beside each
// other in a store's index, where each would change a page of its own; 106 random bits are left to be the secret.
func NewID(now time.Time) string {
	id := uuid.New()
	ms := now.UnixMilli()
	id[0], id[1] = byte(ms>>8), byte(ms)
	return id.String()
}
