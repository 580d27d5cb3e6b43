//go:build unix

package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/schema"
)

func TestStatusMessageIsBounded(t *testing.T) {
	o := endOf(t, partials.Chunk{Data: []byte(strings.Repeat("x", 5000))})
	if got := o.statusMessage(); len(got) != tasks.MaxStatusMessage ||
		!strings.HasPrefix(got, "timed out after 30m\nxxx") {
		t.Errorf("%d bytes: %.40q", len(got), got)
	}
}

// However small the pieces are in which it came, the end of the output is what matters most.
func TestStatusMessageHasTheLastLine(t *testing.T) {
	var chunks []partials.Chunk
	for range 3000 {
		chunks = append(chunks, partials.Chunk{Data: []byte("1\n")},
			partials.Chunk{Data: []byte("2\n"), Stream: partials.Stderr})
	}
	o := endOf(t, append(chunks, partials.Chunk{Data: []byte("last\n")})...)
	if got := o.statusMessage(); !strings.HasSuffix(got, "\n1\n2\nlast") {
		t.Errorf("%q", got[max(0, len(got)-40):])
	}
}

// endOf is the outcome of a command that printed chunks.
func endOf(t *testing.T, chunks ...partials.Chunk) *outcome {
	log := partials.NewLog(nil)
	if err := log.Append(t.Context(), chunks...); err != nil {
		t.Fatal(err)
	}
	return &outcome{record: &record{ctx: t.Context(), out: tools.NewOutput(t.Context(), log, nil)},
		verdict: "timed out after 30m"}
}

// A command that has ended in a way that the system does not tell is not called killed.
func TestUnknownEnd(t *testing.T) {
	r := endOf(t).record
	r.config = &mustCommand(t, config.Command{Command: []string{"true"}}).config
	o := r.outcome(process.Ending{Unknown: syscall.ECHILD}, time.Second)
	want := "it has ended, but the system does not tell how: no child processes"
	if o.lastLine() != want || o.Signal != "" || o.ExitCode != nil {
		t.Errorf("%q, signal %q, exit code %v", o.lastLine(), o.Signal, o.ExitCode)
	}
}

func TestResultOfAGoodEnd(t *testing.T) {
	c := mustCommand(t, config.Command{Command: []string{"printf", "out\nno newline"}})
	result, o, r := call(t, c, `{}`)
	if len(result.Content) != 1 || contentText(t, result.Content[0]) != "out\nno newline" || result.IsError ||
		r.in.Said.Status != "" {
		t.Errorf("result %+v, status message %q", result, r.in.Said.Status)
	}
	o.DurationMs = 12
	b, _ := json.Marshal(o)
	if want := `{"exitCode":0,"signal":"","durationMs":12,"stdoutBytes":14,"stderrBytes":0,"truncated":false,"timedOut":false}`; string(b) != want {
		t.Errorf("_meta %s, want %s", b, want)
	}
}

func TestResultOfABadEnd(t *testing.T) {
	for shell, want := range map[string]struct{ output, verdict, command, status string }{
		"echo oops >&2; exit 2": {"oops\n", "exit code 2", `"exitCode":2,"signal":""`, "exit code 2\noops"},
		"exit 1":                {"", "exit code 1", `"exitCode":1,"signal":""`, "exit code 1"},
		"printf half; kill -9 $$": {"half\n", "killed by SIGKILL", `"exitCode":null,"signal":"SIGKILL"`,
			"killed by SIGKILL\nhalf"},
	} {
		result, _, r := call(t, mustCommand(t, config.Command{Shell: shell}), `{}`)
		got := contentText(t, result.Content[0])
		if ok, _ := regexp.MatchString("^"+want.output+want.verdict+` after [0-9.]+ s$`, got); !ok ||
			!result.IsError {
			t.Errorf("%s: text %q, isError %v", shell, got, result.IsError)
		}
		if command := string(rawjson.Encode(result.Meta[mcp.MetaCommand])); !strings.Contains(command,
			want.command) {
			t.Errorf("%s: _meta %s", shell, command)
		}
		if r.in.Said.Status != want.status {
			t.Errorf("%s: status message %q", shell, r.in.Said.Status)
		}
		// A client that was sent the output gets the last line behind it, on a line of its own.
		if rest := *r.in.Said.Rest; len(rest) != 1 || r.text()+contentText(t, rest[0]) != got ||
			!strings.Contains(string(rest[0]), `"_meta":{"runnel/stream":"end"}`) {
			t.Errorf("%s: streamed %q, and then %s", shell, r.text(), rest)
		}
	}
}

