package config

import (
	"strings"
	"testing"
	"time"
)

// times returns the times of an expression after one, in a zone.
func times(t *testing.T, expression, zone, from string, n int) string {
	t.Helper()
	s, err := ParseCron(expression)
	if err != nil {
		t.Fatal(err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05", from, location)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for range n {
		at = s.Next(at)
		list = append(list, at.In(location).Format("01-02 15:04:05-07"))
	}
	return strings.Join(list, ", ")
}

// The times of an expression are those of cron, also where the clocks change: in New York of 2026, on 8 March
// from 02:00 to 03:00 and on 1 November from 02:00 to 01:00.
func TestTimes(t *testing.T) {
	const ny = "America/New_York"
	for _, c := range []struct{ expression, zone, from, want string }{
		{"30 3 * * 1-5", "UTC", "2026-01-02 12:00:00", "01-05 03:30:00+00, 01-06 03:30:00+00"},
		{"@daily", "UTC", "2026-01-02 12:00:00", "01-03 00:00:00+00, 01-04 00:00:00+00"},
		{"CRON_TZ=Europe/Berlin 0 3 * * *", "UTC", "2026-01-02 12:00:00", "01-03 02:00:00+00, 01-04 02:00:00+00"},
		{"TZ=UTC @hourly", ny, "2026-01-02 12:00:00", "01-02 13:00:00-05, 01-02 14:00:00-05"},
		// Every interval, wherever its process has started.
		{"@every 10m", "UTC", "2026-01-02 12:03:07", "01-02 12:10:00+00, 01-02 12:20:00+00"},
		{"@every 1s", "UTC", "2026-01-02 12:03:07", "01-02 12:03:08+00, 01-02 12:03:09+00"},
		{"@every 2d", "UTC", "2026-01-02 12:03:07", "01-03 00:00:00+00, 01-05 00:00:00+00"},
		{"@every 7h", ny, "2026-11-01 00:00:00", "11-01 05:00:00-05, 11-01 12:00:00-05"},

		// A time that is left out comes when the clocks go forward, and on the days around it as always.
		{"30 2 * * *", ny, "2026-03-06 12:00:00", "03-07 02:30:00-05, 03-08 03:00:00-04, 03-09 02:30:00-04"},
		{"0,15,30 2 * * *", ny, "2026-03-07 12:00:00", "03-08 03:00:00-04, 03-09 02:00:00-04"},
		{"0 2,3 * * *", ny, "2026-03-07 12:00:00", "03-08 03:00:00-04, 03-09 02:00:00-04, 03-09 03:00:00-04"},
		{"30 2 * * 1", ny, "2026-03-07 12:00:00", "03-09 02:30:00-04, 03-16 02:30:00-04"},
		{"0 12 1 * *", ny, "2026-02-20 12:00:00", "03-01 12:00:00-05, 04-01 12:00:00-04"},
		// One that comes twice counts once.
		{"30 1 * * *", ny, "2026-10-31 12:00:00", "11-01 01:30:00-04, 11-02 01:30:00-05"},
		{"0 1,2 * * *", ny, "2026-10-31 12:00:00", "11-01 01:00:00-04, 11-01 02:00:00-05, 11-02 01:00:00-05"},
		// Intervals go on evenly.
		{"*/30 * * * *", ny, "2026-03-08 01:00:00", "03-08 01:30:00-05, 03-08 03:00:00-04, 03-08 03:30:00-04"},
		{"@hourly", ny, "2026-11-01 00:30:00", "11-01 01:00:00-04, 11-01 01:00:00-05, 11-01 02:00:00-05"},
		{"*/20 1 * * *", ny, "2026-11-01 01:20:00", "11-01 01:40:00-04, 11-01 01:00:00-05, 11-01 01:20:00-05"},
		// The clocks of Lord Howe Island change by half an hour.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00:00", "10-04 02:30:00+11, 10-05 02:15:00+11"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00:00", "04-05 01:45:00+11, 04-06 01:45:00+10"},
	} {
		expression := c.expression
		if c.zone != "UTC" && !strings.Contains(expression, "TZ=") {
			expression = "CRON_TZ=" + c.zone + " " + expression
		}
		for range 2 {
			got := times(t, expression, c.zone, c.from, strings.Count(c.want, ",")+1)
			if strings.Contains(c.want, "+11") || strings.Contains(c.want, "+10") {
				got = strings.NewReplacer("+1030", "+10").Replace(got)
			}
			if got != c.want {
				t.Errorf("%s after %s: %s\nwant %s", expression, c.from, got, c.want)
			}
		}
	}
}

// What is wrong with every is said when the config is read, with its line.
func TestEveryMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"every: noon":                      `f:3:12: tools.a.every: "noon" is not a time`,
		"every: 61 * * * *":                "above maximum",
		"every: '* * * * * *'":             "expected exactly 5 fields",
		"every: '0 0 30 2 *'":              "never comes",
		"every: 'CRON_TZ=Moon/Sea @daily'": "is not a time zone",
		"every: 'CRON_TZ=UTC'":             "is not a time",
		"every: 'TZ='":                     "is not a time zone",
		"every: 'TZ=UTC TZ=UTC @daily'":    "a second time zone",
		"every: '@every -1h'":              "is not an interval",
		"every: '@every 10ms'":             "is not an interval",
		"every: '@reboot'":                 "is not a time",
		"every: {cron: 99 * * * *}":        "f:3:19: tools.a.every.cron",
		"every: {with: {a: 1}}":            "tools.a.every.cron",
		"every: {cron: '@daily', at: 1}":   "at",
	} {
		c, err := Parse("f", []byte("tools:\n  a:\n    "+text+"\n    command: [date]\n"))
		if err == nil {
			a := c.Tools["a"]
			if wrong := a.Complete(); wrong != nil {
				err = c.Locate("tools.a", wrong)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f:3:") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, more := range []string{"confirm: Really?", "task: forbidden"} {
		c, err := Parse("f", []byte("tools:\n  a:\n    every: '@daily'\n    command: [date]\n    "+more+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		a := c.Tools["a"]
		if err := a.Complete(); err == nil || !strings.Contains(err.Error(), "is impossible with "+more[:4]) {
			t.Errorf("%s: %v", more, err)
		}
	}
}

// FuzzCron: whatever an expression is, it is refused or has times in order.
func FuzzCron(f *testing.F) {
	for _, s := range []string{"30 3 * * 1-5", "@daily", "@every 10m", "CRON_TZ=", "TZ=UTC", "CRON_TZ=Europe/Berlin 0 2 * * 0",
		"TZ=UTC CRON_TZ=", "*/7 ? 31 */2 1#2", "0-59/0 * * * *", "@every 1000000h"} {
		f.Add(s, int64(1772953200))
	}
	f.Fuzz(func(t *testing.T, text string, from int64) {
		s, err := ParseCron(text)
		if err != nil {
			return
		}
		at := time.Unix(from%(1<<33), 0)
		for range 3 {
			next := s.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) {
				t.Fatalf("%q: %v is not after %v", text, next, at)
			}
			at = next
		}
	})
}
