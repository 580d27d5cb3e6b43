package model

import (
	"math"

	"runnel/tools/config"
)

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
