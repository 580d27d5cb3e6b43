package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"runnel/rpc/rawjson"
	"runnel/tools/config"
)

// A budget holds before a request is made: what the request may take at most is reserved, and an answer may
// have no more tokens than are left. After it, what was not taken is given back. So calls side by side, also
// in other processes, stay within the budget of a day together, and a process that dies in the middle leaves
// what it has reserved as taken. What a provider counts for the prompt is known afterwards only: it is
// estimated.

// taken is what the calls of a day have taken, as the state keeps it.
type taken struct {
	Tokens int     `json:"tokens"`
	USD    float64 `json:"usd"`
}

const (
	// leastAnswer is the fewest tokens of an answer that is still worth a request.
	leastAnswer = 16
	// tokensOfPicture is what a picture counts before a provider has counted it, a large one of most of them.
	tokensOfPicture = 1600
	// settlePatience bounds how long giving back waits for the state.
	settlePatience = 5 * time.Second
)

// input estimates the tokens of the request for the next answer.
func (c *conversation) input() int {
	n := len(c.system) + len(c.prompt) + len(c.schema)
	for _, t := range c.tools {
		n += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	for _, r := range c.rounds {
		n += len(rawjson.Encode(r.said))
		for _, result := range r.results {
			n += len(result.text)
		}
	}
	return tokensOf(n) + tokensOfPicture*len(c.pictures)
}

// spent is the error of a call whose budget is used up.
type spent struct{ words string }

func (s *spent) Error() string { return s.words }

// fit returns how many tokens an answer may have within a budget of which some is taken, at most most.
func (c *call) fit(b *config.Budget, t taken, input, most int) int {
	if b.Tokens > 0 {
		most = min(most, b.Tokens-t.Tokens-input)
	}
	if b.USD > 0 {
		left := float64(b.USD) - t.USD - cost(c.conf.Price, &usage{InputTokens: input})
		if each := float64(c.conf.Price.Output) / 1e6; each > 0 {
			most = int(max(0, min(float64(most), left/each)))
		} else if left <= 0 {
			most = 0
		}
	}
	return most
}

// reserve bounds the next answer by the budgets, and takes what it may need from those of the day. settle
// gives back what the request has not taken, and is called once.
func (c *call) reserve(ctx context.Context) (settle func(used *usage), err error) {
	input, most := c.talk.input(), c.conf.MaxTokens
	c.capped = ""
	bound := func(per string, t taken) *spent {
		for i := range c.conf.Budget {
			b := &c.conf.Budget[i]
			if b.Per != per {
				continue
			}
			fits := c.fit(b, t, input, most)
			if fits < min(leastAnswer, most) {
				return &spent{"the budget is used up: " + takenOf(b, t)}
			}
			if fits < most {
				most, c.capped = fits, takenOf(b, t)
			}
		}
		return nil
	}
	if s := bound(config.PerCall, taken{c.used.tokens(), c.used.USD}); s != nil {
		return nil, s
	}
	perCall, capped := most, c.capped
	var reserved taken
	id, daily := c.dayID(time.Now()), c.perDay()
	if daily {
		err := c.in.Tally(ctx, id, func(old []byte) ([]byte, error) {
			var t taken
			_ = json.Unmarshal(old, &t) // nothing = nothing is taken
			most, c.capped = perCall, capped
			if s := bound(config.PerDay, t); s != nil {
				return nil, s
			}
			reserved = taken{input + most, cost(c.conf.Price, &usage{InputTokens: input, OutputTokens: most})}
			return rawjson.Encode(taken{t.Tokens + reserved.Tokens, roundUSD(t.USD + reserved.USD)}), nil
		})
		if err != nil {
			return nil, err
		}
	}
	c.talk.maxTokens = most
	return func(used *usage) {
		if !daily {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlePatience)
		defer cancel()
		err := c.in.Tally(ctx, id, func(old []byte) ([]byte, error) {
			var t taken
			_ = json.Unmarshal(old, &t)
			return rawjson.Encode(taken{max(t.Tokens-reserved.Tokens+used.tokens(), 0),
				max(roundUSD(t.USD-reserved.USD+used.USD), 0)}), nil
		})
		if err != nil {
			c.in.Log().Warn().Err(err).Str("tool", c.name).
				Msg("the budget of the day counts more than was taken")
		}
	}, nil
}

// perDay reports whether the tool has a budget of a day.
func (m *Model) perDay() bool {
	for _, b := range m.conf.Budget {
		if b.Per == config.PerDay {
			return true
		}
	}
	return false
}

// dayID names what the state keeps of a day for the tool: a token of bounded length.
func (m *Model) dayID(now time.Time) string {
	sum := sha256.Sum256([]byte(m.name))
	return "budget-" + now.UTC().Format(time.DateOnly) + "-" + hex.EncodeToString(sum[:16])
}

// takenOf says how much of a budget is taken.
func takenOf(b *config.Budget, t taken) string {
	said := fmt.Sprintf("%d of %d tokens", t.Tokens, b.Tokens)
	if b.Tokens == 0 {
		said = fmt.Sprintf("%s of %s USD", config.USD(t.USD), b.USD)
	} else if b.USD > 0 {
		said += fmt.Sprintf(", %s of %s USD", config.USD(t.USD), b.USD)
	}
	if b.Per == config.PerDay {
		return said + " today; the day ends at 00:00 UTC"
	}
	return said + " a call"
}

// usage is what a call has taken. Its members are the result's _meta["runnel/usage"].
type usage struct {
	Model        string  `json:"model"`
	Requests     int     `json:"requests"`
	InputTokens  int     `json:"inputTokens"`
	CachedTokens int     `json:"cachedTokens"` // of the input, those that the provider had in a cache
	OutputTokens int     `json:"outputTokens"`
	USD          float64 `json:"usd"` // 0 without a price
	// Estimated: the provider did not say how much some requests took, and their bytes were counted.
	Estimated bool `json:"estimated,omitempty"`
}

func (u *usage) tokens() int { return u.InputTokens + u.OutputTokens }

// bytesPerToken is what providers give as the usual length of a token, for what they do not count themselves.
const bytesPerToken = 4

// tokensOf estimates the tokens of a text of so many bytes.
func tokensOf(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// maxCounted bounds the tokens of a request that are believed: more than any model takes.
const maxCounted = 100_000_000

// count adds what a request has taken. An answer that was cut off is counted, too, by its bytes if the
// provider has not said more. A provider that counts wrongly gives nothing back to a budget.
func (c *call) count(a *answer) {
	used := &a.used
	used.InputTokens = min(max(used.InputTokens, 0), maxCounted)
	used.CachedTokens = min(max(used.CachedTokens, 0), used.InputTokens)
	used.OutputTokens = min(max(used.OutputTokens, 0), maxCounted)
	if used.InputTokens == 0 && (a.ended || len(a.text) > 0) {
		used.InputTokens, c.used.Estimated = tokensOf(c.sent), true
	}
	least := tokensOf(len(a.text))
	if !a.ended && used.OutputTokens < least || used.OutputTokens == 0 && least > 0 {
		used.OutputTokens, c.used.Estimated = least, true
	}
	c.used.Requests++
	c.used.InputTokens += used.InputTokens
	c.used.CachedTokens += used.CachedTokens
	c.used.OutputTokens += used.OutputTokens
	used.USD = cost(c.conf.Price, used)
	c.used.USD = roundUSD(c.used.USD + used.USD)
}

// cost returns what tokens cost, in US dollars; 0 without a price.
func cost(p *config.Price, u *usage) float64 {
	if p == nil {
		return 0
	}
	cached := p.Input
	if p.Cached != nil {
		cached = *p.Cached
	}
	return (float64(u.InputTokens-u.CachedTokens)*float64(p.Input) + float64(u.CachedTokens)*float64(cached) +
		float64(u.OutputTokens)*float64(p.Output)) / 1e6
}

// roundUSD rounds a sum to a billionth, so that 0.1 + 0.2 is 0.3.
func roundUSD(usd float64) float64 { return math.Round(usd*1e9) / 1e9 }
