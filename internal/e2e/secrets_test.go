package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The secret of these tests has two halves: none of them may be anywhere, nor its base64.
const (
	firstHalf, secondHalf = "tok-FIRSTHALF/", "and+SECONDHALF"
	secret                = firstHalf + secondHalf
	secretBase64          = "dG9rLUZJUlNUSEFMRi9hbmQrU0VDT05ESEFMR" // but for its last character
)

// leak prints the secret in every way, and ends badly. upstreams has the same tool without the section
// secrets.
const leakTools = `
tools:
  leak:
    description: Prints what tok-FIRSTHALF/and+SECONDHALF is
    shell: |
      printf 'before '; printf %s "$ONE"; sleep 0.02; printf '%s after\n' "$TWO"
      printf 'half way: '; printf '\033[1m%s' "$ONE"; printf '\033[0m%s\r[5/10] %s\n' "$TWO" "$TOKEN"
      printf '%s' "$TOKEN" | base64 -w0; echo
      echo "its error: $TOKEN" >&2
      echo "password=letmein and key ABCD-1234-EFGH"
      printf '%s' "$TOKEN" 
      exit 3
    env: {TOKEN: "tok-FIRSTHALF/and+SECONDHALF", ONE: tok-FIRSTHALF/, TWO: and+SECONDHALF}
    progress: '\[(\d+)/(\d+)\]'
    stderr: separate
  json:
    shell: 'printf "{\"token\":\"%s\",\"list\":[1,\"password=letmein\"]}" "$TOKEN"'
    env: {TOKEN: "tok-FIRSTHALF/and+SECONDHALF"}
    structured: json
  summary:
    shell: 'echo "$TOKEN"'
    env: {TOKEN: "tok-FIRSTHALF/and+SECONDHALF"}
    structured: summary
  lines:
    shell: 'printf "x %s" "$ONE"; sleep 0.01; printf "%s y\nz" "$TWO"'
    env: {ONE: tok-FIRSTHALF/, TWO: and+SECONDHALF}
    output: lines
    ansi: keep
  told:
    command: [echo, "{{text}}", "{{kind}}"]
    input: {text: {type: string}, kind: {type: string, enum: [a, b]}}
    confirm: "Say {{text}}?"
    confirmFallback: run
  notes:
    shell: 'printf "{\"mine\":\"%s\"}" "$TOKEN" > "$RUNNEL_VARIABLES"; sleep 0.2'
    env: {TOKEN: "tok-FIRSTHALF/and+SECONDHALF"}
`

const secretsSection = `
secrets:
  env: [TOKEN]
  patterns: ['password=\w+', '[A-Z]{4}-\d{4}-[A-Z]{4}']
`

// leakConfig has the tools of a runnel with secrets, and those of one without behind it.
func leakConfig(t *testing.T) []string {
	t.Helper()
	next := writeConfig(t, leakTools)
	return writeConfig(t, leakTools+secretsSection+fmt.Sprintf(`
upstreams:
  next:
    command: [sh, -c, 'echo "starting with $TOKEN" >&2; exec env %s "$PROGRAM" --config %s --state memory --pace 0']
    env: {PROGRAM: %q, TOKEN: "tok-FIRSTHALF/and+SECONDHALF"}
    prefix: next_
`, noSleepAtExit, next[1], racedProgram(t)))
}

// noSecret fails the test if something that came out has a half of the secret, or what the patterns match.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, leaked := range []string{firstHalf, secondHalf, "FIRSTHALF", "SECONDHALF", secretBase64, "letmein",
		"ABCD-1234-EFGH"} {
		if at := strings.Index(text, leaked); at >= 0 {
			t.Errorf("%s: %s is in it: ...%s", where, leaked, text[max(0, at-200):min(len(text), at+100)])
		}
	}
}

// In every dialect, from a command and from another server: partials, progress, results and status messages
// have no secret, and say so.
func TestSecretsInEveryDialect(t *testing.T) {
	t.Parallel()
	config := leakConfig(t)
	for _, flags := range []string{
		"--protocol=2024-11-05", "--protocol=2025-06-18", "--protocol=2025-06-18 --no-task",
		"--no-task", "--mode=task", "--mode=streaming", "--mode=immediate", "--protocol=2026-07-28",
		"--protocol=2026-07-28 --no-task",
	} {
		for _, tool := range []string{"leak", "next_leak"} {
			t.Run(tool+" "+flags, func(t *testing.T) {
				t.Parallel()
				args := append([]string{"call", tool, "-o", "ndjson"}, strings.Fields(flags)...)
				server := itself(t, append(config, "--pace=0", "--immediate-wait=0", "--state=memory",
					"--log-level=debug")...)
				got := runClient(t, "", append(args, server...)...)
				noSecret(t, "stdout", got.stdout)
				noSecret(t, "stderr", got.stderr)
				for _, want := range []string{"*** after\\n", "its error: ***", "*** and key ***"} {
					if !strings.Contains(got.stdout, want) {
						t.Errorf("%q is missing: exit code %d\n%s\n%s", want, got.code, got.stdout,
							got.stderr)
					}
				}
			})
		}
	}
}

