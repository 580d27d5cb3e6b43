package top

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"runnel/internal/term"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// table is the list of tasks.
type table struct {
	where  string       // the state and the owner, for the title
	all    []tasks.Task // the last list, oldest first
	ended  int          // how many of all have ended
	filter filter
	// Those of all that are shown: the running ones, then those that have ended, each newest first.
	tasks    []tasks.Task
	running  int    // how many of tasks run
	matching int    // how many of all the filter lets pass, also those beyond maxEnded
	selected int    // an index of tasks
	id       string // the selected task's, which may stand elsewhere in the next list
	first    int    // the first line of the list that is shown
	failed   error  // why the list could not be updated
	listed   bool   // there has been a list
}

// maxEnded is how many ended tasks are shown.
const maxEnded = 200

// update takes a new list, oldest task first.
func (t *table) update(list []tasks.Task) {
	t.all, t.listed = list, true
	t.choose()
}

// choose finds the tasks that are shown.
func (t *table) choose() {
	running := make([]tasks.Task, 0, len(t.all))
	var ended []tasks.Task
	t.ended = 0
	for _, task := range slices.Backward(t.all) {
		over := task.Status.Terminal()
		if over {
			t.ended++
		}
		switch {
		case !t.filter.shows(&task):
		case over:
			ended = append(ended, task)
		default:
			running = append(running, task)
		}
	}
	slices.SortStableFunc(ended, func(a, b tasks.Task) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	t.tasks, t.running = append(running, ended[:min(len(ended), maxEnded)]...), len(running)
	t.matching = len(running) + len(ended)
	if at := slices.IndexFunc(t.tasks, func(task tasks.Task) bool { return task.ID == t.id }); at >= 0 {
		t.selected = at
	}
	t.move(0)
}

// move moves the selection down by some lines.
func (t *table) move(by int) {
	t.selected = max(min(t.selected+by, len(t.tasks)-1), 0)
	if t.id = ""; len(t.tasks) > 0 {
		t.id = t.tasks[t.selected].ID
	}
}

// find returns a task of the list, nil if it is not there.
func (t *table) find(id string) *tasks.Task {
	for i := range slices.Backward(t.all) {
		if t.all[i].ID == id {
			return &t.all[i]
		}
	}
	return nil
}

const (
	idWidth     = 8
	statusWidth = 9
	ageWidth    = 6
	meterWidth  = 4
	// narrow is the width below which there is no separate column for the progress.
	narrow = 70
	// wide is the width from which on there are columns for the host, the arguments and both times.
	wide = 120
)

// toolWidth returns the width of the column of tools: that of the longest name, but at most a fifth of the
// screen; with a column of hosts, a tenth, for each of the two.
func (t *table) toolWidth(width int) int {
	widest, most := len("TOOL"), width/5
	if width >= wide {
		most = width / 10
	}
	for i := range t.tasks {
		widest = max(widest, len(t.tasks[i].Tool))
		if width >= wide {
			widest = max(widest, len(t.tasks[i].Client))
		}
	}
	return min(widest, max(most, len("TOOL")))
}

// rows returns the rows of the screen, except the last one.
func (t *table) rows(width, height int, now time.Time) []row {
	head := row{
		{fmt.Sprintf("runnel top  %d running, %d ended  ", len(t.all)-t.ended, t.ended), bold},
		safe(t.where, dim),
	}
	if t.filter != (filter{}) {
		head = slices.Insert(head, 1, safe(fmt.Sprintf("%d shown: %s  ", t.matching, t.filter), yellow))
	}
	tool := t.toolWidth(width)
	titles := func(status, age, last string) row {
		r := row{{"  ", plain}, cell("ID", idWidth, dim), cell(status, statusWidth, dim),
			cell("TOOL", tool, dim)}
		if width >= wide {
			r = append(r, cell("HOST", tool, dim), cell("AGE", ageWidth, dim))
			age = "TOOK"
		}
		r = append(r, cell(age, ageWidth, dim))
		if width >= narrow {
			r = append(r, cell("DONE", meterWidth, dim))
		}
		if width >= wide {
			r = append(r, cell("ARGUMENTS", width/4, dim))
		}
		return append(r, span{last, dim})
	}
	list := []row{titles("STATUS", "AGE", "LAST LINE")}
	selected := 0
	for i := range t.tasks {
		if i == t.running {
			list = append(list, nil, titles("ENDED", "TOOK", "HOW"))
		}
		if i == t.selected {
			selected = len(list)
		}
		list = append(list, t.row(&t.tasks[i], i == t.selected, tool, width, now))
	}
	switch {
	case t.failed != nil:
		list = append(list, nil, row{safe("The tasks cannot be read: "+t.failed.Error(), red)})
	case len(t.tasks) == 0 && t.listed:
		words := "  no tasks"
		if len(t.all) > 0 {
			words = "  no such tasks: Esc shows all"
		}
		list = append(list, row{{words, dim}})
	}
	room := max(height-2, 1)
	if selected <= 1 {
		t.first = 0 // with the titles
	}
	t.first = max(min(t.first, selected, len(list)-room), selected-room+1, 0)
	return append([]row{head}, list[t.first:min(t.first+room, len(list))]...)
}

func (t *table) row(task *tasks.Task, selected bool, tool, width int, now time.Time) row {
	mark, l := "  ", plain
	if selected {
		mark, l = "> ", bold
	}
	age := now.Sub(task.CreatedAt)
	took := age
	if task.Status.Terminal() {
		took = task.UpdatedAt.Sub(task.CreatedAt)
	}
	word, color := status(task)
	r := row{{mark, l}, cell(task.ID, idWidth, l), cell(word, statusWidth, color), cell(task.Tool, tool, l)}
	if width >= wide {
		r = append(r, cell(task.Client, tool, l), cell(term.Age(age), ageWidth, l))
	}
	r = append(r, cell(term.Age(took), ageWidth, l))
	meter := ""
	if !task.Status.Terminal() {
		meter = progress(task)
	}
	says, _, _ := strings.Cut(task.StatusMessage, "\n")
	if width >= narrow {
		r = append(r, cell(meter, meterWidth, l))
	} else if meter != "" {
		says = meter + " " + says
	}
	if width >= wide {
		r = append(r, cell(arguments(task), width/4, l))
	}
	return append(r, safe(says, l))
}

// status returns a task's status in a word for people.
func status(t *tasks.Task) (word string, color look) {
	switch {
	case t.Waiting:
		return "waiting", yellow
	case t.Status == mcp.TaskInputRequired:
		return "asks", yellow
	case t.Status == mcp.TaskCompleted:
		return string(t.Status), green
	case t.Status == mcp.TaskFailed:
		return string(t.Status), red
	}
	return string(t.Status), plain
}

// percentMark and countMark match progress as most programs write it. They are compiled at the first use, so
// that no start of a server pays for them.
var (
	percentMark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(\d{1,3})(?:\.\d+)?\s?%`) })
	countMark   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\[(]\s*(\d{1,9})/(\d{1,9})[\])]`) })
)

