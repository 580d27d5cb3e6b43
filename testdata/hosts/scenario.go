package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Scenario is what a model does with runnel through a host, and what must come of it.
type Scenario struct {
	Name   string
	Config string   // runnel.yaml; DIR is the run's directory
	Short  []string // flags of runnel's that are there to be quick, with -short
	// Server returns what the host starts; nil = runnel with Config.
	Server   func(binary, dir string) []string
	Play     func(run *Run, results []Result) []Call
	Before   func(run *Run) // prepares the run's directory
	During   func(run *Run) // runs beside the host
	Check    func(run *Run) // the oracle
	Limit    time.Duration  // for the host's run, if it is not the usual one
	NoGolden bool           // where the text depends on the time
}

// A Run is one run of a scenario with a host.
type Run struct {
	*testing.T

	Host    Host
	Dir     string
	Model   *Model
	Process *os.Process

	Calls   []Call // when the host has ended
	Results []Result
	Notes   []string // about tasks in the background
	Left    []string // command lines of processes that the host has left behind

	// Figure is what the table of figures says of the scenario.
	Figure func(name, format string, args ...any)
}

// soon hands a call over after two seconds. By default that is after 50 s, or 2 min where the host waits
// longer.
var soon = []string{"--sync-wait", "2s"}

// four are the hosts with which pictures and servers have been tried.
var four = []string{"claude-code", "gemini", "codex", "goose"}

