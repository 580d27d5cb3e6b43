package partials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"runnel/internal/shorten"
	"runnel/rpc/rawjson"
	"runnel/tools/text"
)

// Progress is the dialect of clients that only know notifications/progress: a rising number and, if the
// protocol version allows, the last line of output as the message. It shows only the latest output, so it
// goes with DeliverLastLine.
type Progress struct {
	head    []byte // a line up to the progress
	message bool
	relays  bool // see Relay

	// Factor for the tool's reports: more than 1 if lines of output had come further than its first report.
	scale    float64
	done     float64 // the tool's last report, scaled
	total    float64 // likewise; 0: unknown
	extra    int     // notifications after that report, which it did not cause
	begun    bool
	reported bool    // the tool has reported
	last     float64 // the progress of the last notification

	reports [8]string // the last lines of its latest messages: output that repeats one is not shown
	report  int       // where the next one goes

	written int // number of notifications
}

// maxMessage is the longest message, in bytes: hosts show it on one line.
const maxMessage = 256

// extraSteps is how many notifications between two reports of the tool raise the progress by as much as its
// last report (or by 1). Each raises it so little that the tool's next report is still above them.
const extraSteps = 1e6

// NewProgress makes the progress dialect of one request. token is its progressToken as it was sent, taskID
// the task's id if the client knows it, else "". message says whether the protocol version has messages in
// progress notifications.
func NewProgress(head []byte, token json.RawMessage, taskID string, message bool) *Progress {
	h := fmt.Appendf(nil, `%s,"method":"notifications/progress","params":{`, head)
	if taskID != "" {
		// "All requests, notifications, and responses related to a task MUST include the
		// io.modelcontextprotocol/related-task key" (2025-11-25 basic/utilities/tasks)
		h = fmt.Appendf(h, `"_meta":%s,`, relatedTask(taskID))
	}
	return &Progress{head: fmt.Appendf(h, `"progressToken":%s,"progress":`, token),
		message: message, scale: 1}
}

// Relay makes it pass on the notifications of another server (Pass), which are numbered there. All others,
// such as heartbeats, then raise the progress by so little that the server's next number is still above them,
// and show no lines of the log.
// Call it first.
func (p *Progress) Relay() { p.relays, p.reported = true, true }

// Pass appends a notification of another server with its own params, except for the token.
// Call it after Relay.
func (p *Progress) Pass(dst []byte, params json.RawMessage, done, total float64, message string) []byte {
	p.Passed(done, total, message)
	dst = append(dst, bytes.TrimSuffix(p.head, []byte(`,"progress":`))...)
	for it := rawjson.Over(params); it.Next(); {
		if name := string(it.Name); name != "progressToken" && name != "_meta" {
			dst = append(append(append(append(dst, ','), it.Quoted...), ':'), it.Value...)
		}
	}
	return append(dst, '}', '}', '\n')
}

// Passed notes a notification that was passed in another way.
func (p *Progress) Passed(done, total float64, message string) {
	p.done = done
	p.total = total
	p.last = done
	p.extra = 0
	p.begun = true
	p.written++
	p.remember(message)
}

// Encode implements Dialect: it shows the last line that is not blank or, in a version without messages, that
// there is one.
func (p *Progress) Encode(dst []byte, b Batch) []byte {
	if p.relays {
		b = NewBatch(b.Start, slices.DeleteFunc(b.Chunks(),
			func(c Chunk) bool { return c.Stream == Stderr })...)
	}
	line := []byte(b.LastLine())
	if len(line) == 0 || p.reported && p.total > 0 && p.last >= p.total ||
		slices.Contains(p.reports[:], string(shorten.Cut(line, maxMessage))) {
		return dst // after the total there is no more progress to show
	}
	return p.Heartbeat(dst, line)
}

// Written returns how many notifications were written.
func (p *Progress) Written() int { return p.written }

// End implements Dialect: the response is the end.
func (p *Progress) End(dst []byte) []byte { return dst }

// Count implements Dialect: the last progress, rounded up.
func (p *Progress) Count() int64 { return int64(math.Ceil(min(p.last, math.MaxInt32))) }

// Resume implements Dialect: the progress continues to rise. The tool's earlier reports are not known.
func (p *Progress) Resume(count int64) {
	p.extra = int(count)
	p.begun = count > 0
	p.last = float64(count)
}

// Heartbeat appends a notification that is not a report of the tool, with or without a message.
func (p *Progress) Heartbeat(dst, message []byte) []byte {
	p.tick()
	return p.encode(dst, message)
}

// tick raises the progress: by one while it only counts notifications, by very little after a report of the
// tool.
func (p *Progress) tick() {
	p.extra++
	p.begun, p.last = true, float64(p.extra)
	if p.reported {
		p.last = p.done + float64(p.extra)*max(1, math.Abs(p.done))/extraSteps
	}
}

// Report appends the progress that a tool reports, or nothing if it does not rise: "The progress value MUST
// increase with each notification" (basic/utilities/progress). A total of 0 means that it is unknown.
func (p *Progress) Report(dst []byte, done, total float64, message string) []byte {
	if !finite(done - total) {
		return dst
	}
	if !p.reported { // its first report
		if done == 0 && total == 0 || p.begun && done <= 0 { // nothing is done yet
			p.remember(message)
			return p.Heartbeat(dst, []byte(message))
		}
		if p.begun && done <= p.last {
			p.scale = math.Ceil((p.last + 1) / done) // the share that is done stays the same
		}
	}
	done, total = done*p.scale, total*p.scale
	if p.begun && done <= p.last || !finite(done-total) {
		return dst
	}
	p.done = done
	p.total = total
	p.extra = 0
	p.reported = true
	p.begun, p.last = true, done
	p.remember(message)
	return p.encode(dst, []byte(message))
}

func finite(n float64) bool { return !math.IsNaN(n) && !math.IsInf(n, 0) }

func (p *Progress) remember(message string) {
	line := lastLine([]byte(message))
	p.reports[p.report%len(p.reports)] = string(shorten.Cut(line, maxMessage))
	p.report++
}

func (p *Progress) encode(dst, message []byte) []byte {
	p.written++
	dst = p.appendValue(append(dst, p.head...))
	if p.message && len(message) > 0 {
		dst = append(dst, `,"message":"`...)
		dst = rawjson.AppendText(dst, shorten.Cut(message, maxMessage))
		dst = append(dst, '"')
	}
	return append(dst, '}', '}', '\n')
}

// appendValue appends the progress, with the total unless the progress is past it: heartbeats continue after
// that.
func (p *Progress) appendValue(dst []byte) []byte {
	dst = strconv.AppendFloat(dst, p.last, 'f', -1, 64)
	if p.total > 0 && p.last <= p.total {
		dst = append(dst, `,"total":`...)
		dst = strconv.AppendFloat(dst, p.total, 'f', -1, 64)
	}
	return dst
}

// LastLine returns the last line of text in the batch that is not blank.
func (b Batch) LastLine() string {
	var output []byte
	for _, c := range b.Chunks() {
		if c.Kind == Item {
			c.Data = []byte{'\n'}
		}
		output = append(output, c.Data...)
	}
	return string(lastLine(output))
}

func lastLine(output []byte) []byte {
	// A tool with "ansi: keep" has sequences for a terminal, and no client is one.
	output = bytes.TrimRight(text.StripANSI(output), " \t\r\n")
	return bytes.TrimSpace(output[bytes.LastIndexAny(output, "\r\n")+1:])
}
