package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A transcript (testdata/transcripts/**/*.txt) is a conversation on the wire, line by line.
//
// On top stands prose, each line with "# ": what must hold and why. Then headers:
//
//	covers: IDS          rows of coverage.txt that the transcript shows
//	args: FLAGS          of the program; 'quoted words' keep their spaces
//	config:              followed by lines that begin with "| ": a config file, named with --config; {{npm}} in it is where the
//	                     packages of testdata/interop are
//	state: disk          tasks live in a directory (mode: binary); else in memory
//	mode: inprocess      or binary, or http (see TestTranscriptsHTTP); both of the first two is the rule
//	exit: N              exit code, 0 if not given
//	unanswered: N        requests that get no answer before the session ends
//	behind: WAY          of two others: it is an upstream of an upstream, both spoken to in this way; see ways
//	ignore: PATTERN      lines that may come at any place, any number of times; repeatable
//
// Then the conversation:
//
//	--> TEXT             the client sends the line; $name1 stands for what was captured
//	--> q"GO STRING"     the client sends these bytes, without a newline of its own
//	<-- PATTERN          the next line of the server
//	<-> PATTERN          likewise, but neighbouring ones may come in any order
//	... open VERSION [WORD ...]  initialize, its answer, initialized; tasks declares tasks, partial tasks.streaming.partial, streaming
//	                             tasks.responses.modes with all three, elicitation that the user can be asked
//	... chunks $task1 N BYTES    the next lines are partials of the task, together the N chunks of the self-test tool stream
//	... partials $task1 "TEXT"   the next lines are partials of the task whose text is TEXT, in as many lines as it takes
//	... segments ID $task1 N     the next lines are responses to call ID of the task with N segments together, or "all" that come, or all=N of them
//	... contains TEXT    the last line of the server holds these bytes
//	... silence [TIME]   nothing more comes (within the time)
//	... wait TIME        time passes while the client reads but says nothing
//	... stall            the client stops reading
//	... resume           it reads again
//	... eof              stdin is closed
//	... config "YAML"    the config file says this from now on (mode: binary)
//	... signal NAME      the program gets SIGHUP or SIGTERM (mode: binary)
//
// Everywhere {{x*5}} stands for xxxxx, and {{stateless WORD ...; MEMBERS}} for the _meta of a request of the
// stateless era; see statelessMeta. At the end stdin is closed, nothing more may come, and the program exits.
//
// In process the time is virtual (testing/synctest): a wait costs nothing and silence is exact.
type transcript struct {
	prose      []string
	covers     []string
	args       []string
	config     string
	mode       string
	disk       bool
	exit       int
	unanswered int
	behind     string
	ignore     []pattern
	steps      []step
}

type step struct {
	number  int // the line's number in the file
	kind    string
	text    string
	pattern pattern
	after   time.Duration
}

// longestRealWait keeps the transcripts that run against a real process short.
const longestRealWait = 3 * time.Second

var repeats = regexp.MustCompile(`\{\{(.+?)\*([0-9]+)\}\}`)

