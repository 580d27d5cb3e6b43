package hosts

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// releaseConfig has a tool of steps that asks before it publishes.
const releaseConfig = `tools:
  test: {command: [echo, "42 tests pass"], idempotent: true}
  publish: {shell: 'touch "DIR/$version"; echo "published $version"', input: {version: {type: string}}}
  release:
    description: Tests and publishes a version
    input: {version: {type: string}}
    required: [version]
    steps:
      - {id: test, tool: test}
      - {id: ok, ask: "Publish {{version}}? {{steps.test.output}}"}
      - {id: publish, tool: publish, with: {version: "{{version}}"}, when: "{{steps.ok.answer}}"}
`

// releases are the versions of the two calls: its user publishes the first, and not the second.
var releases = []string{"one", "two"}

var (
	// releaseEnded is how the result of a call says how its last step ended.
	releaseEnded = regexp.MustCompile(`(?m)^publish: (completed|skipped)`)
	// howToAnswer is what the model reads where its host cannot ask.
	howToAnswer = regexp.MustCompile(`runnel tasks answer ([0-9a-f-]{36})`)
)

// releasing calls for both versions, each until it has ended, as the texts say.
func releasing(results []Result) []Call {
	if len(results) > 0 {
		if more := next(results, nil); more != nil {
			return more
		}
	}
	if n := releasesEnded(results); n < len(releases) {
		return []Call{{"release", object{"version": releases[n]}}}
	}
	return nil
}

// releasesEnded counts the results that say how a call ended.
func releasesEnded(results []Result) (n int) {
	for _, r := range results {
		if releaseEnded.MatchString(plain(r.Text)) {
			n++
		}
	}
	return n
}

// release is a run of steps with a question. Where the host cannot ask, its user does in a terminal what the
// model was given to read.
func release() Scenario {
	var once sync.Map // task ids that were answered
	return Scenario{
		Name: "release", Config: releaseConfig,
		Play: func(run *Run, results []Result) []Call {
			if len(results) == 0 {
				return releasing(results)
			}
			if says := howToAnswer.FindStringSubmatch(plain(results[len(results)-1].Text)); says != nil {
				if _, answered := once.LoadOrStore(says[1], true); !answered {
					run.answer(says[1], len(results) == 1)
				}
			}
			return releasing(results)
		},
		Check: func(run *Run) {
			said := ""
			for i := range run.Results {
				said += run.text(i)
			}
			for _, version := range releases {
				ran, read := exists(filepath.Join(run.Dir, version)), strings.Contains(said, "published "+version)
				if ran != read {
					run.Errorf("%s was published: %v; the model was told that it was: %v", version, ran, read)
				}
			}
			if n := releasesEnded(run.Results); n != len(releases) {
				run.Errorf("the model has read %d ends", n)
			}
		},
	}
}

// answer answers the question of a task in a terminal.
func (run *Run) answer(id string, yes bool) {
	said := "no"
	if yes {
		said = "yes"
	}
	out, err := exec.Command(*runnel, "tasks", "answer", id, said, "--state", filepath.Join(run.Dir, "state")).CombinedOutput()
	if err != nil {
		run.Errorf("%v\n%s", err, out)
	}
}

// releaseSitting is the same with a user who is asked by the host.
func releaseSitting() sitting {
	return sitting{
		name: "release", asks: true, golden: true, tool: "release", hosts: []string{"claude-code", "codex"},
		config: releaseConfig,
		play:   func(_ *seat, results []Result) []Call { return releasing(results) },
		do: func(s *seat) {
			s.answers(`Publish one\?`, s.Host.Terminal.Accept)
			s.answers(`Publish two\?`, s.Host.Terminal.Decline)
			s.waits(regexp.QuoteMeta(ended))
		},
		check: func(s *seat) {
			if !exists(filepath.Join(s.Dir, "one")) || exists(filepath.Join(s.Dir, "two")) {
				s.Error("not the first version was published, and it alone")
			}
			s.reads(0, "ok: completed, answered yes\npublish: completed")
			s.reads(0, "published one")
			s.reads(1, "ok: completed, answered no\npublish: skipped")
		},
	}
}

// answers waits for a question, and presses the keys that answer it until the host asks its model.
func (s *seat) answers(question string, keys []string) {
	s.Helper()
	s.waits(question)
	asked := s.Model.Asked()
	for range 10 { // a host may not take a key right after it has asked
		s.keys(keys...)
		if eventually(3*time.Second, func() bool { return s.Model.Asked() > asked }) {
			return
		}
	}
	s.Errorf("the question is not answered:\n%s", s.screen())
}