// collected takes all that a server writes.
type collected struct{ all syncBuffer }

func (c *collected) reading(out io.Reader) io.Reader { return out }
func (c *collected) sent([]byte)                     {}
func (c *collected) received(line []byte)            { _, _ = c.all.Write(append(bytes.Clone(line), '\n')) }

func leakWitness(t *testing.T, flags ...string) (*witness, *collected) {
	t.Helper()
	c := &collected{}
	return startWitness(&witness{t: t, patience: watchdog, watch: c},
		racedCommand(t, append(flags, "--fallback-tools=always", "--log-level=debug",
			"--max-tasks=1000")...)), c
}

// Stored data holds no secret, however it is read: the state's files, its log as a resource, the tasks
// methods, the tools for models, the commands for people.
func TestSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	config := append(leakConfig(t), "--state", dir)
	w, c := leakWitness(t, config...)
	want := func(what, text string, shows ...string) {
		t.Helper()
		noSecret(t, what, text)
		for _, s := range shows {
			if !strings.Contains(text, s) {
				t.Errorf("%s: %q is not in %s", what, s, text)
			}
		}
	}
	var ids []string
	for _, tool := range []string{"leak", "next_leak", "json", "summary", "lines", "notes", "next_json"} {
		id := w.start(tool, time.Hour, map[string]any{})
		ids = append(ids, id)
		result := w.call("tasks/result", map[string]any{"taskId": id})
		want(tool+"'s result", string(result.Result), map[string]string{
			"leak": `before *** after`, "next_leak": "before *** after",
			"json":      `"structuredContent":{"token":"***","list":[1,"***"]}`,
			"next_json": `"structuredContent":{"token":"***","list":[1,"***"]}`,
			"summary":   `"output":"***\n"`, "lines": `x *** y\nz`, "notes": `no output`}[tool])
		want(tool+"'s status", string(w.call("tasks/get", map[string]any{"taskId": id}).Result))
	}
	want("the status of a failed one", string(w.call("tasks/get", map[string]any{"taskId": ids[0]}).Result),
		`its error: ***`)
	const stderr = "its error: ***\n" // it comes anywhere between the lines of stdout
	want("the log", w.output(ids[0]), stderr)
	want("the log", strings.Replace(w.output(ids[0]), stderr, "", 1),
		"before *** after\nhalf way: ***\r[5/10] ***\n***g==\n")
	want("variables", string(w.call("runnel/tasks/variables", map[string]any{"taskId": ids[5]}).Result),
		`{"mine":"***"}`)
	for _, arguments := range []map[string]any{{"after": 0}, {"grep": "."}, {"tail": 3},
		{"grep": "FIRST|SECOND|letme"}} {
		arguments["task_id"] = ids[0]
		want(fmt.Sprint(arguments), string(w.call("tools/call",
			map[string]any{"name": "get_task_result", "arguments": arguments}).Result))
	}
	want("list_tasks", string(w.call("tools/call",
		map[string]any{"name": "list_tasks", "arguments": map[string]any{}}).Result), ids[0])
	want("tools/list", string(w.call("tools/list", map[string]any{}).Result), "Prints what *** is")

	// The client itself sends this secret.
	told := w.start("told", time.Hour, map[string]any{"text": "I say " + secret, "kind": "a"})
	want("an argument", string(w.call("tasks/result", map[string]any{"taskId": told}).Result), "I say ***")
	for _, arguments := range []any{map[string]any{"text": "x", "kind": secret},
		map[string]any{"text": "x", secret: 1}, map[string]any{"text": []string{secret}}} {
		want("wrong arguments", string(w.call("tools/call",
			map[string]any{"name": "told", "arguments": arguments}).Result), `"isError":true`)
	}
	nap := w.start("notes", time.Hour, map[string]any{})
	_ = w.call("runnel/tasks/variables",
		map[string]any{"taskId": nap, "set": map[string]any{"theirs": []string{secret}, secret: 1}})
	want("variables that are set", string(w.call("tasks/result", map[string]any{"taskId": nap}).Result))
	w.end()
	want("all that the server wrote", c.all.String())
	want("stderr", w.log.String(), `starting with ***`)

	for _, args := range []string{"list", "get " + ids[0], "tail " + ids[0], "tail " + ids[1],
		"result " + ids[0], "result " + ids[2] + " -o json", "get " + ids[0] + " -o json"} {
		got := runEmpty(t, append(append([]string{"tasks"}, strings.Fields(args)...), config...))
		want("runnel tasks "+args, got.stdout+got.stderr)
	}
	want("runnel tasks tail", runEmpty(t, append([]string{"tasks", "tail", ids[0]}, config...)).stdout,
		"before *** after\n")
	filesWithoutSecret(t, dir)
}

