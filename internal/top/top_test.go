package top

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	xterm "golang.org/x/term"

	"runnel/internal/term"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/text"
)

// breaks is set for a child whose second list panics, or never comes.
const breaks = "TOP_TEST_BREAKS"

func TestMain(m *testing.M) {
	if os.Getenv(breaks) != "" {
		err := Run(context.Background(),
			Options{Source: &broken{}, In: os.Stdin, Out: os.Stdout, Begun: func(func()) {}})
		fmt.Fprintln(os.Stderr, "not reached:", err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type broken struct {
	Source
	once sync.Once
}

func (b *broken) List(context.Context) ([]tasks.Task, error) {
	first := false
	b.once.Do(func() { first = true })
	if !first && os.Getenv(breaks) == "SIGQUIT" {
		select {}
	} else if !first {
		panic("this source is broken")
	}
	return []tasks.Task{{ID: "12345678-1", Tool: "build", Status: mcp.TaskWorking, CreatedAt: time.Now()}},
		nil
}

// The terminal is as it was when something has panicked, in a goroutine other than the one that draws, or
// when the process is told to show its stacks, and what is said is on the screen of the shell.
func TestTheTerminalIsGivenBack(t *testing.T) {
	for how, words := range map[string]string{"panic": "this source is broken", "SIGQUIT": "SIGQUIT: quit"} {
		t.Run(how, func(t *testing.T) { t.Parallel(); givesBack(t, how, words) })
	}
}

func givesBack(t *testing.T, how, words string) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	defer tty.Close()
	before, err := xterm.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(program)
	child.Env = append(os.Environ(), breaks+"="+how, "TERM=xterm", "GOCOVERDIR="+t.TempDir())
	child.Stdin = tty
	child.Stdout = tty
	child.Stderr = tty
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		for piece := make([]byte, 4096); ; {
			n, err := master.Read(piece)
			said.Write(piece[:n])
			if how == "SIGQUIT" && strings.Contains(said.String(), "build") { // it has drawn
				_ = child.Process.Signal(syscall.SIGQUIT)
			}
			if err != nil {
				return
			}
		}
	}()
	if err := child.Wait(); err == nil {
		t.Error("it ended well")
	}
	after, err := xterm.GetState(int(tty.Fd()))
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal's mode is another one: %+v, %v", after, err)
	}
	_ = tty.Close()
	<-read
	begins := strings.Index(said.String(), takeIt)
	left := strings.Index(said.String(), giveIt)
	at := strings.Index(said.String(), words)
	if begins < 0 || left < begins || at < left {
		t.Errorf("taken at %d, given back at %d, words at %d", begins, left, at)
	}
}

func task(id string, status mcp.TaskStatus, says string) tasks.Task {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	return tasks.Task{ID: id + "-0000", Tool: "build-all-of-it", Status: status, StatusMessage: says,
		CreatedAt: at, UpdatedAt: at.Add(3 * time.Second)}
}

func plainText(r row) (s string) {
	for _, p := range r {
		s += p.text
	}
	return s
}

