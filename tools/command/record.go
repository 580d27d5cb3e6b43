package command

import (
	"bytes"
	"context"
	"sync/atomic"

	"runnel/internal/system"
	"runnel/partials"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/secrets"
	"runnel/tools/terminal"
	"runnel/tools/text"
)

// record takes the output of one run: it streams it to the log, and keeps the part that the result shows.
type record struct {
	ctx    context.Context
	config *config.Command
	out    *tools.Output
	most   int // text in the result, in bytes
	stdout textStream
	stderr textStream

	watcher *watcher // nil = the tool watches for nothing
	typed   typedPasswords
}

func newRecord(ctx context.Context, config *config.Command, out *tools.Output, most int, w *watcher) *record {
	r := &record{ctx: ctx, config: config, out: out, most: most, watcher: w}
	r.stdout.init(r, partials.Stdout)
	r.stderr.init(r, partials.Stderr)
	return r
}

// masks returns what masks the secrets of one stream.
func (r *record) masks() masks {
	return masks{config: r.out.Secrets().Stream(), latest: &r.typed.set}
}

// textStream is a command's stdout or stderr. Its pump goroutine owns it until the pump has ended.
type textStream struct {
	r    *record
	sink partials.Stream

	bytes int64          // as read
	plain int64          // as text without colours
	strip *text.Stripper // nil with "ansi: keep"
	// They wait for text, so that no client gets a notification without any; see maxColors.
	colors []byte
	utf8   *text.Decoder
	hidden masks
	lines  lineBuffer       // with "output: lines"
	chunks []partials.Chunk // memory for append
	marks  *progressMarks
	watch  *watchedStream // nil = its tool watches for nothing
	kept   text.Shaper
	drawn  *drawn     // gives kept the output of a terminal; nil = put does
	exact  *wholeText // nil unless the output is needed whole
	open   bool       // the last line has no newline
	gone   bool       // the log takes no more output; it is still read and counted

	// These are set for a command whose terminal is interactive.
	encode *text.Encoder    // instead of strip: the log has all that the terminal gets
	screen *terminal.Screen // answers what the program asks its terminal
	// The program draws the whole screen, which another goroutine looks at.
	alternate atomic.Bool
	answers   chan string // of the screen; see Command.feed
}

func (s *textStream) init(r *record, sink partials.Stream) {
	s.r, s.sink = r, sink
	s.utf8, _ = text.NewDecoder(r.config.Encoding, system.OutputCodePage()) // New has checked the name
	s.hidden = r.masks()
	s.kept.Limit, s.kept.KeepFrames = r.most, r.config.ANSI == "keep"
	if r.config.Interactive && sink == partials.Stdout {
		s.encode, s.answers = &text.Encoder{}, make(chan string, maxAnswers)
		columns, rows, _ := r.config.TerminalSize()
		_ = r.out.Log().Append(r.ctx, partials.Chunk{Data: terminal.Resized(columns, rows)}) // for other processes
		s.drawn = newDrawn(s, rows)
		s.screen = terminal.NewScreen(columns, rows, func(code string) {
			select {
			case s.answers <- code:
			default: // it asks and does not read
			}
		})
	} else if r.config.ANSI == "strip" {
		s.strip = &text.Stripper{CRLF: r.config.Pty}
		if _, rows, _ := r.config.TerminalSize(); r.config.Pty {
			s.drawn = newDrawn(s, rows)
		}
		if s.hidden.config == nil { // a colour in the middle of a secret would hide it from the masks
			s.strip.Colors = text.LogColor
		}
	}
	if r.config.Structured == config.StructuredJSON && sink == partials.Stdout {
		s.exact = &wholeText{}
	}
	if r.config.Progress != "" {
		s.marks = newProgressMarks(r.config.Progress, r.out.Progress)
	}
	if r.watcher != nil {
		s.watch = &watchedStream{to: r.watcher}
	}
}

// Write takes output as the command printed it. It never fails.
func (s *textStream) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	s.take(s.utf8.Decode(p))
	return len(p), nil
}

// take takes output as valid text.
func (s *textStream) take(text []byte) {
	if s.drawn != nil {
		s.drawn.write(text)
	}
	s.put(s.hidden.write(s.stripped(text)))
}

// stripped is text as the log keeps it.
func (s *textStream) stripped(text []byte) []byte {
	switch {
	case s.encode != nil:
		encoded := s.encode.Encode(text)
		s.screen.Write(encoded, int(config.MinMaxResult))
		s.alternate.Store(s.screen.Alternate())
		return encoded
	case s.strip != nil:
		return s.strip.Strip(text)
	}
	return text
}

// maxAnswers is how many answers of a screen wait for the program to read them.
const maxAnswers = 16

