package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnel/internal/modeltest"
	"runnel/partials"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/toolstest"
)

var allAPIs = []string{"anthropic", "openai", "responses", "ollama"}

// Every API is asked as its provider wants it, and its answer is the output as it comes and the result.
func TestAnswer(t *testing.T) {
	const said = "Hello, \"wörld\"\nand all."
	for api, want := range map[string]struct {
		path, key string
		body      []string
	}{
		"anthropic": {"/base/v1/messages", "X-Api-Key s3cr3t-key", []string{`"max_tokens":4096`, `"system":"You are terse."`,
			`"content":[{"text":"Say \"hi\" {{who}}!","type":"text"}]`}},
		"openai": {"/base/chat/completions", "Authorization Bearer s3cr3t-key", []string{`"max_tokens":4096`,
			`{"content":"You are terse.","role":"system"},{"content":"Say \"hi\" {{who}}!","role":"user"}`,
			`"stream_options":{"include_usage":true}`}},
		"responses": {"/base/responses", "Authorization Bearer s3cr3t-key", []string{`"max_output_tokens":4096`,
			`"instructions":"You are terse."`, `"text":"Say \"hi\" {{who}}!","type":"input_text"`, `"store":false`}},
		"ollama": {"/base/api/chat", "Authorization Bearer s3cr3t-key", []string{`"options":{"num_predict":4096}`,
			`{"content":"Say \"hi\" {{who}}!","role":"user"}`}},
	} {
		t.Run(api, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := parse(t, question(api))
				called, asked := ask(t, m, modeltest.Answer{Tokens: words(said), Input: 12, Output: 7})
				if called.IsError || called.Output != said || called.Text() != said || called.StructuredContent != nil {
					t.Errorf("%v %q %q", called.IsError, called.Output, called.Text())
				}
				wantUsage := usage{Model: "m-1", Requests: 1, InputTokens: 12, OutputTokens: 7}
				if got := usageOf(t, called.CallToolResult); got != wantUsage {
					t.Errorf("usage %+v, want %+v", got, wantUsage)
				}
				r := asked[0]
				name, key, _ := strings.Cut(want.key, " ")
				if len(asked) != 1 || r.Path != want.path || r.Header.Get(name) != key || r.Body["model"] != "m-1" {
					t.Errorf("%d requests, %s, %v", len(asked), r.Path, r.Header)
				}
				for _, part := range want.body {
					if !strings.Contains(r.Text, part) {
						t.Errorf("the request has not %s:\n%s", part, r.Text)
					}
				}
			})
		})
	}
}

// An answer that reaches its most tokens says so, one that is refused is an error, and one without a word is
// not empty.
func TestStops(t *testing.T) {
	for api, stops := range map[string][2]string{"anthropic": {"max_tokens", "refusal"}, "openai": {"length", "content_filter"},
		"responses": {"max_output_tokens", "content_filter"}, "ollama": {"length", ""}} {
		t.Run(api, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := parse(t, question(api))
				cut, _ := ask(t, m, modeltest.Answer{Tokens: words("Half a"), Stop: stops[0]})
				if want := "Half a\n[the answer ends here: it has reached its limit of 4096 tokens (maxTokens)]"; cut.IsError ||
					cut.Text() != want || cut.Output != "Half a" {
					t.Errorf("%v %q %q", cut.IsError, cut.Output, cut.Text())
				}
				if stops[1] != "" {
					refused, _ := ask(t, m, modeltest.Answer{Stop: stops[1]})
					if !refused.IsError || refused.Text() != "the model refuses" {
						t.Errorf("%q", refused.Text())
					}
				}
				silent, _ := ask(t, m, modeltest.Answer{})
				if silent.IsError || silent.Text() != "[the model has said nothing]" {
					t.Errorf("%q", silent.Text())
				}
			})
		})
	}
}