func parseTranscript(text string) (*transcript, error) {
	tr := &transcript{mode: "both"}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if err := tr.parseLine(i+1, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	switch {
	case len(strings.Join(tr.prose, " ")) < 40:
		return nil, errors.New("no prose on top: say what must hold and why")
	case len(tr.steps) == 0:
		return nil, errors.New("no conversation")
	}
	return tr, nil
}

func (tr *transcript) parseLine(number int, line string) error {
	if line == "" {
		return nil
	}
	if prose, ok := strings.CutPrefix(line, "#"); ok {
		if len(tr.steps) == 0 {
			tr.prose = append(tr.prose, strings.TrimSpace(prose))
		}
		return nil
	}
	line = metas.ReplaceAllStringFunc(line, statelessMeta)
	line = repeats.ReplaceAllStringFunc(line, func(m string) string {
		parts := repeats.FindStringSubmatch(m)
		n, _ := strconv.Atoi(parts[2])
		return strings.Repeat(parts[1], n)
	})
	if yaml, ok := strings.CutPrefix(line, "| "); ok {
		tr.config += yaml + "\n"
		return nil
	}
	if len(line) < 3 {
		return fmt.Errorf("what is %q?", line)
	}
	kind, rest := line[:3], strings.TrimPrefix(line[3:], " ")
	s := step{number: number, kind: kind, text: rest}
	var err error
	switch kind {
	case "-->":
	case "<--", "<->":
		s.pattern, err = parsePattern(rest)
	case "...":
		err = s.parseDirective(tr.mode)
	default:
		return tr.parseHeader(line)
	}
	tr.steps = append(tr.steps, s)
	return err
}

func (s *step) parseDirective(mode string) (err error) {
	s.kind, s.text, _ = strings.Cut(s.text, " ")
	switch s.kind {
	case "stall", "resume", "eof":
	case "contains", "partials", "chunks", "segments", "open":
		if s.text == "" {
			err = errors.New("what?")
		}
	case "silence", "wait":
		if s.kind == "wait" || s.text != "" {
			s.after, err = time.ParseDuration(s.text)
		}
		if s.after > longestRealWait && mode != "inprocess" {
			err = fmt.Errorf("longer than %v needs mode: inprocess", longestRealWait)
		}
	default:
		return s.parseOutside(mode)
	}
	return err
}

func (tr *transcript) parseHeader(line string) (err error) {
	name, value, ok := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch {
	case !ok || len(tr.steps) > 0:
		return fmt.Errorf("what is %q?", line)
	case name == "covers":
		tr.covers = append(tr.covers, strings.FieldsFunc(value,
			func(r rune) bool { return r == ',' || r == ' ' })...)
	case name == "args":
		for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(value, -1) {
			tr.args = append(tr.args, strings.Trim(word, "'"))
		}
	case name == "config" && value == "":
	case name == "mode" && slices.Contains([]string{"both", "inprocess", "binary", "http"}, value):
		tr.mode = value
	case name == "state" && value == "disk":
		tr.disk = true
	case name == "exit":
		tr.exit, err = strconv.Atoi(value)
	case name == "unanswered":
		tr.unanswered, err = strconv.Atoi(value)
	case name == "behind" && ways[value] != nil:
		tr.behind, tr.mode = value, "binary"
	case name == "ignore":
		var p pattern
		p, err = parsePattern(value)
		tr.ignore = append(tr.ignore, p)
	default:
		return fmt.Errorf("unknown header %q", line)
	}
	return err
}

// transcripts reads all transcripts, by their path below testdata/transcripts without the extension.
func transcripts(t testing.TB) map[string]*transcript {
	t.Helper()
	root := filepath.Join("testdata", "transcripts")
	all := map[string]*transcript{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".txt" || d.Name() == "coverage.txt" ||
			d.Name() == "http.txt" || d.Name() == requirementsFile {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		tr, err := parseTranscript(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		name, _ := filepath.Rel(root, strings.TrimSuffix(file, ".txt"))
		all[filepath.ToSlash(name)] = tr
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	for name, tr := range transcripts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tr.mode == "both" || tr.mode == "inprocess" {
				t.Run("inprocess", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						play(t, tr, inProcess(t, tr.flags(t)...))
					})
				})
			}
			if tr.mode == "both" || tr.mode == "binary" {
				t.Run("binary", func(t *testing.T) {
					if os.Getenv(otherProgram) != "" && tr.needsUnix() {
						t.Skip("its commands are those of Unix")
					}
					play(t, tr, process(t, racedCommand(t, tr.flags(t)...)))
				})
			}
		})
	}
}

func (tr *transcript) flags(t testing.TB) []string {
	if tr.behind != "" {
		return chain(t, tr.behind, tr.args...)
	}
	flags := tr.args
	if tr.disk {
		flags = append([]string{"--state", stateDir(t)}, flags...)
	}
	config := tr.config
	if strings.Contains(config, npmMark) {
		config = strings.ReplaceAll(config, npmMark, npmCI(t))
	}
	if config == "" {
		return flags
	}
	return append(writeConfig(t, config), flags...)
}

// player plays one transcript.
type player struct {
	tr       *transcript
	s        *session
	captures map[string]string
	last     []byte // the last line of the server
	eof      bool
	log      bytes.Buffer // everything that went over the wire, for the report
}

func play(t *testing.T, tr *transcript, s *session) {
	p := &player{tr: tr, s: s, captures: map[string]string{}}
	for i := 0; i < len(tr.steps); i++ {
		st := tr.steps[i]
		var err error
		if st.kind == "<->" {
			group := []step{st}
			for i+1 < len(tr.steps) && tr.steps[i+1].kind == "<->" {
				i++
				group = append(group, tr.steps[i])
			}
			err = p.group(group)
		} else {
			err = p.step(st)
		}
		if err != nil {
			p.fail(t, fmt.Sprintf("line %d: %v", st.number, err))
		}
	}
	if err := p.end(); err != nil {
		p.fail(t, "at the end: "+err.Error())
	}
}

func (p *player) fail(t *testing.T, what string) {
	t.Helper()
	for { // the other lines help to understand
		line, err := p.s.take(quiet)
		if err != nil {
			break
		}
		fmt.Fprintf(&p.log, "    (then) %s\n", clipLine(line))
	}
	ended := "it still runs"
	select {
	case <-p.s.exited:
		ended = p.s.how
	case <-time.After(quiet):
	}
	t.Fatalf("%s (%s)\n# %s\n%s\nstderr:\n%s", what, ended, strings.Join(p.tr.prose, "\n# "), &p.log,
		p.s.stderr)
}

