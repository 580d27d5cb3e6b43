package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"runnel/rpc/mcp"
	"runnel/tools/config/strict"
	"runnel/tools/process"
	"runnel/tools/secrets"
)

// Model is one "model:" of a tool in the config file: the language model that answers its calls.
type Model struct {
	API  string `yaml:"api"`  // one of ModelAPIs
	URL  string `yaml:"url"`  // the base URL of its endpoint; default: the provider's
	Name string `yaml:"name"` // the provider's name of the model
	Key  string `yaml:"key"`  // sent with each request, and masked wherever runnel shows or keeps text
	// Sent with each request, too; ${NAME} in a value is a secret.
	Headers map[string]string `yaml:"headers"`

	System string `yaml:"system"` // both with placeholders
	Prompt string `yaml:"prompt"`

	MaxTokens int  `yaml:"maxTokens"` // of an answer; default DefaultMaxTokens
	Retries   *int `yaml:"retries"`   // more attempts at a request; default DefaultModelRetries

	Tools     []string `yaml:"tools"`     // names of tools of this runnel that the model may call
	MaxRounds int      `yaml:"maxRounds"` // requests of a call, with Tools; default DefaultMaxRounds

	Price  *Price  `yaml:"price"`  // what tokens cost; nil = no money is counted
	Budget Budgets `yaml:"budget"` // what ends its calls

	Extra Object `yaml:"extra" json:",omitempty"` // members that are added to the body of each request
}

// Price is what a model costs, in US dollars per million tokens.
type Price struct {
	Input  USD  `yaml:"input"`
	Output USD  `yaml:"output"`
	Cached *USD `yaml:"cached"` // input that the provider had in a cache; default Input
}

// Budgets are the limits of a tool with a model. One may stand without a list.
type Budgets []Budget

// Single implements strict.Single.
func (Budgets) Single() {}

// Budget is a limit of the tokens (input and output) or the money of a tool.
type Budget struct {
	Tokens int    `yaml:"tokens"` // 0 = no limit
	USD    USD    `yaml:"usd"`    // 0 = no limit
	Per    string `yaml:"per"`    // PerCall (default) or PerDay
}

// These are the values of Budget.Per.
const (
	PerCall = "call"
	PerDay  = "day" // of UTC; the calls of an owner
)

// USD is an amount of US dollars.
type USD float64

// UnmarshalText reads an amount, such as 0.50.
func (u *USD) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v >= 0 && v <= limitUSD) {
		return Wrong("US dollars, such as 3 or 0.25", "%q is not an amount of money", text)
	}
	*u = USD(v)
	return nil
}

// Kind implements strict.Kind.
func (*USD) Kind() string { return "an amount of money" }

// String returns the amount as UnmarshalText reads it.
func (u USD) String() string { return strconv.FormatFloat(float64(u), 'f', -1, 64) }

// limitUSD keeps sums in millionths of a dollar exact.
const limitUSD = 1e6

// ModelAPIs are the values of Model.API.
var ModelAPIs = []string{"anthropic", "openai", "responses", "ollama", "sampling"}

// APISampling is the Model.API of the client's own model.
const APISampling = "sampling"

// These are defaults of a Model.
const (
	DefaultMaxTokens    = 4096
	DefaultModelRetries = 4
	DefaultMaxRounds    = 16
	// DefaultModelIdle is the default of Command.IdleTimeout for a tool with a model: how long a provider may
	// be silent. Models that think send nothing for minutes.
	DefaultModelIdle = Duration(10 * time.Minute)
)

const (
	limitMaxTokens = 10_000_000
	limitMaxRounds = 1000
)

// modelURLs are the base URLs of providers, as their own libraries have them.
var modelURLs = map[string]string{
	"anthropic": "https://api.anthropic.com",
	"openai":    "https://api.openai.com/v1",
	"responses": "https://api.openai.com/v1",
	"ollama":    "http://127.0.0.1:11434",
}