// A request that is refused for a while is made again when the provider says, or with growing pauses; one
// that is wrong is not. The key is in no error.
func TestRefusals(t *testing.T) {
	fine := modeltest.Answer{Tokens: []string{"fine"}}
	after := func(name, value string) map[string]string { return map[string]string{name: value} }
	for name, test := range map[string]struct {
		answers       []modeltest.Answer
		output, text  string
		requests      int
		least, most   time.Duration
		failsWith     string
		keysOfOutputs string
	}{
		"429": {answers: []modeltest.Answer{{Status: 429, Header: after("Retry-After", "20"),
			Says: `{"error":{"type":"rate_limit_error","message":"slow\ndown"}}`}, fine},
			output: "[attempt 2: HTTP 429 Too Many Requests: slow down]\nfine", requests: 2, least: 20 * time.Second, most: 20 * time.Second},
		"date": {answers: []modeltest.Answer{{Status: 503, Header: after("Retry-After", "Sat, 01 Jan 2000 00:00:30 GMT")}, fine},
			output: "[attempt 2: HTTP 503 Service Unavailable]\nfine", requests: 2, least: 29 * time.Second, most: 31 * time.Second},
		"529 and 500": {answers: []modeltest.Answer{{Status: 529}, {Status: 500, Says: "oops"}, fine},
			output: "[attempt 2: HTTP 529 Overloaded]\n[attempt 3: HTTP 500 Internal Server Error: oops]\nfine", requests: 3,
			least: 1125 * time.Millisecond, most: 1500 * time.Millisecond},
		"always": {answers: []modeltest.Answer{{Status: 500}}, requests: 5, least: 5 * time.Second, most: 8 * time.Second,
			failsWith: "HTTP 500 Internal Server Error (attempt 5, the last one: retries)"},
		"too late": {answers: []modeltest.Answer{{Status: 429, Header: after("Retry-After", "3600")}}, requests: 1,
			failsWith: "HTTP 429 Too Many Requests (it wants to be asked again in 1h0m0s)"},
		"no money": {answers: []modeltest.Answer{{Status: 429, Says: `{"error":{"code":"insufficient_quota","message":"pay"}}`}},
			requests: 1, failsWith: "HTTP 429 Too Many Requests: pay"},
		"wrong key": {answers: []modeltest.Answer{{Status: 401, Says: `{"error":{"message":"bad key s3cr3t-key"}}`}},
			requests: 1, failsWith: "HTTP 401 Unauthorized: bad key s3cr3t-key"}, // this Runner masks nothing
		"ollama's": {answers: []modeltest.Answer{{Status: 404, Says: `{"error":"model 'm-1' not found"}`}},
			requests: 1, failsWith: "HTTP 404 Not Found at /base/chat/completions: model 'm-1' not found"},
		"elsewhere": {answers: []modeltest.Answer{{Status: 307, Header: after("Location", "http://elsewhere/")}},
			requests: 1, failsWith: "HTTP 307 Temporary Redirect: redirects are not followed: name the place that it leads to (url)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := parse(t, question("openai"))
				began := time.Now()
				called, asked := ask(t, m, test.answers...)
				took := time.Since(began) / 2 // of two calls
				if name == "date" {
					took = time.Since(began) // by the second call that time is over
				}
				if test.failsWith == "" {
					test.text = "fine"
				} else {
					test.text = test.failsWith
				}
				if called.IsError != (test.failsWith != "") || called.Text() != test.text || len(asked) != test.requests {
					t.Errorf("%v %q, %d requests, want %q, %d", called.IsError, called.Text(), len(asked), test.text, test.requests)
				}
				if test.output != "" && name != "date" && called.Output != test.output {
					t.Errorf("output %q, want %q", called.Output, test.output)
				}
				if took < test.least || took > max(test.most, test.least) {
					t.Errorf("it took %v, want %v to %v", took, test.least, test.most)
				}
			})
		})
	}
}

