package model

import (
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnel/internal/modeltest"
	"runnel/tasks/run"
	"runnel/tools/toolstest"
)

// within is a question with a budget, to a model whose tokens cost 1 USD a thousand.
func within(budget string) string {
	return strings.Replace(question("openai"), "prompt:", "price: {input: 1000, output: 1000, cached: 100}, budget: "+budget+", prompt:", 1)
}

// A budget of a call bounds its answer, ends it with a result that says so, and is new for the next call.
// Tokens and money are counted alike.
func TestBudgetOfACall(t *testing.T) {
	for budget, want := range map[string]string{
		"{tokens: 50}": "0 of 50 tokens a call",
		"{usd: 0.05}":  "0 of 0.05 USD a call",
		"[{tokens: 50, per: call}, {tokens: 90000, per: day}]": "0 of 50 tokens a call",
		"{tokens: 50, usd: 7}":                                 "0 of 50 tokens, 0 of 7 USD a call",
	} {
		t.Run(budget, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := parse(t, within(budget))
				called, asked := ask(t, m, modeltest.Answer{Tokens: words("as much as fits"), Stop: "length", Input: 9, Output: 40})
				if want := "as much as fits\nthe answer ends here, since the budget allows no more: " + want; !called.IsError || called.Text() != want {
					t.Errorf("%v %q, want %q", called.IsError, called.Text(), want)
				}
				if most := asked[0].Body["max_tokens"].(float64); most < 30 || most > 45 {
					t.Errorf("the answer may have %v tokens", most)
				}
				if u := usageOf(t, called.CallToolResult); u.tokens() != 49 || u.USD != 0.049 {
					t.Errorf("%+v", u)
				}
				whole, _ := ask(t, m, modeltest.Answer{Tokens: []string{"short"}, Input: 9, Output: 1})
				if whole.IsError || whole.Text() != "short" {
					t.Errorf("%q", whole.Text())
				}
			})
		})
	}
}

// Attempts and rounds of a call count together: what is cut off is paid, too.
func TestBudgetOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, within("{tokens: 120}"))
		called, asked := ask(t, m, modeltest.Answer{Tokens: []string{strings.Repeat("x", 160)}, CutAt: 700})
		if !called.IsError || !strings.Contains(called.Text(), "the budget is used up: ") || len(asked) != 2 {
			t.Errorf("%d requests, %q", len(asked), called.Text())
		}
	})
}

// The budget of a day is that of all calls, is given back as far as it is not taken, and is new on the next
// day.
func TestBudgetOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, within("{usd: 0.1, per: day}"))
		runner := run.NewRunner(run.Options{})
		defer runner.Close()
		for day := range 2 {
			provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"fine"}, Input: 10, Output: 20}}}
			stop := through(m, provider)
			for call := range 6 {
				called := toolstest.CallBy(t, runner, m, map[string]string{"what": "x"})
				switch spent := strings.HasPrefix(called.Text(), "the budget is used up: 0.09 of 0.1 USD today; the day ends at 00:00 UTC"); {
				case call < 3 && called.Text() != "fine", call >= 3 && !spent, call >= 3 != called.IsError:
					t.Errorf("day %d, call %d: %v %q", day, call, called.IsError, called.Text())
				}
			}
			if n := len(provider.Requests()); n != 3 {
				t.Errorf("day %d: %d requests", day, n)
			}
			stop()
			time.Sleep(24 * time.Hour)
		}
	})
}

// Calls side by side stay within the budget of a day together, although each could take all of it.
func TestBudgetSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, within("{tokens: 1000, per: day}"))
		runner := run.NewRunner(run.Options{})
		defer runner.Close()
		provider := &modeltest.Endpoint{Answers: []modeltest.Answer{{Tokens: []string{"fine"}, Input: 10, Output: 990, Pace: time.Second}}}
		defer through(m, provider)()
		var calls sync.WaitGroup
		var mu sync.Mutex
		fine := 0
		for range 8 {
			calls.Go(func() {
				called := toolstest.CallBy(t, runner, m, map[string]string{"what": "x"})
				mu.Lock()
				defer mu.Unlock()
				if !called.IsError {
					fine++
				}
			})
		}
		calls.Wait()
		if n := len(provider.Requests()); n != 1 || fine != 1 {
			t.Errorf("%d requests, %d answers", n, fine)
		}
	})
}

// What a provider counts wrongly gives nothing back to a budget, and does not lower a counter.
func TestUsageIsPlausible(t *testing.T) {
	for _, counted := range []usage{{InputTokens: -5, OutputTokens: -7}, {InputTokens: 5, CachedTokens: 9, OutputTokens: math.MaxInt},
		{CachedTokens: -1, InputTokens: 3}} {
		c := &call{Model: parse(t, within("{tokens: 9}"))}
		c.count(&answer{ended: true, text: []byte("fine"), used: counted})
		u := &c.used
		if u.InputTokens < 0 || u.CachedTokens < 0 || u.CachedTokens > u.InputTokens || u.OutputTokens < 0 || u.OutputTokens > 1<<30 || u.USD < 0 {
			t.Errorf("%+v of %+v", *u, counted)
		}
	}
}

// A price of almost nothing does not use up a budget.
func TestSmallPrice(t *testing.T) {
	c := &call{Model: parse(t, strings.Replace(within("{usd: 1000000}"), "1000, output: 1000", "0, output: 0.000000001", 1))}
	if most := c.fit(&c.conf.Budget[0], taken{}, 5, 4096); most != 4096 {
		t.Errorf("an answer may have %d tokens, want 4096", most)
	}
}