func TestTable(t *testing.T) {
	var tab table
	tab.update([]tasks.Task{
		task("aaaaaaaa", mcp.TaskCompleted, "exit code 0"),
		task("bbbbbbbb", mcp.TaskWorking, "compiling [3/4] x.go"),
		task("cccccccc", mcp.TaskWorking, "\x1b]0;owned\x07 50%"),
	})
	now := task("", "", "").CreatedAt.Add(75 * time.Second)
	rows := tab.rows(100, 20, now)
	var got []string
	for _, r := range rows {
		got = append(got, strings.TrimRight(plainText(r), " "))
	}
	want := []string{
		"runnel top  2 running, 1 ended",
		"  ID       STATUS    TOOL            AGE    DONE LAST LINE",
		"> cccccccc working   build-all-of-it 1m15s  50%   50%",
		"  bbbbbbbb working   build-all-of-it 1m15s  75%  compiling [3/4] x.go",
		"",
		"  ID       ENDED     TOOL            TOOK   DONE HOW",
		"  aaaaaaaa completed build-all-of-it 3.0s        exit code 0",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if narrow := plainText(tab.rows(40, 20, now)[3]); !strings.Contains(narrow[:40], "75%") {
		t.Errorf("40 columns do not show how far a task is: %s", narrow)
	}

	// The selection is a task, not a line: it stays when others come and when it ends.
	tab.move(1)
	tab.update([]tasks.Task{
		task("aaaaaaaa", mcp.TaskCompleted, ""), task("bbbbbbbb", mcp.TaskFailed, ""),
		task("cccccccc", mcp.TaskWorking, ""), task("dddddddd", mcp.TaskWorking, ""),
	})
	if at := tab.tasks[tab.selected].ID; at != "bbbbbbbb-0000" {
		t.Errorf("selected: %s", at)
	}
	// And it is on the screen, however few lines that has.
	for _, by := range []int{-10, 1, 1, 1, 1} {
		tab.move(by)
		shown := ""
		for _, r := range tab.rows(80, 5, now) {
			shown += plainText(r) + "\n"
		}
		if !strings.Contains(shown, "> ") {
			t.Errorf("the selected task %d is not shown:\n%s", tab.selected, shown)
		}
	}
}

// A wide screen shows hosts and arguments, too. Filters choose what is shown, and the title counts all.
func TestWideAndFiltered(t *testing.T) {
	build, test := task("aaaaaaaa", mcp.TaskFailed, "exit code 1"),
		task("bbbbbbbb", mcp.TaskWorking, "compiling")
	build.Client, build.Arguments = "claude-code", []byte(`{"target":"all it","n":3}`)
	test.Tool = "test"
	u := &ui{screen: &screen{out: os.Stdout}}
	u.table.update([]tasks.Task{build, test})
	shown := func() (text string) {
		for _, r := range u.table.rows(160, 20, build.CreatedAt.Add(75*time.Second)) {
			text += strings.Join(strings.Fields(plainText(r)), " ") + "\n"
		}
		return text
	}
	const head = "runnel top 1 running, 1 ended "
	const titles = "ID STATUS TOOL HOST AGE TOOK DONE ARGUMENTS LAST LINE\n"
	const failed = "\nID ENDED TOOL HOST AGE TOOK DONE ARGUMENTS HOW\n"
	const row = "aaaaaaaa failed build-all-of-it claude-code 1m15s 3.0s target=all it n=3 exit code 1\n"
	all := strings.TrimSpace(head) + "\n" + titles + "> bbbbbbbb working test 1m15s 1m15s compiling\n" +
		failed + row
	for range 2 {
		if got := shown(); got != all {
			t.Errorf("%s\nwant\n%s", got, all)
		}
		for keys, want := range map[string]string{"!": "1 shown: failed",
			"jt": "1 shown: tool build-all-of-it", "jh": "1 shown: host claude-code",
			"/N=3\x7f3": "0 shown: /N=3", "/all it": "1 shown: /all it"} {
			for _, k := range keys {
				u.press(key(k))
			}
			want = head + want + "\n" + titles +
				map[bool]string{true: "\n" + failed[1:] + "> " + row,
					false: "no such tasks: Esc shows all\n"}[strings.HasPrefix(want, "1")]
			if got := shown(); got != want {
				t.Errorf("after %q:\n%s\nwant\n%s", keys, got, want)
			}
			u.press(keyEscape)
			u.press(keyEscape)
			u.press('g')
		}
	}
}

// The title counts all tasks that have ended, also those that are not shown.
func TestTitleCountsAll(t *testing.T) {
	var tab table
	for range 2 {
		tab.update(slices.Repeat([]tasks.Task{task("aaaaaaaa", mcp.TaskCompleted, "")}, 2*maxEnded+3))
		if title := plainText(tab.rows(100, 20, time.Time{})[0]); !strings.HasPrefix(title,
			"runnel top  0 running, 403 ended") || len(tab.tasks) != maxEnded {
			t.Errorf("%q, %d shown", title, len(tab.tasks))
		}
	}
}

func TestProgressOfALastLine(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "40%": "40%", "downloading  99.5 % of it": "99%", "[4/10] x": "40%", "( 7/14) y": "50%",
		"src/2/10 z": "", "[10/4]": "", "[1/0]": "", "2026/11": "",
		"[1/99999999999999999999]": "",
	} {
		if got := progress(&tasks.Task{StatusMessage: line}); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for want, p := range map[string]tasks.Progress{"33%": {Done: 1, Total: 3}, "100%": {Done: 3, Total: 3},
		"40%": {Done: 7}} {
		if got := progress(&tasks.Task{StatusMessage: "40%", Progress: p}); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}

func written(texts ...string) *output {
	o := &output{width: 10, follow: true,
		shown: &term.Output{Terminal: true, Stripper: text.Stripper{Colors: text.TerminalColor}}}
	for _, s := range texts {
		o.add(partials.NewBatch(0, partials.Chunk{Data: []byte(s)}))
	}
	return o
}

func TestOutputIsLines(t *testing.T) {
	for _, test := range []struct {
		chunks []string
		want   []string
	}{
		{[]string{"one\ntw", "o\n", "three"}, []string{"one", "two", "three"}},
		{[]string{"10%\r20%\r", "30%\r\n", "x"}, []string{"30%", "x"}},
		{[]string{"a\r", "\nb"}, []string{"a", "b"}},
		{[]string{"10%\r", "20%"}, []string{"20%"}},
		{[]string{"10%\r20%", "\r30%", "\nx"}, []string{"30%", "x"}},
		{[]string{"a\r\nb\r\n"}, []string{"a", "b"}},
		{[]string{"\x1b[2J\x1b]0;t\x07\u202eabc\tz"}, []string{"abc    z"}},
		{[]string{"\x1b[2K\x1b[3", "1mred\x1b[0m\x1b[10A\n"}, []string{"\x1b[31mred\x1b[0m"}},
		{[]string{strings.Repeat("\x1b[1mx", maxLine)}, []string{strings.Repeat("x", maxLine)}},
		{[]string{"a\n\nb"}, []string{"a", "", "b"}},
	} {
		o := written(test.chunks...)
		if !reflect.DeepEqual(o.lines, test.want) {
			t.Errorf("%q: %q, want %q", test.chunks, o.lines, test.want)
		}
	}
}

// The rows of a screen are no wider than it, and are all of the lines, also those that grow or are drawn
// over.
func TestRowsOfAnOutput(t *testing.T) {
	o := written("short\nabcdefghij", "klm", "nop\n", "漢字漢字漢字 and", " more\r", "again\n", "\n", "end")
	for width, want := range map[int][]string{
		33: {"short", "abcdefghijklmnop", "again", "", "end"},
		10: {"short", "abcdefghij", "klmnop", "again", "", "end"},
		3:  {"sho", "rt", "abc", "def", "ghi", "jkl", "mno", "p", "aga", "in", "", "end"},
	} {
		var got []string
		for _, r := range o.show(width, 100, time.Time{})[1:] {
			got = append(got, plainText(r))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	o = written("a\x1b[31mred and red\x1b[0m end\n")
	var got []string
	for _, r := range o.show(10, 100, time.Time{})[1:] {
		got = append(got, plainText(r))
	}
	if want := []string{"a\x1b[31mred and r", "\x1b[31med\x1b[0m end"}; !reflect.DeepEqual(got, want) {
		t.Errorf("colours: %q, want %q", got, want)
	}
	if r := marked(o.rows(0)[1], "31"); plainText(r) != "ed end" {
		t.Errorf("a search shows colours: %q", r)
	}
	o = written("漢字漢字漢字\n")
	for _, r := range o.show(5, 100, time.Time{})[1:] {
		if term.Columns(plainText(r)) > 5 {
			t.Errorf("%q is wider than the screen", plainText(r))
		}
	}
	o.show(1, 100, time.Time{}) // a character that takes two columns is not waited for
}

func TestLongOutputIsBounded(t *testing.T) {
	o := written()
	const each = 1000 // lines
	for range 2 * keep / each / 100 {
		o.add(partials.NewBatch(0, partials.Chunk{Data: bytes.Repeat(fmt.Appendf(nil, "%099d\n", 0), each)}))
	}
	if o.bytes > keep || len(o.lines) < keep/2/(99+lineCost) || !o.left || o.first.line >= len(o.lines) {
		t.Errorf("%d bytes, %d lines, shown from line %d", o.bytes, len(o.lines), o.first.line)
	}
	o = written()
	for range 100 {
		// lines without text take room, too.
		o.add(partials.NewBatch(0, partials.Chunk{Data: bytes.Repeat([]byte("\n"), 10_000)}))
	}
	if len(o.lines) > keep/lineCost {
		t.Errorf("%d empty lines", len(o.lines))
	}
	o = written()
	for range 4 {
		// No end of a line.
		o.add(partials.NewBatch(0, partials.Chunk{Data: bytes.Repeat([]byte("x"), 1<<20)}))
	}
	if o.bytes > maxLine+lineCost || len(o.rows(0)) > maxLine/10+1 {
		t.Errorf("a line without end: %d bytes, %d rows", o.bytes, len(o.rows(0)))
	}
}

func TestScrollAndSearch(t *testing.T) {
	var all strings.Builder
	for n := range 100 {
		fmt.Fprintf(&all, "Line %d\n", n)
	}
	o := written(all.String())
	const height = 12 // ten rows
	top := func() string { return plainText(o.show(10, height, time.Time{})[1]) }
	for _, step := range []struct {
		do     func()
		top    string
		follow bool
	}{
		{func() {}, "Line 90", true},
		{func() { o.scroll(-1, height) }, "Line 89", false},
		{func() { o.add(partials.NewBatch(0, partials.Chunk{Data: []byte("more\n")})) }, "Line 89", false},
		{func() { o.scroll(-1000, height) }, "Line 0", false},
		{func() { o.find = "line 5"; o.seek(1, height) }, "Line 5", false},
		{func() { o.seek(1, height) }, "Line 50", false},
		{func() { o.seek(-1, height) }, "Line 5", false},
		{func() { o.seek(-1, height) }, "Line 59", false},
		{func() { o.find = "LINE"; o.seek(1, height) }, "Line 59", false}, // large letters are meant
		{func() { o.scroll(1000, height) }, "Line 91", true},
	} {
		if step.do(); top() != step.top || o.follow != step.follow {
			t.Errorf("%q (following: %v), want %q (%v)", top(), o.follow, step.top, step.follow)
		}
	}
	if o.message != "not found: LINE" {
		t.Error(o.message)
	}
	r := marked("Line 5 and line 50", "line 5")
	if want := (row{{"", plain}, {"Line 5", inverse}, {" and ", plain}, {"line 5", inverse},
		{"0", plain}}); !reflect.DeepEqual(r, want) {
		t.Errorf("%q", r)
	}
}

func TestKeys(t *testing.T) {
	for _, test := range []struct {
		typed string
		late  bool
		want  []key
		rest  string
	}{
		{"jk\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[1~\x1b[F", false,
			[]key{'j', 'k', keyUp, keyDown, keyPageUp, keyPageDown, keyHome, keyEnd}, ""},
		{"\x1b[", false, nil, "\x1b["},
		{"\x1b", false, nil, "\x1b"},
		{"\x1b", true, []key{keyEscape}, ""},
		{"\x1bq", false, []key{keyEscape, 'q'}, ""},
		{"\x1b[1;5C\x1b[200~é\r\n", false, []key{keyOther, keyOther, 'é', keyEnter, keyEnter}, ""},
		{"\xc3", false, nil, "\xc3"},
		{"\xc3", true, []key{0xfffd}, ""},
		{"\x1b[12", true, []key{keyOther}, ""},
	} {
		typed, got := []byte(test.typed), []key(nil)
		for len(typed) > 0 {
			k, n := readKey(typed, test.late)
			if n == 0 {
				break
			}
			got, typed = append(got, k), typed[n:]
		}
		if !reflect.DeepEqual(got, test.want) || string(typed) != test.rest {
			t.Errorf("%q: %v and %q, want %v and %q", test.typed, got, typed, test.want, test.rest)
		}
	}
}