// An answer that is cut off anywhere, or fails in its middle, is asked for again: what came of it stays in
// the output, the result is the whole answer alone.
func TestCuts(t *testing.T) {
	fine := modeltest.Answer{Tokens: []string{"all ", "of it"}, Input: 10, Output: 5}
	faults := map[string]string{
		"anthropic": "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		"openai":    "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n",
		"responses": "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"Overloaded\",\"param\":null,\"sequence_number\":9}\n\n",
		"ollama":    "{\"error\":\"Overloaded\"}\n",
	}
	for _, api := range allAPIs {
		t.Run(api, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := parse(t, question(api))
				failed, _ := ask(t, m, modeltest.Answer{Tokens: []string{"half"}, Fault: faults[api]}, fine)
				if !strings.HasPrefix(failed.Output, "half\n[attempt 2: ") || !strings.Contains(failed.Output, "Overloaded]\nall of it") ||
					failed.Text() != "all of it" || failed.IsError {
					t.Errorf("%q %q", failed.Output, failed.Text())
				}
				if u := usageOf(t, failed.CallToolResult); u.Requests != 2 || u.OutputTokens < 6 || !u.Estimated {
					t.Errorf("what was cut off is not counted: %+v", u)
				}
				silent, _ := ask(t, m, modeltest.Answer{Tokens: []string{"half"}, Silence: true}, fine)
				if want := "half\n[attempt 2: nothing came for 10m]\nall of it"; silent.Output != want {
					t.Errorf("%q", silent.Output)
				}
				text := strings.Join(words("one two three four five six"), "")
				for cut := 1; cut < 3000; cut += 97 {
					called, asked := ask(t, m, modeltest.Answer{Tokens: words(text), CutAt: cut, Input: 10}, fine)
					want := "all of it"
					if len(asked) == 1 { // it was whole by then
						want = text
					}
					begun, _, again := strings.Cut(called.Output, "[attempt 2: the answer was cut off")
					if called.IsError || called.Text() != want || again != (len(asked) == 2) ||
						!strings.HasPrefix(text, strings.TrimSuffix(begun, "\n")) || !strings.HasSuffix(called.Output, want) {
						t.Errorf("cut at %d: %d requests, %q, %q", cut, len(asked), called.Output, called.Text())
					}
				}
			})
		})
	}
}

// Events that no provider should send fail the call in words, and are not asked for again and again.
func TestStrangeEvents(t *testing.T) {
	for api, faults := range map[string][]string{
		"anthropic": {"data: {\n\n", "data: {\"type\":\"content_block_delta\",\"index\":7,\"delta\":{\"text\":\"x\"}}\n\n",
			"data: {\"type\":\"content_block_start\",\"content_block\":7}\n\n", "data: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no\"}}\n\n"},
		"openai": {"data: x\n\n", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":3}]}}]}\n\n",
			"data: {\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\"}}\n\n"},
		"responses": {"data: []\n\n", "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"invalid_prompt\",\"message\":\"no\"}}}\n\n"},
		"ollama":    {"x\n"},
	} {
		t.Run(api, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := parse(t, question(api))
				for _, fault := range faults {
					called, asked := ask(t, m, modeltest.Answer{Tokens: []string{"half"}, Fault: fault})
					if !called.IsError || !strings.HasPrefix(called.Text(), "half\n") || called.Output != "half" || len(asked) != 1 {
						t.Errorf("%q: %v %q, output %q, %d requests", fault, called.IsError, called.Text(), called.Output, len(asked))
					}
				}
			})
		})
	}
}

// A call that takes too long ends with what has come.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, strings.TrimSuffix(question("anthropic"), "}")+", timeout: 4500ms}")
		began := time.Now()
		called, _ := ask(t, m, modeltest.Answer{Tokens: words("one two three four five six seven"), Pace: time.Second})
		if took := time.Since(began); took != 9*time.Second || !called.IsError ||
			!strings.HasPrefix(called.Text(), "one two three four ") || !strings.HasSuffix(called.Text(), "\ntimed out after 4.5s") {
			t.Errorf("%v, %v, %q", took, called.IsError, called.Text())
		}
	})
}

