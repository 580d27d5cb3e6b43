package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/artifacts"
	"runnel/tools/config"
	"runnel/tools/text"
)

// maxStructured is the longest structuredContent, in bytes of JSON. The result has the same as text, too.
const maxStructured = mcp.MaxContent / 2

// result returns the result of a call: the last answer, and a last line if it did not end well. failed is why
// no answer came, nil if one did.
func (c *call) result(ctx context.Context, failed error) *mcp.CallToolResult {
	said := []byte{}
	if c.latest != nil {
		said = c.latest.text
	}
	verdict := ""
	switch {
	case errors.Is(failed, errTimeout):
		verdict = "timed out after " + c.config.Timeout.String()
	case failed != nil:
		verdict = failed.Error()
	case c.latest.stop == stopLength && c.capped != "":
		verdict = "the answer ends here, since the budget allows no more: " + c.capped
	case c.latest.stop == stopRefuse:
		verdict = "the model refuses"
		if why := strings.Join(strings.Fields(string(c.latest.refusal)), " "); why != "" {
			verdict += ": " + why
		}
	case c.talk.json:
		if err := c.checkJSON(said); err != nil {
			verdict = "the answer is not the expected JSON: " + err.Error()
			if c.latest.stop == stopLength {
				verdict = fmt.Sprintf("the answer is not whole: it has reached its limit of %d tokens "+
					"(maxTokens)",
					c.talk.maxTokens)
			}
		}
	}
	verdict = shorten.Clip(c.out.Secrets().String(verdict), tasks.MaxStatusMessage/2)
	result := &mcp.CallToolResult{IsError: verdict != "",
		Meta: map[string]any{mcp.MetaUsage: rawjson.Encode(c.used)}}
	last := verdict
	switch {
	case verdict != "":
		c.in.Said.Status = verdict
	case c.talk.json:
		result.StructuredContent = bytes.TrimSpace(said)
	case c.latest.stop == stopLength:
		last = fmt.Sprintf("[the answer ends here: it has reached its limit of %d tokens (maxTokens)]",
			c.talk.maxTokens)
	case len(said) == 0 && len(c.made) == 0:
		last = "[the model has said nothing]"
	}
	most := c.in.MaxResult(c.maxResult())
	if verdict != "" {
		most = c.in.MaxError(c.maxResult())
	}
	shown := string(said)
	if room := max(most-len(last)-len(`\n`), int(config.MinMaxResult)/2); len(rawjson.Encode(shown)) > room {
		s := text.Shaper{Limit: most, KeepFrames: true, From: c.out.Log().Size() - int64(len(said))}
		_, _ = s.Write(said) // it never fails
		shown, c.in.Said.Truncated = s.Text(room, c.in.LeftOut(ctx))
	}
	if last != "" && shown != "" && !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	pictures := artifacts.KeepPictures(ctx, c.in, c.made)
	if shown += last; shown != "" || len(pictures) == 0 {
		result.Content = []mcp.ContentBlock{mcp.Text(shown)}
	}
	result.Content = append(result.Content, pictures...)
	rest := []mcp.ContentBlock{} // who has followed the output has all but the last line
	if last != "" {
		if c.open {
			last = "\n" + last
		}
		rest = append(rest, tools.StreamText(last, mcp.StreamEnd))
	}
	rest = append(rest, pictures...)
	c.in.Said.Rest = &rest
	return result
}

// checkJSON returns what is wrong with an answer that should be a JSON object.
func (c *call) checkJSON(said []byte) error {
	object := bytes.TrimSpace(said)
	switch {
	case len(object) > maxStructured:
		return fmt.Errorf("it is too long: the limit is %d bytes", maxStructured)
	case !json.Valid(object):
		return errors.New("it is not JSON")
	case !rawjson.IsObject(object):
		return errors.New("it is not an object, {...}")
	case c.outputs == nil:
		return nil
	}
	return c.outputs.Check(object)
}