// modelKeys are the keys of a tool that go together with "model:".
var modelKeys = []string{"title", "description", "annotations", "_meta", "model", "input", "required", "dir",
	"timeout", "idleTimeout", "task", "maxConcurrent", "maxOutput", "maxResult", "structured", "outputSchema",
	"confirm", "confirmFallback", "runs", "queueTimeout", "priority", "retry", "notify", "every"}

// CompleteModel is Complete for a tool with a model.
func (c *Command) CompleteModel() (err error) {
	check := func(fine bool, key, problem, allowed string) {
		if !fine && err == nil {
			err = &Error{Key: key, Problem: problem, Allowed: allowed}
		}
	}
	if key := c.keyBeside(modelKeys); key != "" {
		check(false, key, "is for commands, and this tool has a model", strings.Join(modelKeys, ", "))
	}
	m := new(*c.Model)
	m.MaxTokens = cmp.Or(m.MaxTokens, DefaultMaxTokens)
	m.Retries = cmp.Or(m.Retries, new(DefaultModelRetries))
	m.MaxRounds = cmp.Or(m.MaxRounds, DefaultMaxRounds)
	m.URL = cmp.Or(m.URL, modelURLs[m.API])
	m.Budget = slices.Clone(m.Budget)
	check(slices.Contains(ModelAPIs, m.API), "model.api", fmt.Sprintf("%q is unknown", m.API),
		strings.Join(ModelAPIs, ", "))
	sampling := m.API == APISampling
	check(m.Name != "" || sampling, "model", "names no model", "name, such as claude-sonnet-4-5")
	check(m.Prompt != "", "model", "asks nothing", "prompt, with the inputs of the tool: {{name}}")
	check(!sampling || m.Key == "" && m.URL == "" && len(m.Headers) == 0, "model",
		"has a key, a url or headers, and the client's own model needs none", "none of them")
	check(!sampling || len(m.Tools) == 0, "model.tools", "is impossible with api: sampling", "another api")
	check(!sampling || len(m.Extra) == 0, "model.extra", "is impossible with api: sampling", "another api")
	check(1 <= m.MaxTokens && m.MaxTokens <= limitMaxTokens, "model.maxTokens",
		fmt.Sprintf("%d is out of range", m.MaxTokens), fmt.Sprintf("1 to %d", limitMaxTokens))
	check(0 <= *m.Retries && *m.Retries <= limitRetry, "model.retries",
		fmt.Sprintf("%d is out of range", *m.Retries), fmt.Sprintf("0 to %d", limitRetry))
	check(1 <= m.MaxRounds && m.MaxRounds <= limitMaxRounds, "model.maxRounds",
		fmt.Sprintf("%d is out of range", m.MaxRounds), fmt.Sprintf("1 to %d", limitMaxRounds))
	for i := range m.Budget {
		b, key := &m.Budget[i], fmt.Sprintf("model.budget[%d]", i)
		b.Per = cmp.Or(b.Per, PerCall)
		check(b.Per == PerCall || b.Per == PerDay, key+".per",
			fmt.Sprintf("%q is unknown", b.Per), "call, day")
		check(b.Tokens >= 0, key+".tokens", fmt.Sprintf("%d is negative", b.Tokens),
			"1 or more; 0 = no limit")
		check(b.Tokens > 0 || b.USD > 0, key, "limits nothing", "tokens or usd")
		check(b.USD == 0 || m.Price != nil, key+".usd", "needs to know what tokens cost",
			"price: {input: USD, output: USD} beside it, per million tokens")
	}
	for i, name := range m.Tools {
		check(name != "", fmt.Sprintf("model.tools[%d]", i), "is empty", "the name of a tool of this config")
	}
	c.Model = m
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultModelIdle)
	c.Task = cmp.Or(c.Task, mcp.TaskOptional)
	c.Structured = cmp.Or(c.Structured, StructuredNone)
	check(c.Structured == StructuredNone || c.Structured == StructuredJSON, "structured",
		fmt.Sprintf("%q is not for a model", c.Structured), "none, json")
	check(c.Timeout >= 0, "timeout", c.Timeout.String()+" is negative", "0 or more")
	check(c.IdleTimeout >= 0, "idleTimeout", c.IdleTimeout.String()+" is negative", "0 or more")
	check(c.MaxConcurrent >= 0, "maxConcurrent", fmt.Sprintf("%d is negative", c.MaxConcurrent),
		"1 or more; 0 = no limit")
	c.completeOffer(check)
	// With On, it is the mapping, which is for exit codes.
	check(c.Retry.Times >= 0 && c.Retry.Times <= limitRetry && c.Retry.Backoff == nil && !c.Retry.Timeout &&
		(c.Retry.Times == 0 || c.Retry.On != nil && len(c.Retry.On) == 0), "retry",
		"is more than how often a call is begun again after the death of its worker",
		fmt.Sprintf("0 to %d; model.retries is how often a request is made again", limitRetry))
	check(c.Runs == "" || m.API != APISampling, "runs", "is impossible with api: sampling", "another api")
	c.MaxOutput = cmp.Or(c.MaxOutput, new(DefaultMaxOutput))
	check(*c.MaxOutput > 0, "maxOutput", "0 is out of range", "1 or more")
	check(slices.Contains([]mcp.TaskSupport{mcp.TaskOptional, mcp.TaskRequired, mcp.TaskForbidden}, c.Task),
		"task", fmt.Sprintf("%q is unknown", c.Task), "optional, required, forbidden")
	if c.MaxResult != nil {
		check(MinMaxResult <= *c.MaxResult && *c.MaxResult <= limitMaxResult, "maxResult",
			c.MaxResult.String()+" is out of range", MinMaxResult.String()+" to "+limitMaxResult.String())
	}
	return err
}