func (p *player) step(st step) error {
	switch st.kind {
	case "-->":
		return p.send(st.text)
	case "<--":
		return p.group([]step{st})
	case "open":
		return p.open(st.text)
	case "partials":
		name, quoted, _ := strings.Cut(st.text, " ")
		want, err := strconv.Unquote(quoted)
		if err != nil {
			return fmt.Errorf("%w: %s", err, quoted)
		}
		got, err := p.partials(name, len(want))
		if err == nil && got != want {
			err = fmt.Errorf("partials say %q, want %q", got, want)
		}
		return err
	case "chunks":
		var name string
		var n, size int
		if _, err := fmt.Sscanf(st.text, "%s %d %d", &name, &n, &size); err != nil {
			return err
		}
		got, err := p.partials(name, n*size)
		if err != nil {
			return err
		}
		return checkChunks(got, n, size)
	case "segments":
		var id, name, n string
		if _, err := fmt.Sscan(st.text, &id, &name, &n); err != nil {
			return err
		}
		return p.segments(id, name, n)
	case "contains":
		if !bytes.Contains(p.last, []byte(st.text)) {
			return fmt.Errorf("the last line does not contain %s", st.text)
		}
		return nil
	case "stall":
		p.s.stall()
		return nil
	case "resume":
		p.s.resume()
		return nil
	case "wait":
		time.Sleep(st.after)
		if p.s.pid == 0 {
			synctest.Wait()
		}
		return nil
	case "silence":
		return p.silence(st.after)
	case "eof":
		p.eof = true
		return p.s.closeStdin()
	case "config", "signal":
		return p.outside(st)
	}
	panic("internal error: step " + st.kind)
}

func (p *player) send(text string) error {
	for name, value := range p.captures {
		text = regexp.MustCompile(regexp.QuoteMeta(name)+`\b`).ReplaceAllLiteralString(text, value)
	}
	fmt.Fprintf(&p.log, "--> %s\n", clipLine([]byte(text)))
	if quoted, ok := strings.CutPrefix(text, "q"); ok {
		raw, err := strconv.Unquote(quoted)
		if err != nil {
			return err
		}
		return p.s.send([]byte(raw))
	}
	return p.s.send([]byte(text + "\n"))
}

// group takes the lines that match the patterns, in any order.
func (p *player) group(group []step) error {
	for len(group) > 0 {
		line, err := p.nextThat(p.s.patience(), func(line []byte) bool {
			return slices.ContainsFunc(group,
				func(st step) bool { return st.pattern.match(line, maps.Clone(p.captures)) == nil })
		})
		if err != nil {
			return fmt.Errorf("%w\n    want %s", err, group[0].text)
		}
		var mismatches []string
		i := slices.IndexFunc(group, func(st step) bool {
			err := st.pattern.match(line, p.captures)
			if err != nil {
				mismatches = append(mismatches, err.Error()+"\n    want "+clipLine([]byte(st.text)))
			}
			return err == nil
		})
		if i < 0 {
			return fmt.Errorf("%s\n    got  %s", strings.Join(mismatches, "\n"), clipLine(line))
		}
		group = slices.Delete(group, i, i+1)
	}
	return nil
}

// next is the session's next line that is not to be ignored.
func (p *player) next(within time.Duration) ([]byte, error) { return p.nextThat(within, anyLine) }

// nextThat is next where there are several streams: the next line of any that fits.
func (p *player) nextThat(within time.Duration, fits func([]byte) bool) ([]byte, error) {
	ignored := func(line []byte) bool {
		return slices.ContainsFunc(p.tr.ignore,
			func(i pattern) bool { return i.match(line, p.captures) == nil })
	}
	overtakes := ignored
	if !p.s.streams {
		fits, overtakes = anyLine, noLine
	}
	for {
		line, err := p.s.nextThat(within, fits, overtakes)
		if err != nil {
			return line, err
		}
		fmt.Fprintf(&p.log, "<-- %s\n", clipLine(line))
		if !ignored(line) {
			p.last = line
			return line, nil
		}
	}
}

// partials takes partials of the captured task until they hold n bytes of text.
func (p *player) partials(name string, n int) (string, error) {
	task := p.captures[name]
	var got strings.Builder
	for got.Len() < n {
		line, err := p.nextThat(p.s.patience(), func(line []byte) bool {
			partial, err := decodePartial(line)
			return err == nil && partial.Params.TaskID == task
		})
		if err != nil {
			return "", fmt.Errorf("%w\n    %d bytes of %d have come", err, got.Len(), n)
		}
		partial, err := decodePartial(line)
		switch {
		case err != nil:
			return "", err
		case partial.Params.TaskID != task:
			return "", fmt.Errorf("%s is no partial of task %s", clipLine(line), task)
		}
		got.WriteString(partial.text())
	}
	return got.String(), nil
}