// Mistakes in the config have their place and what is right.
func TestMistakes(t *testing.T) {
	const base = `api: anthropic, name: m, prompt: "{{a}}"`
	for text, want := range map[string]string{
		`{model: {api: claude, name: m, prompt: x}}`:                                             `model.api: "claude" is unknown (allowed: anthropic, openai, responses, ollama, sampling)`,
		`{model: {api: openai, prompt: x}}`:                                                      `model: names no model`,
		`{model: {api: openai, name: m}}`:                                                        `model: asks nothing`,
		`{command: [echo], model: {api: openai, name: m, prompt: x}}`:                            `command: is for commands, and this tool has a model`,
		`{pty: true, model: {api: openai, name: m, prompt: x}}`:                                  `pty: is for commands`,
		`{model: {` + base + `}}`:                                                                `model.prompt: placeholder {{a}} names no input`,
		`{model: {` + base + `}, input: {a: {}, b: {}}}`:                                         `input.b: the model does not get it`,
		`{model: {` + base + `, url: "localhost:80"}, input: {a: {}}}`:                           `model.url: is not the URL of a server`,
		`{model: {` + base + `, maxTokens: -1}, input: {a: {}}}`:                                 `model.maxTokens: -1 is out of range`,
		`{model: {` + base + `, budget: {usd: 1}}, input: {a: {}}}`:                              `model.budget[0].usd: needs to know what tokens cost`,
		`{model: {` + base + `, budget: [{tokens: 5}, {per: day}]}, input: {a: {}}}`:             `model.budget[1]: limits nothing`,
		`{model: {` + base + `, budget: {tokens: 5, per: week}}, input: {a: {}}}`:                `model.budget[0].per: "week" is unknown`,
		`{model: {` + base + `}, input: {a: {}}, structured: summary}`:                           `structured: "summary" is not for a model`,
		`{model: {` + base + `}, input: {a: {}}, outputSchema: {type: object}}`:                  `outputSchema: describes an answer that is not in the result as JSON`,
		`{model: {` + base + `}, input: {a: {}}, structured: json, outputSchema: {type: array}}`: `outputSchema.type: "array": what a tool returns is an object`,
		`{maxConcurrent: 1, model: {api: openai, name: m, prompt: x, tools: [ask]}}`:             `maxConcurrent: would make the model wait for itself`,
		`{maxConcurrent: 1, model: {api: openai, name: m, prompt: x, tools: [b]}}
  b: {steps: [{id: c, tool: ask}]}`: `maxConcurrent: would make the model wait for itself`,
		`{model: {` + base + `}, input: {a: {}}, retry: {times: 2}}`:        `retry: is more than how often a call is begun again after the death of its worker (allowed: 0 to 100; model.retries`,
		`{model: {` + base + `}, input: {a: {}}, runs: "a b"}`:              `runs: "a b" is not a class of workers`,
		`{model: {` + base + `}, input: {a: {}}, runs: a, task: forbidden}`: `runs: is impossible with task: forbidden`,
		`{model: {` + base + `}, input: {a: {}}, confirm: "{{b}}"}`:         `confirm: placeholder {{b}} names no input`,
		`{model: {` + base + `}, input: {a: {}}, confirmFallback: ask}`:     `confirmFallback: "ask" is unknown`,
		`{model: {` + base + `}, input: {a: {}}, env: {A: b}}`:              `env: is for commands, and this tool has a model`,
		`{model: {api: sampling, prompt: x}, runs: a}`:                      `runs: is impossible with api: sampling`,
		`{model: {api: sampling, prompt: x, key: abcdefgh}}`:                `has a key, a url or headers, and the client's own model needs none`,
		`{model: {` + base + `, headers: {Host: x}}, input: {a: {}}}`:       `model.headers.Host: is runnel's own to send`,
		`{model: {` + base + `, headers: {"a b": x}}, input: {a: {}}}`:      `model.headers: the name of a header has characters that cannot be sent`,
		`{model: {` + base + `, headers: {X-A: "b\nc"}}, input: {a: {}}}`:   `model.headers.X-A: has a character that no header may have`,
	} {
		c, err := config.Parse("r.yaml", []byte("tools:\n  ask: "+text+"\n"))
		if err == nil {
			_, err = All(c, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "r.yaml:2:") {
			t.Errorf("%s:\n%v\nwant %s", text, err, want)
		}
	}
}

// The key is masked without an entry in secrets, and one that could stand in any text is refused.
func TestKeyIsASecret(t *testing.T) {
	parse := func(key string) (string, error) {
		c, err := config.Parse("r.yaml", fmt.Appendf(nil, "tools: {ask: {model: {api: openai, name: m, prompt: x, key: %q}}}", key))
		if err != nil {
			t.Fatal(err)
		}
		set, _, err := c.MakeSecrets([]string{"KEY=s3cr3t-key"}, nil)
		return set.String("a s3cr3t-key, c3VjaCBhcyBzM2NyM3Qta2V5"), err
	}
	for _, key := range []string{"${KEY}", "s3cr3t-key"} {
		if said, err := parse(key); err != nil || strings.Contains(said, "s3cr3t") {
			t.Errorf("%s: %q, %v", key, said, err)
		}
	}
	if _, err := parse("abc"); err == nil || !strings.Contains(err.Error(), "model.key") {
		t.Errorf("a short key: %v", err)
	}
	if said, err := parse("${UNSET}"); err != nil || !strings.Contains(said, "s3cr3t") {
		t.Errorf("a key that is not set: %q, %v", said, err)
	}
}

// Headers of the config are sent with each request, instead of runnel's own, too; what they take from
// variables is masked if it is long enough for a secret.
func TestHeaders(t *testing.T) {
	more := `url: "http://there/base", headers: {X-Title: my tests, X-Team: "team ${TEAM}/${SHORT}", authorization: "Basic ${OTHER}", User-Agent: me},`
	text := strings.Replace(question("openai"), `url: "http://there/base",`, more, 1)
	vars := []string{"KEY=s3cr3t-key", "TEAM=t34m-s3cr3t", "OTHER=0th3r-s3cr3t", "SHORT=x"}
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, text)
		m.vars = vars
		called, asked := ask(t, m, modeltest.Answer{Tokens: []string{"fine"}})
		if called.Text() != "fine" {
			t.Fatalf("%q", called.Text())
		}
		for name, want := range map[string]string{"X-Title": "my tests", "X-Team": "team t34m-s3cr3t/x", "Authorization": "Basic 0th3r-s3cr3t", "User-Agent": "me"} {
			if got := strings.Join(asked[0].Header.Values(name), "; "); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		m.vars = vars[:2]
		called, asked = ask(t, m, modeltest.Answer{Tokens: []string{"fine"}})
		if !strings.Contains(called.Text(), "needs the variable ") || len(asked) > 0 {
			t.Errorf("%q, %d requests", called.Text(), len(asked))
		}
	})
	c, err := config.Parse("r.yaml", []byte("tools:\n  ask: "+text))
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := c.MakeSecrets(vars, nil)
	if got := set.String("t34m-s3cr3t 0th3r-s3cr3t s3cr3t-key x my tests"); err != nil || got != "*** *** *** x my tests" {
		t.Errorf("%q, %v", got, err)
	}
}