// progress returns how far a task is: as its tool reports or, failing that, as its last line shows; "" if
// unknown.
func progress(t *tasks.Task) string {
	if p := t.Progress; p.Total > 0 && p.Done <= p.Total {
		return fmt.Sprintf("%.0f%%", math.Floor(p.Done/p.Total*100))
	}
	line := t.StatusMessage
	if m := percentMark().FindStringSubmatch(line); m != nil {
		return m[1] + "%"
	}
	m := countMark().FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	var done, total int
	if _, err := fmt.Sscan(m[1], &done); err != nil {
		return ""
	}
	if _, err := fmt.Sscan(m[2], &total); err != nil || total == 0 || done > total {
		return ""
	}
	return fmt.Sprintf("%d%%", done*100/total)
}

// filter says which tasks the table shows. Its zero value shows all.
type filter struct {
	failed     bool // only those that failed
	tool, host string
	text       string // in the tool, the host, the arguments, or the last line or how it ended
}

func (f *filter) shows(t *tasks.Task) bool {
	switch {
	case f.failed && t.Status != mcp.TaskFailed, f.tool != "" && f.tool != t.Tool, f.host != "" &&
		f.host != t.Client:
		return false
	case f.text == "":
		return true
	}
	words := []string{t.ID, t.Tool, t.Client, arguments(t), t.StatusMessage}
	at, _ := index(term.Plain(strings.Join(words, " ")), f.text)
	return at >= 0
}

// String names what is shown.
func (f filter) String() string {
	var words []string
	if f.failed {
		words = append(words, "failed")
	}
	if f.tool != "" {
		words = append(words, "tool "+f.tool)
	}
	if f.host != "" {
		words = append(words, "host "+f.host)
	}
	if f.text != "" {
		words = append(words, "/"+f.text)
	}
	return strings.Join(words, ", ")
}

// pick turns a choice on, or off if it was made already.
func pick(choice *string, value string) {
	if *choice == value {
		value = ""
	}
	*choice = value
}

// maxArguments is how much of the arguments of a task is looked at, in bytes: no screen shows more.
const maxArguments = 1 << 10

// arguments writes the arguments of a task for people.
func arguments(t *tasks.Task) string {
	var words []string
	size := 0
	for it := rawjson.Over(t.Arguments); it.Next() && size < maxArguments; {
		value := string(it.Value[:min(len(it.Value), maxArguments)])
		if strings.HasPrefix(value, `"`) && len(it.Value) <= maxArguments {
			value = rawjson.Unquote(it.Value)
		}
		words = append(words, string(it.Name)+"="+value)
		size += len(words[len(words)-1])
	}
	return strings.Join(words, " ")
}
