package model

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/internal/modeltest"
	"runnel/tools/secrets"
)

// A failure without a word is a failure all the same.
func TestFaultsWithoutWords(t *testing.T) {
	for api, fault := range map[string]string{
		"openai":    "data: {\"error\":{\"type\":\"invalid_request_error\"}}\n\n",
		"responses": "data: {\"type\":\"error\",\"code\":\"invalid_prompt\"}\n\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			called, asked := ask(t, parse(t, question(api)), modeltest.Answer{Tokens: []string{"half"}, Fault: fault})
			if !called.IsError || !strings.HasPrefix(called.Text(), "half\n") || len(called.Text()) < 10 ||
				len(asked) != 1 {
				t.Errorf("%s: %v %q, %d requests", api, called.IsError, called.Text(), len(asked))
			}
		})
	}
}

// A failure may be only a text.
func TestFaultsAsTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called, _ := ask(t, parse(t, question("openai")), modeltest.Answer{Fault: "data: {\"error\":\"no room\"}\n\n"})
		if want := "no room (attempt 5, the last one: retries)"; called.Text() != want {
			t.Errorf("%q, want %q", called.Text(), want)
		}
	})
}

// What a provider says of a failure is one short line, in the output, too.
func TestFaultsAreShort(t *testing.T) {
	long := strings.Repeat("very\\n", 20_000)
	for api, fault := range map[string]string{
		"anthropic": `data: {"type":"error","error":{"type":"overloaded_error","message":"` + long + "\"}}\n\n",
		"openai":    `data: {"error":{"message":"` + long + "\"}}\n\n",
		"responses": `data: {"type":"error","code":"server_error","message":"` + long + "\"}\n\n",
		"ollama":    `{"error":"` + long + "\"}\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			called, _ := ask(t, parse(t, question(api)), modeltest.Answer{Tokens: []string{"half"}, Fault: fault},
				modeltest.Answer{Tokens: []string{"fine"}})
			if called.Text() != "fine" || len(called.Output) > 1000 || strings.Count(called.Output, "\n") != 2 {
				t.Errorf("%s: %q, %d bytes of output: %.200q", api, called.Text(), len(called.Output), called.Output)
			}
		})
	}
}

// A secret that a failure is cut in is masked as a whole.
func TestFaultsAreMaskedBeforeTheyAreCut(t *testing.T) {
	set, err := secrets.New([]string{"s3cr3t-key"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for left := range len("s3cr3t-key") + 2 {
		f := asFailure(&failure{message: strings.Repeat("x", maxFailure-left) + "s3cr3t-key and more"}, set)
		if strings.Contains(f.message, "s3") || len(f.message) > maxFailure {
			t.Errorf("%d bytes before the limit: %q", left, f.message[maxFailure-20:])
		}
	}
}

// A refusal whose body has another form than those of the providers is shown as it is.
func TestRefusalsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for says, want := range map[string]string{`{"detail":"Not Found"}`: `{"detail":"Not Found"}`,
			"<p>no\n</p>":           "<p>no </p>",
			`{"message":"gateway"}`: "gateway", `{"error":{"code":7}}`: `{"error":{"code":7}}`} {
			called, _ := ask(t, parse(t, question("openai")), modeltest.Answer{Status: 404, Says: says})
			if called.Text() != "HTTP 404 Not Found: "+want {
				t.Errorf("%s: %q", says, called.Text())
			}
		}
	})
}

// The query of a URL is not part of its path.
func TestURLWithQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, query := range []string{"", "/", "?api-version=1", "/?v=1"} {
			base := "http://there/base" + query
			m := parse(t, strings.Replace(question("openai"), "http://there/base", base, 1))
			called, asked := ask(t, m, modeltest.Answer{Tokens: []string{"fine"}})
			if called.Text() != "fine" || asked[0].Path != "/base/chat/completions" {
				t.Errorf("%s: %q, asked at %s", base, called.Text(), asked[0].Path)
			}
		}
	})
}

// A provider that says nothing after its answer, and keeps the connection, does not keep the call.
func TestConnectionStaysAfterTheAnswer(t *testing.T) {
	for _, api := range allAPIs {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			called, asked := ask(t, parse(t, question(api)),
				modeltest.Answer{Tokens: []string{"fine"}, Input: 5, Output: 3, Stays: true})
			if took := time.Since(began); called.Text() != "fine" || len(asked) != 1 || took > 30*time.Second {
				t.Errorf("%s: %q, %d requests, two calls took %v", api, called.Text(), len(asked), took)
			}
			if u := usageOf(t, called.CallToolResult); u.tokens() != 8 {
				t.Errorf("%s: %+v", api, u)
			}
		})
	}
}

// An answer takes a bounded amount of memory, whatever it is made of.
func TestAnswersAreBounded(t *testing.T) {
	large := strings.Repeat("x", 1<<20) // quoted by hand: %q takes long under -race
	for name, events := range map[string]func(n int) string{
		"anthropic thinking": func(n int) string {
			const begin = `{"type":"content_block_start","content_block":{"type":"thinking","thinking":""}}` + "\n"
			const delta = `{"type":"content_block_delta","index":%d,"delta":{"type":"thinking_delta","thinking":"%s"}}`
			return fmt.Sprintf(begin+delta, n, large)
		},
		"anthropic block": func(int) string {
			return fmt.Sprintf(`{"type":"content_block_start","content_block":{"type":"other","data":"%s"}}`, large)
		},
		"openai call": func(n int) string {
			return fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"%[1]d","function":{"arguments":"%s"}}]}}]}`, n, large)
		},
		"openai name": func(n int) string {
			return fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"%s"}]}}]}`, n, large+fmt.Sprint(n))
		},
		"openai refusal": func(int) string { return fmt.Sprintf(`{"choices":[{"delta":{"refusal":"%s"}}]}`, large) },
		"responses call": func(int) string {
			return fmt.Sprintf(`{"type":"response.output_item.done","item":{"type":"function_call","arguments":"%s"}}`, large)
		},
		"responses refusal": func(int) string { return fmt.Sprintf(`{"type":"response.refusal.delta","delta":"%s"}`, large) },
		"ollama call": func(int) string {
			return fmt.Sprintf(`{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":"%s"}}}]}}`, large)
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, _, _ := strings.Cut(name, " ")
			take := apis[api].answer(&answer{write: func(string) error { return nil }})
			for n := range 16 {
				for event := range strings.SplitSeq(events(n), "\n") {
					if err := take([]byte(event)); err != nil {
						if !strings.Contains(err.Error(), "too long") {
							t.Error(err)
						}
						return
					}
				}
			}
			t.Error("16 MiB were taken")
		})
	}
}

// Calls of tools are known by their ids, since some providers number all of them 0, and repeat an id with
// each piece.
func TestCallsAsOthersSendThem(t *testing.T) {
	a := &answer{write: func(string) error { return nil }}
	take := chat{}.answer(a)
	for _, delta := range []string{
		`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":"}}]}`,
		`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}]}`,
		`{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}},{"id":"c","function":{"name":"h","arguments":"null"}}]}`,
	} {
		if err := take([]byte(`{"choices":[{"delta":` + delta + `}]}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := take([]byte(`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%s", a.calls), "[{a f {\"n\":1}} {b g {}} {c h {}}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