var Scenarios = []Scenario{
	{
		Name:   "short",
		Config: `tools: {greet: {description: Says hello, command: [echo, "hello from the command"]}}`,
		Play:   once("greet", nil),
		Check:  func(run *Run) { run.reads(0, "hello from the command") },
	},
	{
		Name:   "failing",
		Config: `tools: {compile: {description: Compiles the program, shell: "echo compiling; echo 'main.go:3: undefined: x' >&2; exit 3"}}`,
		Play:   once("compile", nil),
		Check: func(run *Run) {
			run.reads(0, "compiling")
			run.reads(0, "main.go:3: undefined: x")
			run.reads(0, "exit code 3")
		},
	},
	{
		Name:   "silent",
		Config: `tools: {format: {description: Formats the sources, command: ["true"]}}`,
		Play:   once("format", nil),
		Check:  func(run *Run) { run.reads(0, "exit code 0") },
	},
	{
		Name:   "long",
		Config: buildConfig,
		Short:  soon,
		Play: func(run *Run, results []Result) []Call {
			switch len(results) {
			case 0:
				return []Call{{Tool: "build"}}
			case 1:
				return next(results, object{"wait_ms": 500})
			default:
				run.release()
				return next(results, nil)
			}
		},
		Check: func(run *Run) {
			run.reads(0, "[20/40] compiling package 20")
			run.readsOnce("[1/40]")
			run.readsOnce("[20/40]")
			run.readsOnce("[21/40]")
			run.readsOnce("[40/40]")
			run.reads(len(run.Results)-1, "completed")
		},
	},
	{
		Name:   "huge",
		Config: `tools: {count: {description: Counts, command: [seq, "1", "200000"]}}`,
		Play: func(_ *Run, results []Result) []Call {
			switch len(results) {
			case 0:
				return []Call{{Tool: "count"}}
			case 1:
				return next(results, object{"grep": "^77777$", "context": 1})
			default:
				return nil
			}
		},
		Check: func(run *Run) {
			run.reads(0, "1\n2\n3\n")
			run.reads(0, "get_task_result")
			run.reads(0, "\n200000")
			run.reads(1, "77776\n77777\n77778") // from the middle, as the text said
			run.Figure("seq 1 200000", "%d bytes", len(run.raw(0)))
			run.within(40 << 10)
		},
	},
	{
		Name:   "progress",
		Config: `tools: {download: {description: Downloads, shell: 'i=1; while [ $i -le 200 ]; do printf "\rdownloading %3d/200 [====================]" $i; i=$((i+1)); done; printf "\nsaved\n"'}}`,
		Play:   once("download", nil),
		Check: func(run *Run) {
			run.reads(0, "downloading 200/200")
			run.reads(0, "saved")
			run.Figure("200 frames", "%d bytes", run.size())
			run.within(400)
		},
	},
	{
		Name: "plot", // gnuplot draws a picture, which is a file; the model sees it
		Config: `tools: {plot: {description: Plots a curve, dir: DIR, artifacts: ["*.png"],
  command: [gnuplot, -e, "set terminal png size 640,480; set output 'curve.png'; plot sin(x)"]}}`,
		Play: func(_ *Run, results []Result) []Call {
			if len(results) < 2 {
				return []Call{{Tool: "plot"}}
			}
			return nil
		},
		Check: func(run *Run) {
			picture, err := os.ReadFile(filepath.Join(run.Dir, "curve.png"))
			if err != nil {
				run.Fatalf("%v: this needs Debian's gnuplot-nox", err)
			}
			saw := run.Model.Saw(picture)
			if !saw && slices.Contains(four, run.Host.Name) {
				run.Errorf("the model has not seen the %d bytes of the picture", len(picture))
			}
			run.Figure("picture", "%d bytes, seen: %t", len(picture), saw)
		},
		NoGolden: true, // it has the ids of tasks
	},
	{
		Name:     "cancelled",
		Config:   waitConfig,
		Play:     once("wait", nil),
		During:   func(run *Run) { run.end(os.Interrupt) },
		Check:    func(*Run) {},
		NoGolden: true,
	},
	{
		Name:     "killed",
		Config:   waitConfig,
		Play:     once("wait", nil),
		During:   func(run *Run) { run.end(os.Kill) },
		Check:    func(*Run) {},
		NoGolden: true,
	},
	{
		Name:   "parallel",
		Config: `tools: {say: {description: Says a word, shell: 'sleep 0.5; echo "said $word"', input: {word: {type: string}}, annotations: {readOnlyHint: true}}}`,
		Play: func(_ *Run, results []Result) []Call {
			if len(results) > 0 {
				return nil
			}
			return []Call{{"say", object{"word": "one"}}, {"say", object{"word": "two"}},
				{"say", object{"word": "three"}}}
		},
		Check: func(run *Run) {
			run.reads(0, "said one")
			run.reads(1, "said two")
			run.reads(2, "said three")
		},
	},
	{
		Name:   "confirm",
		Config: `tools: {deploy: {description: Deploys, shell: "touch DIR/ran; echo deployed", confirm: "Deploy to production?"}}`,
		Play:   once("deploy", nil),
		Check: func(run *Run) {
			_, err := os.Stat(filepath.Join(run.Dir, "ran"))
			if ran, told := err == nil, strings.Contains(run.text(0), "deployed"); ran != told {
				run.Errorf("the command ran: %v; the model was told that it did: %v", ran, told)
			}
			if strings.TrimSpace(run.text(0)) == "" {
				run.Errorf("the model was told nothing")
			}
		},
	},
	{
		Name: "typed",
		Config: `tools: {check: {description: Checks arguments, shell: 'printf "%s\n" "count=$count" "verbose=$verbose" "packages=$packages" "options=$options" "mode=$mode"', input: {
  count: {type: integer}, verbose: {type: boolean}, packages: {type: array, items: {type: string}}, options: {type: object, properties: {level: {type: number}}}, mode: {type: string, enum: [fast, slow]}}}}`,
		Play: once("check", object{"count": 3, "verbose": true, "packages": []string{"a", "b c"},
			"options": object{"level": 1.5}, "mode": "slow"}),
		Check: func(run *Run) {
			for _, want := range []string{"count=3", "verbose=true", "packages=a\nb c",
				`options={"level":1.5}`, "mode=slow"} {
				run.reads(0, want)
			}
		},
	},
	{
		Name:   "tasks",
		Config: buildConfig,
		Play: func(run *Run, results []Result) []Call {
			switch len(results) {
			case 0:
				return []Call{{"start_task", object{"tool": "build", "arguments": object{"packages": 40}}}}
			case 1:
				return []Call{{"start_task", object{"tool": "build", "arguments": object{}}}}
			case 2:
				return next(results, object{"wait_ms": 500})
			case 3:
				return []Call{{"list_tasks", nil}}
			case 4:
				run.release()
				return []Call{{"get_task_result", object{"task_id": taskID(results[3].Text)}}}
			case 5:
				return []Call{{"list_tasks", nil}}
			default:
				return nil
			}
		},
		Check: func(run *Run) {
			run.reads(0, "packages") // not one of its arguments
			run.reads(1, "get_task_result")
			run.reads(2, "[20/40] compiling package 20")
			run.reads(3, "working")
			run.reads(4, "[40/40] compiling package 40")
			run.reads(4, "completed")
			run.reads(5, "completed")
			run.readsOnce("[19/40] compiling package 19")
		},
	},
}