// keyBeside returns the first key of a tool that has a value and is not among the given ones, "" if there is
// none.
func (c *Command) keyBeside(keys []string) string {
	v := reflect.ValueOf(c).Elem()
	all, fields := strict.Keys(v.Type())
	for _, key := range all {
		if !slices.Contains(keys, key) && !v.Field(fields[key]).IsZero() {
			return key
		}
	}
	return ""
}

// variableReference is ${NAME} in a text.
var variableReference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
})

// Expand replaces ${NAME} in a text by the variables of vars ("NAME=value"; nil = runnel's own environment).
// unset is the first name without a value, "" if there is none.
func Expand(text string, vars []string) (filled, unset string) {
	if !strings.Contains(text, "${") {
		return text, ""
	}
	if vars == nil {
		vars = os.Environ()
	}
	filled = variableReference().ReplaceAllStringFunc(text, func(reference string) string {
		name := reference[2 : len(reference)-1]
		value, _ := process.LookupEnv(vars, name)
		if value == "" {
			unset = cmp.Or(unset, name)
		}
		return value
	})
	return filled, unset
}

// modelSecrets returns what is secret by itself of the models, and the mistakes in it: their keys, and the
// variables in their headers. Such a variable that is too short for a secret is none.
func (c *Config) modelSecrets(vars []string) (values []string, errs []error) {
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		m := c.Tools[name].Model
		if m == nil {
			continue
		}
		for _, value := range m.Headers {
			for _, reference := range variableReference().FindAllString(value, -1) {
				filled, _ := Expand(reference, vars)
				if secrets.CheckValue(filled) == nil {
					values = append(values, filled)
				}
			}
		}
		if m.Key == "" {
			continue
		}
		key, unset := Expand(m.Key, vars)
		if unset != "" {
			continue // a call says so
		}
		if err := secrets.CheckValue(key); err != nil {
			errs = append(errs, c.Locate(Join("tools", name), &Error{Key: "model.key", Problem: err.Error(),
				Allowed: "a longer key, or none"}))
			continue
		}
		values = append(values, key)
	}
	return values, errs
}