// A silent success says so: an empty text reads as one that is missing.
func TestResultOfASilentEnd(t *testing.T) {
	for shell, want := range map[string]string{"exit 7": "no output, exit code 7",
		":": "no output, exit code 0", `printf '\033[m'`: "no output, exit code 0"} {
		result, _, r := call(t, mustCommand(t, config.Command{Shell: shell, OkExitCodes: []int{0, 7}}), `{}`)
		if result.IsError || r.in.Said.Status != "" || len(result.Content) != 1 ||
			contentText(t, result.Content[0]) != want {
			t.Errorf("%s: %+v", shell, result)
		}
		if rest := *r.in.Said.Rest; len(rest) != 1 ||
			string(rest[0]) != string(tools.StreamText(want, "end")) {
			t.Errorf("%s: behind the output %s", shell, rest)
		}
	}
	result, _, _ := call(t, mustCommand(t, config.Command{Shell: "echo warning >&2", Stderr: "separate"}),
		`{}`)
	if len(result.Content) != 1 ||
		string(result.Content[0]) != string(tools.StreamText("warning\n", "stderr")) {
		t.Errorf("only stderr: %s", result.Content)
	}
}

// What is wrong with the output may be said at length, and the status message has room for the output all the
// same.
func TestLongVerdictIsShortened(t *testing.T) {
	name := strings.Repeat("n", 3000)
	result, _, r := call(t, mustCommand(t, config.Command{
		Shell: `echo '{"` + name + `":"text"}'`, Structured: config.StructuredJSON,
		MaxResult:    new(config.MinMaxResult),
		OutputSchema: config.Object(`{"type":"object","properties":{"` + name + `":{"type":"integer"}}}`),
	}), `{}`)
	status := r.in.Said.Status
	if verdict, output, _ := strings.Cut(status, "\n"); !result.IsError || len(verdict) > maxVerdict ||
		!strings.HasSuffix(output, `":"text"}`) || len(status) > tasks.MaxStatusMessage {
		t.Errorf("status message %q", status)
	}
	if n := len(contentText(t, result.Content[0])); n > int(config.MinMaxResult) {
		t.Errorf("the text has %d bytes", n)
	}
}

func TestOutputOfABarIsItsLastState(t *testing.T) {
	shell := `i=0; while [ $i -lt 200 ]; do i=$((i+1)); printf '\rdownloading %d of 200' $i; done; echo; echo done`
	for _, pty := range []bool{false, true} {
		result, o, r := call(t, mustCommand(t, config.Command{Shell: shell, Pty: pty}), `{}`)
		if got := contentText(t, result.Content[0]); got != "downloading 200 of 200\ndone\n" || o.Truncated {
			t.Errorf("pty %v: %q", pty, got)
		}
		if n := strings.Count(r.text(), "\rdownloading "); n != 200 {
			t.Errorf("pty %v: the log has %d states, want all of them", pty, n)
		}
	}
	result, _, _ := call(t, mustCommand(t, config.Command{Shell: `printf '1%%\r2%%\n'`, ANSI: "keep"}), `{}`)
	if got := contentText(t, result.Content[0]); got != "1%\r2%\n" {
		t.Errorf("ansi: keep: %q", got)
	}
}

