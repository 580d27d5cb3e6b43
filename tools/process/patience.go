package process

import "time"

// idleLook is how long a command that seems silent is watched before it is stopped.
const idleLook = 250 * time.Millisecond

// patience decides when a command has been silent for too long. A silence that is long enough must be seen
// twice, idleLook apart, with nothing left to read: perhaps runnel itself was stopped, or had no processor,
// and the command was not silent. A second look that comes late proves nothing either: runnel was stopped
// again, and its pump may have read the output without having passed it on yet.
type patience struct {
	limit time.Duration
	first time.Time // when such a silence was first seen; zero: the command has printed since
}

// look is called with the command's silence, and whether some of its output is unread. It returns when to
// look again, 0 if the command must be stopped.
func (p *patience) look(now time.Time, silence time.Duration, unread bool) time.Duration {
	if silence < p.limit {
		p.first = time.Time{}
		return p.limit - silence
	}
	if since := now.Sub(p.first); !unread && since >= idleLook && since < 2*idleLook {
		return 0
	}
	p.first = now
	return idleLook
}