// finish passes on what was held back, when the command has ended.
func (s *textStream) finish() {
	s.take(s.utf8.Flush())
	if s.drawn != nil {
		s.drawn.end()
	}
	switch {
	case s.encode != nil:
		s.put(s.hidden.write(s.encode.Flush()))
	case s.strip != nil:
		s.put(s.hidden.write(s.strip.Flush()))
	}
	s.put(s.hidden.flush())
	if len(s.colors) > 0 {
		s.log(s.colors) // the last ones reset a person's terminal
	}
	s.lines.flush(s.append)
	if s.watch != nil {
		s.watch.finish()
	}
}

// maxColors bounds what textStream.colors keeps, in bytes.
const maxColors = 4 << 10

// put takes valid text whose secrets are masked. The log alone gets its colours.
func (s *textStream) put(colored []byte) {
	plain := text.WithoutColors(colored)
	// Without text only the cursor has moved, or a line was cleared: people see that.
	if len(plain) == 0 && s.encode != nil {
		if len(colored) > 0 {
			s.log(colored)
		}
		return
	}
	if len(plain) == 0 {
		if len(s.colors)+len(colored) <= maxColors {
			s.colors = append(s.colors, colored...)
		}
		return
	}
	s.plain += int64(len(plain))
	if s.drawn == nil {
		_, _ = s.kept.Write(plain) // never fails
	}
	if s.exact != nil {
		s.exact.add(plain)
	}
	s.open = plain[len(plain)-1] != '\n'
	if s.marks != nil {
		s.marks.scan(plain)
	}
	if len(s.colors) > 0 {
		colored = append(s.colors, colored...)
		s.colors = nil
	}
	s.log(colored)
	if s.watch != nil { // after the log, which an answer to a match shows
		s.watch.scan(plain)
	}
}

// log appends text to the log with its colours.
func (s *textStream) log(colored []byte) {
	if s.r.config.Output == "lines" {
		s.lines.add(colored, s.append)
	} else {
		s.append(colored, []int{len(colored)})
	}
}

// append appends text to the log as chunks, which end at ends. It waits while the client lags too far.
func (s *textStream) append(text []byte, ends []int) {
	if s.gone {
		return
	}
	s.chunks = s.chunks[:0]
	begin := 0
	for _, end := range ends {
		s.chunks = append(s.chunks, partials.Chunk{Stream: s.sink, Data: text[begin:end],
			Whole: s.r.config.Output == "lines"})
		begin = end
	}
	s.gone = s.r.out.Log().Append(s.r.ctx, s.chunks...) != nil
}

// drawn gives the result of a command what stands on its terminal in the end, while the log gets all that it
// has printed. It masks secrets by itself, since the log's text has no moves of the cursor.
type drawn struct {
	stream   *textStream
	terminal terminal.Drawn
	hidden   masks
}

func newDrawn(s *textStream, rows int) *drawn {
	d := &drawn{stream: s, hidden: s.r.masks()}
	d.terminal.Rows = rows
	d.terminal.Take = func(line []byte, at int64) {
		s.kept.SkipTo(at)
		d.keep(d.hidden.write(line))
	}
	return d
}

// write takes output as the terminal gets it.
func (d *drawn) write(text []byte) { d.terminal.Write(text, d.stream.plain) }

// end passes on what stands on the screen.
func (d *drawn) end() {
	d.terminal.End()
	d.keep(d.hidden.flush())
}

func (d *drawn) keep(text []byte) { _, _ = d.stream.kept.Write(text) } // never fails

// masks masks the secrets of one stream of output: those of the config, and the passwords that were typed
// while the command ran.
type masks struct {
	config *secrets.Stream // nil = there are none
	typed  *secrets.Stream // nil = none has been typed
	set    *secrets.Set    // which typed is of
	latest *atomic.Pointer[secrets.Set]
}

func (m *masks) write(text []byte) []byte {
	text = m.config.Write(text)
	if set := m.latest.Load(); set != m.set {
		before := bytes.Clone(m.typed.Flush())
		m.set, m.typed = set, set.Stream()
		return append(before, m.typed.Write(text)...)
	}
	return m.typed.Write(text)
}

// flush returns what was held back at the end of the text.
func (m *masks) flush() []byte {
	text := bytes.Clone(m.typed.Write(m.config.Flush()))
	return append(text, m.typed.Flush()...)
}

// maxTyped is how many typed passwords of a call are masked, the latest ones.
const maxTyped = 8

// typedPasswords are the passwords that were typed for a call. One goroutine adds to them.
type typedPasswords struct {
	values []string
	set    atomic.Pointer[secrets.Set]
}

// add has a password masked from now on, if it is one that can be: a short one would be masked in much that
// is none.
func (t *typedPasswords) add(password string) {
	if secrets.CheckValue(password) != nil {
		return
	}
	t.values = append(t.values, password)
	t.values = t.values[max(0, len(t.values)-maxTyped):]
	if set, err := secrets.New(t.values, nil); err == nil {
		t.set.Store(set)
	}
}
