package model

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/internal/modeltest"
	"runnel/tools/secrets"
	"runnel/tools/toolstest"
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
			"<p>no\n</p>": "<p>no </p>",
			`{"error":`:   `{"error":`, `{"message":"gateway"}`: "gateway", `{"error":{"code":7}}`: `{"error":{"code":7}}`} {
			called, _ := ask(t, parse(t, question("openai")), modeltest.Answer{Status: 404, Says: says})
			if called.Text() != "HTTP 404 Not Found at /base/chat/completions: "+want {
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
	large := strings.Repeat("x", 64<<10) // quoted by hand: %q takes long under -race
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
			// What has come before leaves room for four events.
			take := apis[api].answer(&answer{size: maxAnswer - 4*len(large), write: func(string) error { return nil }})
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
			t.Error("it has taken more than its limit")
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

// Errors that no attempt can change are not tried again: they say what is wrong.
func TestLastingErrors(t *testing.T) {
	for name, test := range map[string]struct{ vars, url, want string }{
		"scheme":         {"KEY=k", "ftp://there", `model.url is not the URL of a server`},
		"no URL":         {"KEY=k", "there:80", `model.url is not the URL of a server`},
		"line in key":    {"KEY=s3cr3t\nkey", "http://there", "model.key has a character that no header may have"},
		"line in header": {"KEY=k", "http://there", "model.headers.X-Team has a character that no header may have"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := parse(t, strings.Replace(question("openai"), `"http://there/base"`, `"${URL}", headers: {X-Team: "${TEAM}"}`, 1))
			team := "TEAM=blue"
			if name == "line in header" {
				team += "\n"
			}
			m.vars = []string{test.vars, "URL=" + test.url, team}
			called, asked := ask(t, m, modeltest.Answer{Tokens: []string{"fine"}})
			if !called.IsError || !strings.HasPrefix(called.Text(), test.want) || called.Output != "" || len(asked) > 0 ||
				strings.Contains(called.Text(), "s3cr3t") {
				t.Errorf("%s: %q, output %q, want %s", name, called.Text(), called.Output, test.want)
			}
		})
	}
}

// A server whose certificate is not trusted, or that speaks no TLS, is asked once.
func TestServersThatAreNotTrusted(t *testing.T) {
	handler := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"fine"}}}}
	own, plain := httptest.NewUnstartedServer(handler), httptest.NewServer(handler)
	own.Config.ErrorLog = log.New(io.Discard, "", 0)
	own.StartTLS()
	defer own.Close()
	defer plain.Close()
	for url, want := range map[string]string{own.URL: "certificate", "https" + strings.TrimPrefix(plain.URL, "http"): "HTTP response to HTTPS client"} {
		m := parse(t, strings.Replace(question("openai"), "http://there/base", url, 1))
		for range 2 {
			called := toolstest.Call(t, m, map[string]string{"what": "x"})
			if !called.IsError || !strings.Contains(called.Text(), want) || strings.Contains(called.Output+called.Text(), "attempt") {
				t.Errorf("%s: %q, output %q", url, called.Text(), called.Output)
			}
		}
	}
}

// The base URL may have the beginning of the path already, as other libraries want it, or all of it.
func TestURLWithPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range [][3]string{{"anthropic", "http://there/v1", "/v1/messages"}, {"anthropic", "http://there/x/v1/", "/x/v1/messages"},
			{"anthropic", "http://there/v1/messages", "/v1/messages"}, {"openai", "http://there/v1/chat/completions?v=1", "/v1/chat/completions"},
			{"ollama", "http://there/api", "/api/chat"}, {"openai", "http://there/chat", "/chat/chat/completions"}, {"responses", "http://there", "/responses"}} {
			m := parse(t, strings.Replace(question(test[0]), "http://there/base", test[1], 1))
			called, asked := ask(t, m, modeltest.Answer{Tokens: []string{"fine"}})
			if called.Text() != "fine" || asked[0].Path != test[2] {
				t.Errorf("%s: %q, asked at %s", test[:2], called.Text(), asked[0].Path)
			}
		}
		m := parse(t, strings.Replace(question("openai"), "http://there/base", "http://there/v2", 1))
		if called, _ := ask(t, m, modeltest.Answer{Status: 404}); called.Text() != "HTTP 404 Not Found at /v2/chat/completions" {
			t.Errorf("%q", called.Text())
		}
	})
}

// A refusal whose body does not end, and an answer of pings alone, do not keep a call.
func TestSlowProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		called, _ := ask(t, parse(t, question("openai")), modeltest.Answer{Status: 400, Says: "no such", Silence: true})
		if took := time.Since(began); !called.IsError || called.Text() != "HTTP 400 Bad Request: no such" || took > time.Minute {
			t.Errorf("%q after %v", called.Text(), took)
		}
		for api, ping := range map[string]string{"anthropic": "event: ping\ndata: {\"type\": \"ping\"}\n\n", "openai": ": PROCESSING\n\n",
			"responses": "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":1}\n\n", "ollama": "\n"} {
			began = time.Now()
			called, _ := ask(t, parse(t, question(api)), modeltest.Answer{Tokens: []string{"half"}, Fault: ping, Beats: time.Minute},
				modeltest.Answer{Tokens: []string{"fine"}})
			if took := time.Since(began); took > time.Hour || called.Output != "half\n[attempt 2: nothing came for 10m]\nfine" {
				t.Errorf("%s: %q after %v", api, called.Output, took)
			}
		}
	})
}