// A variable that is not set fails the call, with what to do, and no request is made.
func TestUnsetKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, strings.Replace(question("openai"), "${KEY}", "${OTHER}", 1))
		called, asked := ask(t, m, modeltest.Answer{})
		if want := "model.key needs the variable OTHER, which is not set where runnel runs"; called.Text() != want || len(asked) > 0 {
			t.Errorf("%q, %d requests", called.Text(), len(asked))
		}
	})
}

// A client that cannot ask its user starts a model with a question only if the config lets it. (Package e2e has
// clients that can.)
func TestModelConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, strings.TrimSuffix(question("openai"), "}")+`, confirm: "Say {{what}}?", confirmFallback: run}`)
		called, asked := ask(t, m, modeltest.Answer{Tokens: []string{"fine"}})
		if called.Text() != "fine" || len(asked) != 1 {
			t.Errorf("%q, %d requests", called.Text(), len(asked))
		}
	})
}

// Calls beyond maxConcurrent wait for each other, as long as their clients do.
func TestModelMaxConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, strings.TrimSuffix(question("openai"), "}")+", maxConcurrent: 1}")
		provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"fine"}, Pace: time.Second}}}
		stop := through(m, provider)
		began := time.Now()
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() { toolstest.Call(t, m, map[string]string{"what": "x"}) })
		}
		calls.Wait()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("three calls took %v, one after the other", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		leave, err := m.enter(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		out := tools.NewOutput(ctx, partials.NewLog(nil), nil)
		if _, err := m.enter(ctx, out); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that is cancelled while it waits: %v", err)
		}
		leave()
		stop()
	})
}