// segments takes responses to a streaming call (SEP-1905).
func (p *player) segments(id, name, n string) error {
	n, all := strings.CutPrefix(n, "all")
	for got := 0; all || strconv.Itoa(got) != n; {
		line, err := p.nextThat(p.s.patience(), func(line []byte) bool {
			var e envelope
			return json.Unmarshal(line, &e) == nil && string(e.ID) == id && e.Method == nil
		})
		if err != nil {
			return fmt.Errorf("%w\n    %d segments of %s have come", err, got, n)
		}
		var m struct {
			ID     json.RawMessage
			Result streamed
		}
		err = json.Unmarshal(line, &m)
		if r := m.Result; p.tr.behind != "" && err == nil && string(m.ID) == id && r.IsComplete == nil &&
			r.Task != nil && p.captures[name] == "" {
			var shown shownTask // where the first output comes late, a handle comes first
			if err := json.Unmarshal(r.Task, &shown); err != nil {
				return err
			}
			p.captures[name] = shown.TaskID
			continue
		}
		if err != nil || string(m.ID) != id || m.Result.IsComplete == nil {
			return fmt.Errorf("%s is not a streaming response to %s", clipLine(line), id)
		}
		r := m.Result
		task := r.Meta.Related.TaskID
		if known, ok := p.captures[name]; ok && known != task {
			return fmt.Errorf("%s is no response of task %s", clipLine(line), known)
		}
		p.captures[name] = task
		got += len(r.Segments)
		if all && *r.IsComplete {
			if n != "" && n != "="+strconv.Itoa(got) {
				return fmt.Errorf("%d segments of %s have come, want all%s", got, name, n)
			}
			return nil
		}
	}
	return nil
}

// open opens a session of a client of the version.
func (p *player) open(how string) error {
	version, words, _ := strings.Cut(how, " ")
	var capabilities, tasks []string
	declares := false
	for _, word := range strings.Fields(words) {
		switch word {
		case "tasks":
			declares = true
		case "partial":
			tasks = append(tasks, `"streaming":{"partial":{}}`)
		case "streaming":
			tasks = append(tasks, `"responses":{"modes":["task","immediate","streaming"]}`)
		case "elicitation":
			capabilities = append(capabilities, `"elicitation":{}`)
		default:
			return fmt.Errorf("a client that is %q?", word)
		}
	}
	if declares || len(tasks) > 0 {
		capabilities = append(capabilities, `"tasks":{`+strings.Join(tasks, ",")+`}`)
	}
	if err := p.send(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"` +
		version +
		`","capabilities":{` + strings.Join(capabilities, ",") +
		`},"clientInfo":{"name":"test","version":"1"}}}`); err != nil {
		return err
	}
	answer, err := parsePattern(`{"jsonrpc":"2.0","id":"open","result":{"protocolVersion":"` + version +
		`","...":true}}`)
	if err != nil {
		return err
	}
	if err := p.group([]step{{kind: "<--", text: answer.text, pattern: answer}}); err != nil {
		return err
	}
	return p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (p *player) silence(within time.Duration) error {
	if p.s.pid == 0 {
		time.Sleep(within)
		synctest.Wait()
		within = 0
	} else {
		within = max(within, quiet)
	}
	switch line, err := p.next(within); {
	case err == nil:
		return fmt.Errorf("no silence: %s", clipLine(line))
	case err == errNothing || p.eof && err == io.EOF:
		return nil
	default:
		return err
	}
}

// end closes stdin: nothing more may come, and the program exits.
func (p *player) end() error {
	p.s.resume()
	rest, code, err := p.s.finish()
	for _, line := range rest {
		if !slices.ContainsFunc(p.tr.ignore,
			func(i pattern) bool { return i.match(line, p.captures) == nil }) {
			return fmt.Errorf("after the conversation came %s", clipLine(line))
		}
	}
	if err != nil {
		return err
	}
	if p.s.killedByWine() {
		p.s.t.Log("Wine's server has killed the program at its end: its exit code is not known")
	} else if code != p.tr.exit {
		return fmt.Errorf("exit code %d (%s), want %d", code, p.s.how, p.tr.exit)
	}
	if n, id := p.s.audit.unanswered(); n != p.tr.unanswered {
		return fmt.Errorf("%d requests were not answered, want %d (one has id %s)", n, p.tr.unanswered, id)
	}
	return nil
}
