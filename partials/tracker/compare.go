package tracker

import (
	"bytes"
	"encoding/json"
	"strings"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Comparison says how the content that came compares with the result's: "the concatenation of all partial
// content items is not guaranteed to equal the final tasks/result content" (SEP-2679, 1.3.8).
type Comparison uint8

// These are the outcomes of [Tracker.Compare].
const (
	Same         Comparison = iota // equal, except for where text is divided into items
	NoneStreamed                   // nothing came; the result is everything
	ResultEmpty                    // the result has no content: the partials are the content (PR #383)
	ResultAdds                     // the result begins with what came, and has more
	Excerpt                        // the result is what came, without its middle
	Different
	NotCompared // more came than is kept for comparing
)

// String describes it to people.
func (c Comparison) String() string {
	return [...]string{
		"the same as the result", "nothing was streamed", "the result has no other content",
		"the result has more",
		"the result shows its head and tail", "not the same as the result",
		"too long to compare with the result",
	}[c]
}

const (
	// maxMerge is how much content is kept for comparing: more than the 8 MiB of a merged SEP-1905 result.
	maxMerge = 16 << 20
	// maxMark is the greatest length of a mark that replaces what an excerpt leaves out.
	maxMark = 256
)

// merged is content in one piece: its text, and its other items between marks that no text contains. Text of
// stderr is kept apart, because a result has it after the rest.
type merged struct {
	flat [3][]byte // stdout, stderr, and how a command ended
	most int       // limit in bytes
	long bool      // there was more
	gap  bool
	any  bool
}

// add appends an item.
func (m *merged) add(p piece) {
	m.any = true
	switch {
	case m.long:
	case p.isText:
		m.flat[p.from] = append(m.flat[p.from], p.text...)
	default:
		m.flat[p.from] = appendOther(m.flat[p.from], p.item)
	}
	if len(m.flat[stdout])+len(m.flat[stderr])+len(m.flat[ended]) > m.most {
		m.long, m.flat = true, [3][]byte{}
	}
}

// stream says what kind of text a piece is, and where merged keeps it.
type stream uint8

const (
	stdout stream = iota
	stderr
	ended // how a command ended
)

// piece is an item.
type piece struct {
	item   json.RawMessage
	isText bool
	text   string
	from   stream
}

func pieceOf(item json.RawMessage) piece {
	p := piece{item: item}
	var text, meta []byte
	for it := rawjson.Over(item); it.Next(); {
		switch string(it.Name) {
		case "type":
			p.isText = rawjson.Unquote(it.Value) == "text"
		case "text":
			text = it.Value
		case "_meta":
			meta = it.Value
		}
	}
	if p.isText = p.isText && len(text) > 0 && text[0] == '"'; !p.isText {
		return p
	}
	p.text = rawjson.Unquote(text)
	switch rawjson.StringMember(meta, mcp.MetaStream) {
	case mcp.StreamStderr:
		p.from = stderr
	case mcp.StreamEnd:
		p.text, p.from = strings.TrimPrefix(p.text, "\n"), ended
	}
	return p
}

// appendOther appends an item that is not text. Two items that differ only in how their JSON is written give
// the same bytes. Numbers stay as they are, because content returns them.
func appendOther(dst []byte, item json.RawMessage) []byte {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(item))
	d.UseNumber()
	if d.Decode(&members) == nil { // always, of an object
		if sorted, err := json.Marshal(members); err == nil {
			item = sorted
		}
	}
	dst = append(append(dst, "\xff{"...), item...) // \xff is in no UTF-8 text
	return append(dst, "}\xff"...)
}

// compare compares a result's content with what came, and returns what the result has beyond it.
func (m *merged) compare(content []json.RawMessage) (result merged, beyond []json.RawMessage) {
	result.most = maxMerge
	for _, item := range content {
		p := pieceOf(item)
		before, came := len(result.flat[p.from]), len(m.flat[p.from])
		result.add(p)
		switch {
		case before >= came:
			beyond = append(beyond, item)
		case p.isText && before+len(p.text) > came:
			beyond = append(beyond, mcp.Text(p.text[came-before:]))
		}
	}
	return result, beyond
}

// judge decides how a result's content compares with what came.
func (m *merged) judge(result *merged) Comparison {
	switch {
	case m.long || result.long:
		return NotCompared
	}
	worst := Same
	for n, whole := range m.flat {
		part := result.flat[n]
		switch {
		case bytes.Equal(whole, part):
		case m.gap:
			worst = Different
		case bytes.HasPrefix(part, whole):
			worst = max(worst, ResultAdds)
		case isExcerpt(whole, part):
			worst = max(worst, Excerpt)
		default:
			worst = Different
		}
	}
	return worst
}

// isExcerpt reports whether part is whole with a mark in place of its middle. It may be followed by a line or
// an item or two that say how it ended and where the whole is.
func isExcerpt(whole, part []byte) bool {
	head := 0
	for head < len(part) && head < len(whole) && part[head] == whole[head] {
		head++
	}
	least := len(part) / 8 // the least length of head and tail: a quarter, except for the rest of a line
	for range 3 {
		// The tail begins somewhere after the head, within the length of a mark.
		for begin := head; begin <= head+maxMark && len(part)-begin > least; begin++ {
			if bytes.HasSuffix(whole[head:], part[begin:]) {
				return head > least
			}
		}
		if item := bytes.LastIndex(part, []byte("\xff{")); item >= 0 &&
			bytes.HasSuffix(part, []byte("}\xff")) {
			part = part[:item]
		} else {
			part = part[:bytes.LastIndexByte(part[:max(len(part)-1, 0)], '\n')+1]
		}
	}
	return false
}

// content returns what was added: text in one piece, with that of stderr after the rest. It is nil if there
// was more than is kept.
func (m *merged) content() (items []json.RawMessage) {
	for _, flat := range m.flat {
		for i, part := range bytes.Split(flat, []byte("\xff")) {
			switch {
			case i%2 == 1: // see appendOther
				items = append(items, part[1:len(part)-1])
			case len(part) > 0:
				items = append(items, mcp.Text(string(part)))
			}
		}
	}
	return items
}