// truncated says that bytes are left out, not that lines were joined; and with the largest maxResult nothing
// is cut behind its back.
func TestTruncatedSaysWhatIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		shell     string
		max       config.Size
		truncated bool
		size      int
	}{
		"fits":              {"head -c 983040 /dev/zero | tr '\\0' x", 960 << 10, false, 960 << 10},
		"one byte too many": {"head -c 983041 /dev/zero | tr '\\0' x", 960 << 10, true, 0},
		// Each newline takes two bytes in JSON.
		"950 of 960 KiB":       {"seq 1 149400 | head -c 888888", 960 << 10, true, 0},
		"lines that are equal": {"yes again | head -100000", 1 << 10, false, len("again (100000 times)\n")},
	} {
		result, o, _ := call(t, mustCommand(t, config.Command{Shell: c.shell, MaxResult: &c.max}), `{}`)
		got := contentText(t, result.Content[0])
		if cut := strings.Contains(got, "bytes left out"); o.Truncated != c.truncated || cut != c.truncated ||
			c.size > 0 && len(got) != c.size {
			t.Errorf("%s: %d bytes, truncated %v, cut %v", name, len(got), o.Truncated, cut)
		}
	}
}

func TestStructuredSummary(t *testing.T) {
	c := mustCommand(t, config.Command{Shell: "echo out; exit 3", Structured: "summary"})
	result, o, _ := call(t, c, `{}`)
	if want := `{"output":"out\n",` +
		string(rawjson.Encode(&o))[1:]; string(result.StructuredContent) != want {
		t.Errorf("%s, want %s", result.StructuredContent, want)
	}
	if err := schema.New(c.Describe().OutputSchema, "").Check(result.StructuredContent); err != nil {
		t.Error(err)
	}
}

func TestStructuredJSON(t *testing.T) {
	const schema = `{"properties":{"n":{"type":"integer"}},"required":["n"]}`
	for _, test := range []struct{ shell, schema, structured, last string }{
		{`echo '{"n": 1}'; echo warning >&2`, schema, `{"n": 1}`, ""},
		{`echo '{"n": 1}'`, "", `{"n": 1}`, ""},
		{`printf '{"n": 1,\n "x": oops}'`, "", "",
			"line 2, column 7: invalid character 'o' looking for beginning of value"},
		{`echo '{}' more`, "", "", "line 1, column 4: invalid character 'm' after top-level value"},
		{`echo '{"n": "one"}'`, schema, "", `invalid members: member "n" must be an integer, but is "one"`},
		{`echo '[1]'`, schema, "", "line 1, column 1: expected an object, {...}"},
		{`:`, schema, "", "it is empty"},
		{`seq 1 200000`, schema, "", "it is too long: the limit is 507904 bytes"},
	} {
		conf := config.Command{Shell: test.shell, Structured: "json"}
		if test.schema != "" {
			conf.OutputSchema = config.Object(test.schema)
		}
		c := mustCommand(t, conf)
		result, _, r := call(t, c, `{}`)
		if string(result.StructuredContent) != test.structured || result.IsError != (test.last != "") {
			t.Errorf("%s: %s, isError %v", test.shell, result.StructuredContent, result.IsError)
		}
		if test.last == "" {
			continue
		}
		text := contentText(t, result.Content[0])
		if want := "its output is not the expected JSON: " + test.last; !strings.HasSuffix(text, want) ||
			!strings.HasPrefix(text, r.text()[:min(len(r.text()), 100)]) ||
			!strings.HasPrefix(r.in.Said.Status, want) {
			t.Errorf("%s: text %q, status %q", test.shell, text[max(0, len(text)-300):], r.in.Said.Status)
		}
	}
	if got := string(mustCommand(t,
		config.Command{Shell: ":", Structured: "json", OutputSchema: config.Object(schema)}).Describe().
		OutputSchema); got != strings.TrimSuffix(schema, "}")+`,"type":"object"}` {
		t.Errorf("outputSchema %s", got)
	}
	if got := mustCommand(t, config.Command{Shell: ":"}).Describe().OutputSchema; got != nil {
		t.Errorf("outputSchema %s, want none", got)
	}
}

