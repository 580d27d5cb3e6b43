package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"runnel/rpc/mcp"
)

// conversation is what a model is asked: the prompt, and the rounds so far.
type conversation struct {
	model    string
	system   string // "" = nothing
	prompt   string
	pictures []picture
	tools    []mcp.Tool // that it may call
	rounds   []round

	maxTokens int             // of the next answer
	json      bool            // the answer is a JSON object
	schema    json.RawMessage // of that object; nil = any
}

// round is an answer that calls tools, and what came of the calls.
type round struct {
	said    any // the answer, in the form in which its API takes it back
	results []result
}

// toolCall is a call of a tool by a model.
type toolCall struct {
	id, name  string
	arguments json.RawMessage
}

// result is what came of a toolCall.
type result struct {
	toolCall
	text   string
	failed bool
}

// picture is an image for the model.
type picture struct {
	mime string
	data []byte
}

// stop is why an answer has ended.
type stop int

const (
	stopEnd    stop = iota // it is whole, or calls tools
	stopLength             // it has reached its most tokens
	stopRefuse             // the model, or a filter of its provider, refuses
)

// answer is what a model says to one request.
type answer struct {
	write func(text string) error // hands text on as it comes
	text  []byte
	calls []toolCall
	said  any // see round
	used  usage

	pictures     [][]byte
	pictureBytes int
	size         int // bytes of all that is kept of it

	stop    stop
	refusal []byte // why, as the model says it; often empty
	ended   bool   // it was not cut off
}

// maxAnswer bounds what is kept of an answer, its text, thoughts and calls, in bytes: more than the largest
// model writes in one.
const maxAnswer = 4 << 20

// keep counts what is kept of the answer. It fails if that is too much.
func (a *answer) keep(bytes int) error {
	if a.size += bytes; a.size > maxAnswer {
		return &failure{message: "the answer is too long: the limit is 4 MiB"}
	}
	return nil
}

// say takes the next piece of the text.
func (a *answer) say(text string) error {
	if text == "" {
		return nil
	}
	if err := a.keep(len(text)); err != nil {
		return err
	}
	a.text = append(a.text, text...)
	return a.write(text)
}

// maxMade bounds the pictures of an answer together, in bytes.
const maxMade = 32 << 20

// picture takes a picture, in base64 with or without a data: URI before it. The same again does not count.
func (a *answer) picture(encoded string) error {
	if _, data, isURI := strings.Cut(encoded, ";base64,"); isURI {
		encoded = data
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return unreadable(fmt.Errorf("a picture: %w", err))
	}
	if slices.ContainsFunc(a.pictures, func(p []byte) bool { return bytes.Equal(p, data) }) {
		return nil
	}
	if a.pictureBytes += len(data); a.pictureBytes > maxMade || len(a.pictures) == maxPictures {
		return &failure{message: fmt.Sprintf("the answer has too many pictures: the limits are %d, and 32 MiB", maxPictures)}
	}
	a.pictures = append(a.pictures, data)
	return nil
}

// refuse takes the next piece of what the model says instead of an answer.
func (a *answer) refuse(text string) error {
	a.stop = stopRefuse
	a.refusal = append(a.refusal, text...)
	return a.keep(len(text))
}

// api is how a provider is asked, and how it answers.
type api interface {
	// request returns the path below the base URL and the body of the request for the next answer.
	request(c *conversation) (path string, body any)
	// authorize returns the headers that carry the key; "" = there is none.
	authorize(key string) map[string]string
	// answer returns what takes the events of one answer, in order. A *failure is what the provider says went
	// wrong.
	answer(a *answer) func(event []byte) error
}

var apis = map[string]api{"anthropic": anthropic{}, "openai": chat{}, "responses": responses{},
	"ollama": ollama{}}

// bearer is the header in which most providers take the key.
func bearer(key string) map[string]string {
	if key == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + key}
}

// functions returns the tools as chat completions and Ollama describe them, nil if there are none.
func (c *conversation) functions() (list []object) {
	for _, t := range c.tools {
		list = append(list, object{"type": "function", "function": object{"name": t.Name,
			"description": t.Description, "parameters": t.InputSchema}})
	}
	return list
}