// minute is a command that is silent for longer than some hosts wait for a call, with nothing but what
// "runnel install" writes: it is handed over to those hosts before they give up, and the others wait.
var minute = Scenario{
	Name:   "minute",
	Config: `tools: {build: {description: Builds the program, shell: "echo compiling; sleep 65; echo linked"}}`,
	Play: func(_ *Run, results []Result) []Call {
		if len(results) == 0 {
			return []Call{{Tool: "build"}}
		}
		return next(results, nil)
	},
	Check: func(run *Run) {
		run.readsOnce("compiling")
		run.readsOnce("linked")
		run.Figure("minute", "%d polls", len(run.Results)-1)
	},
	NoGolden: true,
}

// prompted is a session with a program that reads what is typed.
var prompted = Scenario{
	Name:   "prompted",
	Config: `tools: {python: {description: A prompt of Python, command: [python3, -q, -i], interactive: true, env: {PYTHONSTARTUP: "", PYTHON_BASIC_REPL: "1"}}}`,
	Play: func(_ *Run, results []Result) []Call {
		if len(results) == 0 {
			return []Call{{Tool: "python"}}
		}
		id := object{"task_id": taskID(results[0].Text)}
		inputs := []object{{"text": "greeting = 'hello ' + 'from the prompt'\n"},
			{"text": "greeting.upper()\n"}, {"keys": []string{"C-d"}}}
		if len(results) > len(inputs) {
			return nil
		}
		return []Call{{"send_to_task", with(id, inputs[len(results)-1])}}
	},
	Check: func(run *Run) {
		run.reads(0, ">>>")
		run.readsOnce("'HELLO FROM THE PROMPT'")
		run.reads(3, "completed")
		run.Figure("prompted", "%d bytes", run.size())
	},
	NoGolden: true, // a busy machine shows an answer in two pieces
}

// pollBytes is what a poll may cost beside what is new: the line about the task, and what a host puts around
// it.
const pollBytes = 300

// followed is a build that prints all the time; a model follows it to its end by what the texts say.
func followed(steps int) Scenario {
	return Scenario{
		Name:   "build",
		Config: fmt.Sprintf(`tools: {build: {description: Builds the program, shell: 'i=1; while [ $i -le %[1]d ]; do printf "[%%3d/%[1]d] compiling the packages of component %%d of the program\n" $i $i; i=$((i+1)); sleep 0.1; done'}}`, steps),
		Short:  soon,
		Limit:  runLimit + time.Duration(steps)*300*time.Millisecond,
		Play: func(_ *Run, results []Result) []Call {
			if len(results) == 0 {
				return []Call{{Tool: "build"}}
			}
			return next(results, nil)
		},
		Check: func(run *Run) {
			output := 0
			for i := range steps {
				output += len(fmt.Sprintf("[%3d/%d] compiling the packages of component %d of the program\n",
					i+1, steps, i+1))
			}
			polls := len(run.Results) - 1
			run.Figure("build", "%.2f (%d of %d bytes, %d polls)", float64(run.size())/float64(output),
				run.size(), output, polls)
			run.within(output*12/10 + polls*pollBytes)
			run.readsOnce(fmt.Sprintf("[%3d/%d]", steps, steps))
			run.reads(polls, "completed")
			if polls < 1 {
				run.Error("the build was not handed over")
			}
		},
		NoGolden: true,
	}
}

