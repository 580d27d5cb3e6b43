package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// watchdog is how long a test waits for what must happen soon.
const watchdog = 30 * time.Second

// received is what a played server reads.
type received struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// played is a server that a test plays in a bubble.
type played struct {
	out io.Writer
}

// play dials a server of the stateless era, or of 2025-11-25 with tasks. answer gets what comes behind the
// opening.
func play(t *testing.T, era rpc.Era, answer func(s *played, m received)) *rpc.Client {
	t.Helper()
	inR, in := io.Pipe()
	out, outW := io.Pipe()
	s := &played{outW}
	go func() {
		defer outW.Close()
		lines := bufio.NewScanner(inR)
		for lines.Buffer(nil, 64<<20); lines.Scan(); {
			var m received
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Errorf("the client sent %q: %v", lines.Text(), err)
			}
			switch m.Method {
			case "server/discover":
				s.result(m, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
			case "initialize":
				s.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"tools":{"call":{}}}}}}`)
			default:
				answer(s, m)
			}
		}
	}()
	version := "2026-07-28"
	if era == rpc.Handshake {
		version = "2025-11-25"
	}
	client, err := rpc.Dial(t.Context(), rpc.DialOptions{In: in, Out: out, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *played) send(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

func (s *played) result(m received, format string, args ...any) {
	s.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, fmt.Sprintf(format, args...))
}

// follow makes a call with o; what becomes of it comes on the channel.
func follow(ctx context.Context, client *rpc.Client, call Params, o Options) <-chan error {
	call.Tool = "tool"
	call.Arguments = json.RawMessage(`{}`)
	o.Token = json.RawMessage(`"1"`)
	r := New(o)
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, client, &call)
		ended <- err
	}()
	return ended
}

// A call that is cancelled ends although the server owes it an answer still: the result that was asked for
// early, or the one to a question that nobody answers.
func TestCancelledCallLeavesNothingOpen(t *testing.T) {
	for era, answers := range map[rpc.Era]map[string]string{
		rpc.Handshake: {
			"tools/call":   `{"task":{"taskId":"t","status":"working"}}`,
			"tasks/get":    `{"taskId":"t","status":"input_required"}`,
			"tasks/cancel": `{"taskId":"t","status":"cancelled"}`,
		},
		rpc.Stateless: {
			"tools/call":   `{"resultType":"task","taskId":"t","status":"working"}`,
			"tasks/get":    `{"taskId":"t","status":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}}}`,
			"tasks/cancel": `{}`,
		},
	} {
		t.Run(era.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				enough := errors.New("enough")
				early, asked := false, false
				client := play(t, era, func(s *played, m received) {
					if answers[m.Method] != "" {
						s.result(m, "%s", answers[m.Method])
					}
					early = early || m.Method == "tasks/result"
					if m.Method == "tasks/cancel" {
						answers["tasks/get"] = `{"taskId":"t","status":"cancelled"}`
					}
				})
				var call Params
				if era == rpc.Handshake {
					call.Task = &mcp.TaskMetadata{}
				}
				ended := follow(ctx, client, call,
					Options{Request: func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
						asked = true
						<-ctx.Done()
						return mcp.ElicitResult{}, ctx.Err()
					}})
				time.Sleep(2 * defaultPoll)
				if synctest.Wait(); early == asked {
					t.Errorf("the result was asked for: %v, the question was put: %v", early, asked)
				}
				cancel(enough)
				select {
				case err := <-ended:
					if err != enough {
						t.Errorf("the call ended with %v", err)
					}
				case <-time.After(cancelGrace):
					t.Error("the call goes on")
				}
			})
		})
	}
}

// A server that has lost the task of a call, when it was killed for example, is not one whose tool has
// refused the arguments: only the latter's error is the call's own.
func TestServerLosesTask(t *testing.T) {
	const unknown = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"task not found"}}`
	const refused = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"a is missing"}}`
	for name, c := range map[string]struct {
		era         rpc.Era
		gets        []string // the answers to tasks/get, the last of them for ever
		result      string   // the answer to tasks/result
		want        string
		wantsTheirs bool
	}{
		"2025, lost": {rpc.Handshake, []string{`{"taskId":"t","status":"completed"}`, ""}, unknown,
			"the task has expired: the server does not know it any more: task not found", false},
		"2025, refused and forgotten": {rpc.Handshake, []string{`{"taskId":"t","status":"failed"}`, ""}, refused,
			"a is missing", false},
		"2025, refused": {rpc.Handshake, []string{`{"taskId":"t","status":"failed"}`}, refused, "a is missing",
			true},
		"2026, lost": {rpc.Stateless, []string{`{"taskId":"t","status":"completed"}`, ""}, "",
			"the task has expired: the server does not know it any more", false},
		"2026, refused": {rpc.Stateless,
			[]string{`{"taskId":"t","status":"failed","error":{"code":-32602,"message":"a is missing"}}`}, "",
			"a is missing", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := play(t, c.era, func(s *played, m received) {
					switch m.Method {
					case "tools/call":
						s.result(m, `{"resultType":"task","taskId":"t","task":{"taskId":"t","status":"working"}}`)
					case "tasks/get":
						answer := c.gets[0]
						if len(c.gets) > 1 {
							c.gets = c.gets[1:]
						}
						if answer == "" {
							s.send(unknown, m.ID)
						} else {
							s.result(m, "%s", answer)
						}
					case "tasks/result":
						s.send(c.result, m.ID)
					}
				})
				call := Params{}
				if c.era == rpc.Handshake {
					call.Task = &mcp.TaskMetadata{}
				}
				select {
				case err := <-follow(t.Context(), client, call, Options{}):
					_, theirs := errors.AsType[*rpc.Error](err)
					if err == nil || !strings.Contains(err.Error(), c.want) || theirs != c.wantsTheirs {
						t.Errorf("%v, an error of the server: %t", err, theirs)
					}
				case <-time.After(time.Minute):
					t.Error("the call goes on")
				}
			})
		})
	}
}

// Missing output is fetched when the answer to a poll does not have it, and not before: if two answers are on
// their way, neither shows what is missing.
func TestFetchesBesideAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		segments := func(numbers ...int) (list string) {
			for i, n := range numbers {
				list += fmt.Sprintf(`%s{"seqNr":%d,"type":"text","text":"%d"}`, ","[:min(i, 1)], n, n)
			}
			return list
		}
		const answer = `{"task":{"taskId":"t","status":"working"},"partial-content":[%s],"isComplete":%v}`
		var call received
		asked, status := "", "working"
		client := play(t, rpc.Handshake, func(s *played, m received) {
			var params mcp.TaskParams
			_ = json.Unmarshal(m.Params, &params)
			switch m.Method {
			case "tools/call":
				call = m
				s.result(m, answer, segments(1), false)
			case "tasks/get":
				s.result(m, `{"taskId":"t","status":"%s"}`, status)
			case "tasks/result":
				asked += string(params.LastSeqNr) + " "
				switch asked {
				case "1 ": // the poll
					s.result(call, answer, segments(3), false)
					time.Sleep(time.Millisecond) // until that is taken
					s.result(m, answer, "", false)
				case "1 1 ": // because of the gap
					s.result(m, answer, segments(2, 5), false)
				case "1 1 3 ": // because of the next
					status = "completed"
					s.result(m, answer, segments(4), false)
				case "1 1 3 5 ": // the last poll
					s.result(call, answer, segments(8), true)
					time.Sleep(time.Millisecond)
					s.result(m, answer, "", false)
				case "1 1 3 5 5 ":
					s.result(m, answer, segments(6, 7), false)
				default:
					s.result(m, `{"content":[]}`)
				}
			}
		})
		got := ""
		task := &mcp.TaskMetadata{ResponseModes: []mcp.ResponseMode{mcp.ModeStreaming}}
		ended := follow(t.Context(), client, Params{Task: task}, Options{
			Content: func(items []json.RawMessage, _ bool) {
				for _, item := range items {
					text, _ := mcp.TextOf(item)
					got += text
				}
			},
			Gap: func(g tracker.Gap) { got += g.String() },
		})
		select {
		case err := <-ended:
			if err != nil || got != "12345678" || asked != "1 1 3 5 5  " {
				t.Errorf("%v, got %q, asked behind %q", err, got, asked)
			}
		case <-time.After(watchdog):
			t.Errorf("the call goes on; got %q, asked behind %q", got, asked)
		}
	})
}

// A call ends although its server never answers with what is missing, which is reported then. An answer that
// is only late is taken.
func TestMissingOutputIsNotWaitedForForever(t *testing.T) {
	for name, c := range map[string]struct {
		late time.Duration // after which the server answers nothing but what is missing, if it does at all
		want string
	}{"never": {0, "1[gap: number 2 of the output did not come (after 1 bytes)]3"},
		"late": {10 * fetchTime, "123"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const answer = `{"task":{"taskId":"t","status":"working"},"partial-content":[{"seqNr":%d,"type":"text","text":"%d"}],"isComplete":%v}`
				status := "working"
				client := play(t, rpc.Handshake, func(s *played, m received) {
					switch {
					case m.Method == "tools/call":
						s.result(m, answer, 1, 1, false)
						s.result(m, answer, 3, 3, true)
					case m.Method == "tasks/get":
						s.result(m, `{"taskId":"t","status":"%s"}`, status)
						status = "completed"
					case strings.Contains(string(m.Params), "lastSeqNr") && c.late > 0:
						time.Sleep(c.late)
						s.result(m, answer, 2, 2, false)
					case m.Method == "tasks/result" && !strings.Contains(string(m.Params), "lastSeqNr"):
						s.result(m, `{"content":[]}`)
					}
				})
				got := ""
				ended := follow(t.Context(), client,
					Params{Task: &mcp.TaskMetadata{ResponseModes: []mcp.ResponseMode{mcp.ModeStreaming}}},
					Options{
						Content: func(items []json.RawMessage, _ bool) {
							text, _ := mcp.TextOf(items[0])
							got += text
						},
						Gap: func(g tracker.Gap) { got += "[" + g.String() + "]" },
					})
				select {
				case err := <-ended:
					if err != nil || got != c.want {
						t.Errorf("%v, got %q", err, got)
					}
				case <-time.After(time.Hour):
					t.Errorf("the call goes on; got %q", got)
				}
			})
		})
	}
}

// A server that wants the call again, and asks nothing, gets it at a pace that slows down.
func TestCallAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		client := play(t, rpc.Stateless, func(s *played, m received) {
			if m.Method == "tools/call" {
				calls++
				s.result(m, `{"resultType":"input_required","requestState":"busy"}`)
			}
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		ended := follow(ctx, client, Params{}, Options{})
		time.Sleep(time.Minute)
		if synctest.Wait(); calls < 30 || calls > 40 {
			t.Errorf("%d calls in a minute", calls)
		}
		cancel(enough)
		if err := <-ended; err != enough {
			t.Errorf("the call ended with %v", err)
		}
	})
}

// A panic of who puts a question fails the call that asks, and nothing else.
func TestPanicOfAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := play(t, rpc.Stateless, func(s *played, m received) {
			s.result(m, `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}}}`)
		})
		ended := follow(t.Context(), client, Params{}, Options{
			Request: func(context.Context, string, json.RawMessage) (any, error) { panic("a bug") },
		})
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("the call ended with %v", err)
		}
	})
}

// A call that is sent again carries the answers and the state of the server's last word, and nothing that it
// did not give.
func TestCallAgainCarriesWhatWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words := []string{
			`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}}}`,
			`{"resultType":"input_required","requestState":"busy"}`,
			`{"resultType":"input_required"}`,
			`{"resultType":"complete","content":[]}`,
		}
		var got []string
		client := play(t, rpc.Stateless, func(s *played, m received) {
			var p struct {
				InputResponses json.RawMessage `json:"inputResponses"`
				RequestState   json.RawMessage `json:"requestState"`
			}
			if err := json.Unmarshal(m.Params, &p); err != nil {
				t.Error(err)
			}
			got = append(got, string(p.InputResponses)+string(p.RequestState))
			s.result(m, "%s", words[len(got)-1])
		})
		o := Options{Request: func(context.Context, string, json.RawMessage) (any, error) {
			return mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}}
		if err := <-follow(t.Context(), client, Params{}, o); err != nil {
			t.Errorf("the call ended with %v", err)
		}
		if want := []string{"", `{"q":{"action":"decline"}}`, `"busy"`, ""}; !slices.Equal(got, want) {
			t.Errorf("the calls carried %q, want %q", got, want)
		}
	})
}

// A server may ask only so much at once: a call that it answers with more fails, and of a task the rest
// waits.
func TestQuestionsAtOnceAreBounded(t *testing.T) {
	questions := `"status":"input_required","inputRequests":{"last":{"method":"elicitation/create","params":{}}`
	for i := range maxAsking {
		questions += fmt.Sprintf(`,"%d":{"method":"elicitation/create","params":{}}`, i)
	}
	questions += "}"
	t.Run("call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := play(t, rpc.Stateless, func(s *played, m received) {
				s.result(m, `{"resultType":"input_required",%s}`, questions)
			})
			o := Options{Request: func(context.Context, string, json.RawMessage) (any, error) {
				return mcp.ElicitResult{}, errors.New("it was asked")
			}}
			if err := <-follow(t.Context(), client, Params{}, o); err == nil ||
				err.Error() != "the server asks 65 questions at once: the limit is 64" {
				t.Errorf("the call ended with %v", err)
			}
		})
	})
	t.Run("task", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			updates := 0
			client := play(t, rpc.Stateless, func(s *played, m received) {
				switch {
				case m.Method == "tools/call":
					s.result(m, `{"resultType":"task","taskId":"t","status":"working"}`)
				case m.Method == "tasks/update":
					updates++
					s.result(m, `{}`)
				case updates <= maxAsking:
					s.result(m, `{"taskId":"t",%s}`, questions)
				default:
					s.result(m, `{"taskId":"t","status":"completed","result":{}}`)
				}
			})
			asked, answer := make(chan struct{}, 2*maxAsking), make(chan struct{})
			ended := follow(t.Context(), client, Params{},
				Options{Request: func(context.Context, string, json.RawMessage) (any, error) {
					asked <- struct{}{}
					<-answer
					return mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
				}})
			time.Sleep(time.Minute)
			if len(asked) != maxAsking {
				t.Errorf("%d questions at once", len(asked))
			}
			close(answer)
			if err := <-ended; err != nil || len(asked) != maxAsking+1 {
				t.Errorf("%v; %d questions", err, len(asked))
			}
		})
	})
}

// A question of a task that is shown again and again while its user thinks is put once.
func TestQuestionIsPutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown, answered := 0, false
		client := play(t, rpc.Stateless, func(s *played, m received) {
			switch {
			case m.Method == "tools/call":
				s.result(m, `{"resultType":"task","taskId":"t","status":"working"}`)
			case m.Method == "tasks/update":
				answered = true
				s.result(m, `{}`)
			case answered:
				s.result(m, `{"taskId":"t","status":"completed","result":{}}`)
			default:
				shown++
				s.result(m, `{"taskId":"t","status":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}}}`)
			}
		})
		asked := 0
		err := <-follow(t.Context(), client, Params{},
			Options{Request: func(context.Context, string, json.RawMessage) (any, error) {
				asked++
				time.Sleep(time.Minute)
				return mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			}})
		if err != nil || asked != 1 || shown < 2 {
			t.Errorf("%v; put %d times, shown %d times", err, asked, shown)
		}
	})
}

// A list that does not end is cut before it fills the memory, however little of it is tools.
func TestListIsBounded(t *testing.T) {
	for name, page := range map[string]string{
		"large pages":   `{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":"more","_meta":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`,
		"small entries": `{"tools":[` + strings.Repeat("{},", 1<<20) + `{}],"nextCursor":"more"}`,
		"no tools":      `{"tools":[` + strings.Repeat("0,", 1<<20) + `0],"nextCursor":"more"}`,
		"long cursors":  `{"tools":[],"nextCursor":"` + strings.Repeat("x", 1<<20) + `"}`,
		"no entries":    `{"tools":[],"nextCursor":"more"}`,
	} {
		t.Run(name, func(t *testing.T) {
			pages := 0
			client := play(t, rpc.Handshake, func(s *played, m received) {
				if m.Method == "tools/list" {
					pages++
					s.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, page)
				}
			})
			allocated := func(f func()) int64 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				f()
				runtime.ReadMemStats(&after)
				return int64(after.TotalAlloc - before.TotalAlloc)
			}
			var list []mcp.Tool
			var err error
			with := allocated(func() { list, err = ListTools(t.Context(), client) })
			n := pages
			without := allocated(func() { // the pages alone
				for range n {
					_, _ = client.Do(t.Context(), &rpc.Request{Method: "tools/list"})
				}
			})
			read := n * len(page)
			if (err != nil) != (name == "no tools") || len(list) > 10_000 || n > 1000 || read > 36<<20 {
				t.Errorf("%d tools of %d pages, %d KiB, error %v", len(list), n, read>>10, err)
			}
			t.Logf("%d tools of %d KiB allocated %d KiB, the pages alone %d KiB", len(list), read>>10,
				with>>10, without>>10)
			if with > without+int64(read)+16<<20 {
				t.Errorf("%d KiB for %d KiB, of which the pages alone take %d KiB", with>>10, read>>10,
					without>>10)
			}
		})
	}
}

// If one of several questions cannot be put, none is put.
func TestNoQuestionIsPutForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := play(t, rpc.Stateless, func(s *played, m received) {
			questions := `"z":{"method":"sampling/createMessage","params":{}}`
			for i := range 20 { // in whatever order they are looked at
				questions += fmt.Sprintf(`,"%d":{"method":"elicitation/create","params":{}}`, i)
			}
			s.result(m, `{"resultType":"input_required","inputRequests":{%s}}`, questions)
		})
		asked := atomic.Int32{}
		o := Options{Request: func(context.Context, string, json.RawMessage) (any, error) {
			asked.Add(1)
			return mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}}
		err := <-follow(t.Context(), client, Params{}, o)
		if synctest.Wait(); err == nil ||
			err.Error() != `the server asks for "sampling/createMessage", which cannot be given` ||
			asked.Load() > 0 {
			t.Errorf("asked %d times, error %v", asked.Load(), err)
		}
	})
}
