package command

import (
	"context"

	"runnel/partials"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/secrets"
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
}

func newRecord(ctx context.Context, config *config.Command, out *tools.Output, most int) *record {
	r := &record{ctx: ctx, config: config, out: out, most: most}
	r.stdout.init(r, partials.Stdout)
	r.stderr.init(r, partials.Stderr)
	return r
}

// textStream is a command's stdout or stderr. Its pump goroutine owns it until the pump has ended.
type textStream struct {
	r    *record
	sink partials.Stream

	bytes  int64          // as read
	strip  *text.Stripper // nil with "ansi: keep"
	utf8   text.Decoder
	hidden *secrets.Stream  // masks secrets; nil = there are none
	lines  lineBuffer       // with "output: lines"
	chunks []partials.Chunk // memory for append
	marks  *progressMarks
	kept   text.Shaper
	exact  *wholeText // nil unless the output is needed whole
	open   bool       // the last line has no newline
	gone   bool       // the log takes no more output; it is still read and counted
}

func (s *textStream) init(r *record, sink partials.Stream) {
	s.r, s.sink = r, sink
	s.hidden = r.out.Secrets().Stream()
	s.kept.Limit, s.kept.KeepFrames = r.most, r.config.ANSI == "keep"
	if r.config.ANSI == "strip" {
		s.strip = &text.Stripper{CRLF: r.config.Pty}
	}
	if r.config.Structured == config.StructuredJSON && sink == partials.Stdout {
		s.exact = &wholeText{}
	}
	if r.config.Progress != "" {
		s.marks = newProgressMarks(r.config.Progress, r.out.Progress)
	}
}

// Write takes output as the command printed it. It never fails.
func (s *textStream) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	printed := p
	if s.strip != nil {
		printed = s.strip.Strip(p)
	}
	s.put(s.hidden.Write(s.utf8.Decode(printed)))
	return len(p), nil
}

// finish passes on what was held back, when the command has ended.
func (s *textStream) finish() {
	if s.strip != nil {
		s.put(s.hidden.Write(s.utf8.Decode(s.strip.Flush())))
	}
	s.put(s.hidden.Write(s.utf8.Flush()))
	s.put(s.hidden.Flush())
	s.lines.flush(s.append)
}

// put takes valid text whose secrets are masked.
func (s *textStream) put(text []byte) {
	if len(text) == 0 {
		return
	}
	_, _ = s.kept.Write(text) // never fails
	if s.exact != nil {
		s.exact.add(text)
	}
	s.open = text[len(text)-1] != '\n'
	if s.marks != nil {
		s.marks.scan(text)
	}
	if s.r.config.Output == "lines" {
		s.lines.add(text, s.append)
	} else {
		s.append(text, []int{len(text)})
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
		s.chunks = append(s.chunks, partials.Chunk{Stream: s.sink, Data: text[begin:end], Whole: s.r.config.Output == "lines"})
		begin = end
	}
	s.gone = s.r.out.Log().Append(s.r.ctx, s.chunks...) != nil
}