func TestStderr(t *testing.T) {
	shell := "echo 1; echo 2 >&2; echo 3"
	for mode, want := range map[string]struct {
		content        []string
		stdout, stderr int64
	}{
		"merge":    {[]string{"1\n2\n3\n"}, 6, 0},
		"separate": {[]string{"1\n3\n", "2\n"}, 4, 2},
		"discard":  {[]string{"1\n3\n"}, 4, 0},
	} {
		result, o, r := call(t, mustCommand(t, config.Command{Shell: shell, Stderr: mode}), `{}`)
		if len(result.Content) != len(want.content) || o.StdoutBytes != want.stdout ||
			o.StderrBytes != want.stderr {
			t.Errorf("%s: %s, %+v", mode, result.Content, o)
			continue
		}
		for i, c := range result.Content {
			if got := contentText(t, c); got != want.content[i] {
				t.Errorf("%s: content %d is %q", mode, i, got)
			}
		}
		if mode == "separate" && !strings.Contains(string(result.Content[1]),
			`"_meta":{"runnel/stream":"stderr"}`) {
			t.Errorf("stderr content %s", result.Content[1])
		}
		for _, c := range r.chunks {
			if (string(c.Data) == "2\n" && mode == "separate") != (c.Stream == 1) {
				t.Errorf("%s: chunk %q of stream %d", mode, c.Data, c.Stream)
			}
		}
	}
}

func TestHugeOutput(t *testing.T) {
	const size = 6_888_896
	conf := config.Command{Shell: "seq 1 1000000", MaxOutput: new(config.Size(1 << 20)),
		MaxResult: new(config.Size(8 << 10))}
	result, o, r := call(t, mustCommand(t, conf), `{}`)
	if o.StdoutBytes != size || !o.Truncated || result.IsError {
		t.Errorf("outcome %+v", o)
	}
	// A client that keeps up sees all of it; the store keeps the head and the tail.
	if n := len(r.text()); n != size {
		t.Errorf("%d bytes streamed", n)
	}
	text := contentText(t, result.Content[0])
	if len(text) > 8<<10 || len(text) < 4<<10 || !strings.Contains(text, " bytes left out ...]\n") {
		t.Errorf("result of %d bytes", len(text))
	}
}

func TestBothStreamsShareTheResult(t *testing.T) {
	c := mustCommand(t, config.Command{Shell: `seq 1 20000; seq 1 20000 >&2`, Stderr: "separate",
		MaxResult: new(config.Size(4096))})
	result, o, _ := call(t, c, `{}`)
	out, err := contentText(t, result.Content[0]), contentText(t, result.Content[1])
	a, _ := json.Marshal(out)
	b, _ := json.Marshal(err)
	if n := len(a) + len(b) - 4; n > 4096 || len(out) < 1000 || len(err) < 1000 || !o.Truncated {
		t.Errorf("%d and %d bytes, %d of JSON", len(out), len(err), n)
	}
}

func TestBinaryOutput(t *testing.T) {
	c := mustCommand(t, config.Command{Command: []string{"printf", `\377\000\303\251\303`}})
	result, o, r := call(t, c, `{}`)
	want := "\uFFFD\x00é\uFFFD"
	if got := contentText(t, result.Content[0]); got != want || r.text() != want || o.StdoutBytes != 5 {
		t.Errorf("text %q, streamed %q, %+v", got, r.text(), o)
	}
}

func TestProgressOfACommand(t *testing.T) {
	c := mustCommand(t, config.Command{Shell: `printf '[1/2] one\n[2/2] two\n'`, Progress: `\[(\d+)/(\d+)\]`})
	if _, o, _ := call(t, c, `{}`); *o.ExitCode != 0 {
		t.Errorf("outcome %+v", o)
	}
}

func TestDuration(t *testing.T) {
	c := mustCommand(t, config.Command{Shell: "sleep 0.2"})
	if _, o, _ := call(t, c, `{}`); time.Duration(o.DurationMs)*time.Millisecond < 200*time.Millisecond {
		t.Errorf("%d ms", o.DurationMs)
	}
}
