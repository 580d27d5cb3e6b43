package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// partial is notifications/tasks/partial as a client reads it.
type partial struct {
	Method string `json:"method"`
	Params struct {
		TaskID  string `json:"taskId"`
		Seq     int    `json:"seq"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"params"`
}

func decodePartial(line []byte) (*partial, error) {
	var p partial
	if err := json.Unmarshal(line, &p); err != nil {
		return nil, err
	}
	if p.Method != partialMethod {
		return nil, fmt.Errorf("no partial: %s", clipLine(line))
	}
	return &p, nil
}

// text is the text of all items.
func (p *partial) text() string {
	var b strings.Builder
	for _, c := range p.Params.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// chunk is a line that the self-test tool stream writes, without its newline.
var chunk = regexp.MustCompile(`^chunk ([0-9]{6})( t=([0-9]+))?( x*)?$`)

// checkChunks checks that text is exactly the chunks 0 to n-1 of size bytes each.
func checkChunks(text string, n, size int) error {
	if len(text) != n*size {
		return fmt.Errorf("%d bytes, want %d chunks of %d", len(text), n, size)
	}
	for i := range n {
		line := text[i*size : (i+1)*size]
		m := chunk.FindStringSubmatch(line[:size-1])
		if m == nil || line[size-1] != '\n' {
			return fmt.Errorf("chunk %d is %q", i, line)
		}
		if number, _ := strconv.Atoi(m[1]); number != i {
			return fmt.Errorf("chunk %d is in the place of %d", number, i)
		}
	}
	return nil
}