// filesWithoutSecret looks through a state as it lies on disk.
func filesWithoutSecret(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		noSecret(t, path, string(text))
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

// A supervisor masks what it was told to mask when the call began.
func TestSecretsOfADetachedTask(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	config := writeConfig(t, strings.ReplaceAll(leakTools, "    stderr: separate\n",
		"    stderr: separate\n    detach: true\n")+secretsSection)
	w, c := leakWitness(t, append(config, "--state", dir)...)
	id := w.start("leak", time.Hour, map[string]any{})
	result := string(w.call("tasks/result", map[string]any{"taskId": id}).Result)
	if !strings.Contains(result, "before *** after") {
		t.Error(result)
	}
	w.end()
	noSecret(t, "all that the server wrote", c.all.String())
	noSecret(t, "stderr", w.log.String())
	filesWithoutSecret(t, dir)
}

// Questions to the user have no secret: not as a request, not as a task's status.
func TestSecretsInQuestions(t *testing.T) {
	t.Parallel()
	config := leakConfig(t)
	for _, flags := range []string{"", "--protocol=2026-07-28", "--mode=task"} {
		args := append([]string{"call", "told", "text=now " + secret, "--yes", "-o", "ndjson"},
			strings.Fields(flags)...)
		got := runClient(t, "", append(args,
			itself(t, append(config, "--state=memory", "--immediate-wait=0")...)...)...)
		noSecret(t, "stdout", got.stdout)
		noSecret(t, "stderr", got.stderr)
		if !strings.Contains(got.stdout, "now ***") || got.code != exitFine {
			t.Errorf("%s: %+v", flags, got)
		}
	}
}

// A config that is read again masks from the next call on.
func TestSecretsAreReadAgain(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, leakTools)
	w, _ := leakWitness(t, append(config, "--state=memory")...)
	summary := func() string {
		return string(w.call("tools/call", map[string]any{"name": "summary", "arguments": map[string]any{}}).
			Result)
	}
	if got := summary(); !strings.Contains(got, secret) {
		t.Error(got)
	}
	if err := os.WriteFile(config[1], []byte(leakTools+secretsSection), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(watchdog); strings.Contains(summary(),
		secret); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the change is not taken up")
		}
	}
	noSecret(t, "a later call", summary())
	w.end()
	if strings.Contains(w.log.String(), `"sections"`) {
		t.Errorf("a section is said to wait for the next start:\n%s", &w.log)
	}
}