// buildConfig has a build that waits in its middle until the run releases it.
const buildConfig = `tools: {build: {description: Builds the program, shell: '
  i=1; while [ $i -le 20 ]; do echo "[$i/40] compiling package $i"; i=$((i+1)); done;
  while [ ! -e DIR/go ]; do sleep 0.1; done;
  while [ $i -le 40 ]; do echo "[$i/40] compiling package $i"; i=$((i+1)); done', input: {}}}`

func (run *Run) release() {
	if err := os.WriteFile(filepath.Join(run.Dir, "go"), nil, 0o600); err != nil {
		run.Error(err)
	}
}

// waitConfig has a command that never ends; who it is and who started it stands in a file.
const waitConfig = `tools: {wait: {description: Waits, shell: 'echo $$ $PPID > DIR/pids.new; mv DIR/pids.new DIR/pids; sleep 1000; echo done'}}`

// groupEnded reports whether no process of a group runs. A dead one that init has not waited for does not:
// some inits take seconds.
func groupEnded(group int) bool {
	if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return true
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	return !slices.ContainsFunc(stats, func(name string) bool {
		stat, _ := os.ReadFile(name)
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, group
		return len(fields) > 2 && fields[0] != "Z" && fields[2] == strconv.Itoa(group)
	})
}

// goneLimit is how long a host and runnel may take to leave nothing behind, on a machine that is busy.
const goneLimit = time.Minute

// end ends the host by a signal while its call runs. Neither the command nor runnel may outlive it for long.
func (run *Run) end(sig os.Signal) {
	run.Helper()
	name := filepath.Join(run.Dir, "pids")
	if !eventually(time.Minute, func() bool { _, err := os.Stat(name); return err == nil }) {
		run.Error("the command did not start")
		_ = run.Process.Kill()
		return
	}
	b, err := os.ReadFile(name)
	if err != nil {
		run.Fatal(err)
	}
	var command, server int
	if _, err := fmt.Sscan(string(b), &command, &server); err != nil {
		run.Fatal(err)
	}
	began := time.Now()
	if err := run.Process.Signal(sig); err != nil {
		run.Error(err)
	}
	if !eventually(goneLimit, func() bool { return groupEnded(command) }) {
		run.Errorf("the command lives %v after the host's %v", goneLimit, sig)
		_ = syscall.Kill(-command, syscall.SIGKILL)
	}
	run.Logf("the command was gone after %v", time.Since(began).Round(10*time.Millisecond))
	if !eventually(goneLimit, func() bool { return errors.Is(syscall.Kill(server, 0), syscall.ESRCH) }) {
		run.Errorf("runnel lives %v after the host's %v", goneLimit, sig)
		_ = syscall.Kill(server, syscall.SIGKILL)
	}
	_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL) // a host may go on without the call
}

const pause = 20 * time.Millisecond

// eventually polls: processes of other programs tell nobody of their end.
func eventually(limit time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(pause) {
		if holds() {
			return true
		}
	}
	return false
}

// once calls one tool and is done.
func once(tool string, args map[string]any) func(*Run, []Result) []Call {
	return func(_ *Run, results []Result) []Call {
		if len(results) > 0 {
			return nil
		}
		return []Call{{tool, args}}
	}
}

// next does what the last result says, as a model would: it calls get_task_result as it stands there, with
// more arguments if there are any, or it is done. Where only the tool is named, the task is the one of the
// call before.
func next(results []Result, more map[string]any) []Call {
	last := plain(results[len(results)-1].Text)
	if len(results) > 50 || !strings.Contains(last, "get_task_result") {
		return nil
	}
	args := object{}
	if says := callPattern.FindStringSubmatch(last); says != nil {
		if err := json.Unmarshal([]byte(says[1]), &args); err != nil {
			return nil // the oracle will say what the model has not read
		}
	} else {
		for _, r := range results {
			if id := taskID(r.Text); id != "" {
				args["task_id"] = id
			}
		}
	}
	return []Call{{"get_task_result", with(args, more)}}
}

var callPattern = regexp.MustCompile(`get_task_result with (\{[^}]*\})`)

var idPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// taskID is the first task id in a text, "" if there is none.
func taskID(text string) string { return idPattern.FindString(text) }

