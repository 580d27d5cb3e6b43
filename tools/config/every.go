package config

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // Windows and small containers have no time zones

	"github.com/robfig/cron/v3"

	"runnel/rpc/mcp"
)

// Every says when a tool starts by itself, while a runnel or a worker with the config lives. Instead of the
// mapping, a text stands for Cron alone.
type Every struct {
	// Cron is five fields, or @daily and the like, or "@every 10m", with CRON_TZ=ZONE and a blank before it;
	// without a zone it is about the local time.
	Cron string `yaml:"cron"`
	With Object `yaml:"with" json:",omitempty"` // the arguments; nil = none
}

// SetShort reads the expression that may replace the mapping.
func (e *Every) SetShort(text string) error {
	*e = Every{Cron: text}
	_, err := ParseCron(text)
	return err
}

// allowedCron is what a mistake in an expression is answered with.
const allowedCron = `minute, hour, day, month and weekday, such as "30 3 * * 1-5", or @daily, or "@every 10m"`

// check returns a mistake of a tool that starts by itself, except in its arguments.
func (e *Every) check(c *Command) *Error {
	_, err := ParseCron(e.Cron)
	wrong := new(Error)
	switch {
	case errors.As(err, &wrong):
		wrong.Key = Join("every", "cron")
		return wrong
	case c.Confirm != "":
		return &Error{Key: "every", Problem: "is impossible with confirm: the user is not there to be asked",
			Allowed: "every without confirm, or a tool with steps that asks"}
	case c.Task == mcp.TaskForbidden:
		return &Error{Key: "every", Problem: "is impossible with task: forbidden, since what starts by " +
			"itself is a task",
			Allowed: "task: optional"}
	case c.Model != nil && c.Model.API == "sampling":
		return &Error{Key: "every", Problem: "is impossible with api: sampling: no client is there whose " +
			"model it is",
			Allowed: "another api"}
	}
	return nil
}

// Schedule is a parsed Every.Cron.
type Schedule struct {
	zone     *time.Location
	interval time.Duration // of @every; 0 = fields
	fields   cron.Schedule
	// The hour or the minute is any, as in "*/10 * * * *": such times go on evenly when the clocks change.
	even bool
}

// ParseCron parses an expression. The library's own parser panics at CRON_TZ= without fields, takes a
// negative interval for a second, and counts intervals from when its process has started, so that several
// processes would disagree.
func ParseCron(text string) (*Schedule, error) {
	s := &Schedule{zone: time.Local}
	rest := strings.TrimSpace(text)
	if given, after, is := strings.Cut(rest, "="); is && (given == "CRON_TZ" || given == "TZ") {
		name, fields, _ := strings.Cut(after, " ")
		zone, err := time.LoadLocation(name)
		if err != nil || name == "" {
			return nil, Wrong("CRON_TZ=ZONE with a name such as Europe/Berlin or UTC",
				"%q is not a time zone", name)
		}
		s.zone, rest = zone, strings.TrimSpace(fields)
	}
	if interval, is := strings.CutPrefix(rest, "@every "); is {
		var d Duration
		err := d.UnmarshalText([]byte(strings.TrimSpace(interval)))
		s.interval = time.Duration(d)
		if err != nil || s.interval < time.Second || s.interval%time.Second != 0 {
			return nil, Wrong("whole seconds, such as @every 90s or @every 2d", "%q is not an interval",
				interval)
		}
		return s, nil
	}
	var err error
	if strings.Contains(rest, "=") {
		err = errors.New("a second time zone")
	} else {
		s.fields, err = cron.ParseStandard(rest)
	}
	if err != nil {
		return nil, Wrong(allowedCron, "%q is not a time: %v", text, err)
	}
	words := strings.Fields(rest)
	s.even = rest == "@hourly" || len(words) == 5 && strings.ContainsAny(words[0][:1]+words[1][:1], "*?")
	if s.Next(time.Now()).IsZero() {
		return nil, Wrong(allowedCron, "%q never comes", text)
	}
	return s, nil
}

// Next returns the first time after t, zero if there is none within five years. All processes agree on it,
// since it depends on nothing else, if the expression names a zone or they have the same: an interval counts
// from the beginning of the year 1 of UTC.
//
// At a fixed hour, as in cron (Debian's cron(8)), a time that is left out when the clocks go forward comes
// just then, and one that comes twice when they go back counts once.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.Round(0).In(s.zone)
	if s.interval > 0 {
		return t.Truncate(s.interval).Add(s.interval)
	}
	next := s.fields.Next(t)
	for !s.even && !next.IsZero() {
		// The first change of the clocks on the way.
		_, change := t.ZoneBounds()
		if change.IsZero() || change.After(next) {
			break
		}
		_, before := change.Add(-1).Zone()
		_, after := change.Zone()
		gap := time.Duration(after-before) * time.Second
		if gap > 0 {
			// The schedule may have a time that the clocks leave out.
			old := time.FixedZone("", before)
			if left := s.fields.Next(change.Add(-1).In(old)); left.Before(change.Add(gap)) {
				return change
			}
		} else if again := change.Add(-gap); next.Before(again) && !next.Before(change) {
			t = again.Add(-1)
			next = s.fields.Next(t)
			continue
		}
		t = change
	}
	return next
}