// A trace shows no secret of the config, and passes all on as it is.
func TestSecretsInATrace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "trace")
	line := func(text string) string {
		quoted, _ := json.Marshal(text)
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"t":%s}}}`+"\n", quoted)
	}
	input := line("a "+secret) + line("password=letmein") + "no message " + secret + "\n"
	config := writeConfig(t, leakTools+secretsSection)
	got := runClient(t, input, append(append([]string{"trace", "--file", file}, config...), "--", "cat")...)
	if got.code != exitFine || got.stdout != input {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Count(text, []byte("***")) < 6 {
		t.Errorf("%v\n%s", err, text)
	}
	noSecret(t, "the trace", string(text))
}

// A secret that cannot be masked is refused with its place and without its value; a name without a value gets
// a warning.
func TestSecretsThatCannotBe(t *testing.T) {
	t.Parallel()
	for section, says := range map[string]string{
		`env: [PIN]`:             `runnel.yaml:3:9: secrets.env[0]: PIN: its value has 4 bytes`,
		`env: ["a b"]`:           `secrets.env[0]: "a b" is not a name for a variable`,
		`patterns: ['(']`:        `secrets.patterns[0]: error parsing regexp`,
		`patterns: ['x+']`:       `fewer than 3 characters`,
		`patterns: ['abc.*def']`: `limit it`,
		`words: [x]`:             `unknown key "words"`,
	} {
		config := writeConfig(t, "tools: {a: {command: [echo], env: {PIN: zq17}}}\nsecrets:\n  "+section)
		for _, args := range [][]string{{"config", "check", config[1]},
			append([]string{"--state=memory"}, config...)} {
			got := runEmpty(t, args)
			if got.code != exitUsage || !strings.Contains(got.stderr, says) ||
				strings.Contains(strings.ReplaceAll(got.stderr, "PIN: zq17", ""), "zq17") {
				t.Errorf("%q: %+v", args, got)
			}
		}
	}
	config := writeConfig(t, "tools: {a: {command: [echo]}}\nsecrets: {env: [NO_SUCH, HOME, EMPTY]}")
	const unset = "secrets.env: NO_SUCH, EMPTY are not set"
	if got := runEmpty(t, []string{"config", "check", config[1]}, "EMPTY="); got.code != exitFine ||
		!strings.Contains(got.stderr, unset) {
		t.Errorf("%+v", got)
	}
	if got := runEmpty(t, append([]string{"--state=memory"}, config...), "EMPTY="); got.code != exitFine ||
		!strings.Contains(got.stderr, unset) {
		t.Errorf("%+v", got)
	}
	if got := runEmpty(t, append([]string{"doctor", "--state=memory"}, config...),
		"EMPTY="); got.code != exitFailure || !strings.Contains(got.stdout, "WRONG  secrets: "+unset) {
		t.Errorf("%+v", got)
	}
}

// A pattern that matches the ids of tasks does not hide them where runnel names a task: otherwise the model
// would be told to fetch "***". What a tool prints is masked.
func TestTaskIDsAreNotSecrets(t *testing.T) {
	t.Parallel()
	w, _ := leakWitness(t, append(writeConfig(t, `
tools:
  much: {shell: 'echo 01234567-89ab-cdef-0123-456789abcdef; seq 100000', maxResult: 2000}
secrets:
  patterns: ['[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}']
`), "--state=memory")...)
	call := func(tool string, arguments map[string]any) string {
		return string(w.call("tools/call", map[string]any{"name": tool, "arguments": arguments}).Result)
	}
	for range 2 {
		much := call("much", map[string]any{})
		if strings.Contains(much, "89ab-cdef") || strings.Count(much, "***") != 1 ||
			!strings.Contains(much, `"runnel://`) {
			t.Errorf("a long result: %s", much)
		}
		started := call("start_task", map[string]any{"tool": "much"})
		_, id, _ := strings.Cut(started, "runs as task ")
		id, _, _ = strings.Cut(id, ".")
		if len(id) != 36 || strings.Contains(started, "***") {
			t.Fatalf("a started task: %s", started)
		}
		result := call("get_task_result", map[string]any{"task_id": id})
		if strings.Contains(result, "89ab-cdef") || !strings.Contains(result, "***") ||
			!strings.Contains(result, id) {
			t.Errorf("its result: %s", result)
		}
		if list := call("list_tasks", map[string]any{}); !strings.Contains(list, id) {
			t.Errorf("the list: %s", list)
		}
	}
}

// What a wrapped server says of itself is masked where clients see it and where it is kept.
func TestSecretsInWhatAServerIs(t *testing.T) {
	t.Parallel()
	server := filepath.Join(t.TempDir(), "server")
	script := `#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25",
    "capabilities":{"tools":{},"experimental":{"x":{"a":"password=one"}}},
    "serverInfo":{"name":"s","version":"1","title":"password=two"},"instructions":"password=three"}}' "$id" | tr -d '\n'; echo;;
  *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[
    {"name":"t","description":"password=four","inputSchema":{"type":"object"}}]}}' "$id" | tr -d '\n'; echo;;
  *) [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id";;
  esac
done
`
	if err := os.WriteFile(server, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	args := append([]string{"wrap", "--state", state}, writeConfig(t, secretsSection)...)
	for range 2 {
		s := process(t, racedCommand(t, append(args, "--", server)...))
		s.sendLine("%s", initialize)
		shown := string(s.line())
		s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		shown += string(s.line())
		if _, code, err := s.finish(); code != 0 || err != nil {
			t.Errorf("exit code %d, %v", code, err)
		}
		if strings.Contains(shown, "password=") || strings.Count(shown, "***") < 3 {
			t.Errorf("a client sees %s", shown)
		}
		_ = filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
			if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("password=")) {
				t.Errorf("%s has it", path)
			}
			return nil
		})
	}
}
