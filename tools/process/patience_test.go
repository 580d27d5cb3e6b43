package process

import (
	"testing"
	"time"
)

// A silence is one only if runnel itself ran while it was watched.
func TestSilenceIsSeenTwice(t *testing.T) {
	const limit = time.Second
	type look struct {
		after, silence time.Duration // since the look before; how long nothing was read
		unread         bool
		want           time.Duration
	}
	for name, looks := range map[string][]look{
		"silent": {
			{limit, limit, false, idleLook},
			{idleLook, limit + idleLook, false, 0},
		},
		"prints": {
			{limit, limit / 4, false, limit * 3 / 4},
			{limit, limit, false, idleLook},
			{idleLook, idleLook, false, limit - idleLook},
			{limit, limit, false, idleLook},
		},
		"runnel was stopped, and reads then": {
			{2 * limit, 2 * limit, true, idleLook},
			{idleLook, idleLook, false, limit - idleLook},
		},
		"runnel was stopped while it watched, and what it has read is not passed on yet": {
			{2 * limit, 2 * limit, true, idleLook},
			{2 * limit, 2 * limit, false, idleLook},
			{idleLook, idleLook, false, limit - idleLook},
		},
		"runnel was stopped while it watched, and the command is silent": {
			{2 * limit, 2 * limit, false, idleLook},
			{2 * limit, 4 * limit, false, idleLook},
			{idleLook, 5 * limit, false, 0},
		},
		"nothing was passed on in time, but is there": {
			{limit, limit, true, idleLook},
			{idleLook, limit + idleLook, true, idleLook},
			{idleLook, limit + 2*idleLook, false, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := patience{limit: limit}
			now := time.Now()
			for i, l := range looks {
				now = now.Add(l.after)
				if got := p.look(now, l.silence, l.unread); got != l.want {
					t.Fatalf("look %d: %v, want %v", i, got, l.want)
				}
			}
		})
	}
}