// text is what the model read for a call, with newlines and quotes also where a host shows a result as JSON.
func (run *Run) text(i int) string { return plain(run.raw(i)) }

// raw is what the model read for a call, "" if it read nothing.
func (run *Run) raw(i int) string {
	if i < 0 || i >= len(run.Results) {
		return ""
	}
	return run.Results[i].Text
}

// plain is a text as it was before a host made JSON of it.
func plain(text string) string {
	if strings.Contains(text, `\n`) && !strings.Contains(text, "\n") || strings.HasPrefix(text, "{") ||
		strings.HasPrefix(text, "[{") {
		text = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`, `\r`, "\r", `\t`, "\t").Replace(text)
	}
	return text
}

// reads checks that the model read something in the result of a call.
func (run *Run) reads(i int, want string) {
	run.Helper()
	if !strings.Contains(run.text(i), want) {
		run.Errorf("the model has not read %q in the result of call %d: %s", want, i, shorten(run.text(i)))
	}
}

// readsOnce checks that the model did not read, and pay for, something twice.
func (run *Run) readsOnce(want string) {
	run.Helper()
	n := 0
	for i := range run.Results {
		n += strings.Count(run.text(i), want)
	}
	if n != 1 {
		run.Errorf("the model has read %q %d times", want, n)
	}
}

// size is how many bytes the model read.
func (run *Run) size() int {
	n := 0
	for _, r := range run.Results {
		n += len(r.Text)
	}
	return n
}

func (run *Run) within(limit int) {
	run.Helper()
	if n := run.size(); n > limit {
		run.Errorf("the model has read %d bytes, more than %d", n, limit)
	}
}

// Transcript is what the model called and read, without what differs from run to run.
func (run *Run) Transcript() string {
	clean := cleaner(run.Dir)
	var b strings.Builder
	for i, r := range run.Results {
		if i < len(run.Calls) {
			fmt.Fprintf(&b, "> %s %s\n", run.Calls[i].Tool, clean(encode(with(run.Calls[i].Args, nil))))
		}
		text := clean(r.Text)
		fmt.Fprintf(&b, "< %d bytes\n%s\n\n", len(text), shorten(text))
	}
	for _, note := range run.Notes {
		_, note, _ = strings.Cut(clean(note), "<task-notification>") // what is before is the host's own
		fmt.Fprintf(&b, "< a note of %d bytes\n%s\n\n", len(note), shorten(note))
	}
	return b.String()
}

// cleaner replaces what differs from run to run. Ids keep who is who.
func cleaner(dir string) func(string) string {
	ids := map[string]string{}
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	own := regexp.MustCompile(`(<task-id>|as task |task_id ")[0-9a-z]+`) // Claude Code's id of a task
	durations := regexp.MustCompile(`\b\d+(\.\d+)? ?(s|ms|seconds)\b`)
	millis := regexp.MustCompile(`"durationMs\\?":\d+`)
	return func(text string) string {
		text = strings.ReplaceAll(text, dir, "DIR")
		text = idPattern.ReplaceAllStringFunc(text, func(id string) string {
			if ids[id] == "" {
				ids[id] = "TASK" + strconv.Itoa(len(ids)+1)
			}
			return ids[id]
		})
		text = own.ReplaceAllString(text, "${1}ID")
		text = millis.ReplaceAllString(text, `"durationMs":0`)
		return durations.ReplaceAllString(times.ReplaceAllString(text, "TIME"), "N s")
	}
}

// shown is how much of the head and of the tail of a long text golden files and errors show.
const shown = 1000

func shorten(text string) string {
	if len(text) <= 3*shown {
		return text
	}
	middle := text[shown : len(text)-shown]
	note := fmt.Sprintf("\n[golden: %d bytes are left out here]\n", len(middle))
	if i := strings.Index(middle, "get_task_result"); i >= 0 { // the words about its own gap
		about := middle[max(0, i-shown/4):min(i+shown/4, len(middle))]
		note = fmt.Sprintf("\n[golden: of %d bytes only these are shown]\n%s\n[golden: end of these]\n",
			len(middle), about)
	}
	return text[:shown] + note + text[len(text)-shown:]
}
