package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/process"
	"runnel/tools/proxy"
	"runnel/tools/text"
)

// lookup returns the addresses of a name.
type lookup = func(ctx context.Context, name string) ([]netip.Addr, error)

// reach gives a call's command the hosts that its sandbox leaves, through a proxy, until end. p is nil if the
// sandbox leaves no hosts.
func (c *Command) reach(ctx context.Context, in *tools.Call,
	spec *process.Spec) (p *proxy.Proxy, end func()) {
	if spec.Sandbox == nil {
		return nil, func() {}
	}
	p, vars, asks := c.config.Sandbox.Proxy()
	if p == nil {
		return nil, func() {}
	}
	p.Lookup = c.lookup
	if asks {
		p.Ask = func(ctx context.Context, address string) bool {
			return c.grants(ctx, in, "connect to "+address, grantForm)
		}
	}
	spec.Env = append(spec.Env, vars...)
	spec.Sandbox.Listening, end = p.Begin(ctx)
	return p, end
}

// The answers to a question about what a sandbox does not allow.
const (
	grantCall    = "for this call"
	grantSession = "for this session"
	grantNone    = "no"
)

var grantForm = json.RawMessage(`{"type":"object","properties":{"allow":{"type":"string","title":"Allow it?",` +
	`"enum":["` + grantCall + `","` + grantSession + `","` + grantNone + `"],"default":"` + grantCall +
	`"}},"required":["allow"]}`)

// writeForm asks about a write, which the command has already failed of.
var writeForm = json.RawMessage(`{"type":"object","properties":{"allow":{"type":"string","title":"Allow it?",` +
	`"enum":["` + grantSession + `","` + grantNone + `"],"default":"` + grantSession +
	`"}},"required":["allow"]}`)

// changing begins what is granted of a path.
const changing = "change "

// granted is what the user of a session has allowed for its rest: the tool's name, a space, and what it may
// do.
type granted struct {
	mu   sync.Mutex
	list map[string]bool
}

type grantedKey struct{}

// grantsOf returns what the user of a call's session has granted.
func (c *Command) grantsOf(in *tools.Call) *granted {
	known := &granted{list: map[string]bool{}}
	if caller := in.Caller(); caller != nil { // else a worker, whose callers have sessions elsewhere
		known = caller.SessionValue(grantedKey{}, func() any { return known }).(*granted)
	}
	return known
}

// paths returns what a tool may change, beyond its sandbox.
func (g *granted) paths(tool string) (list []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.list {
		if path, ok := strings.CutPrefix(key, tool+" "+changing); ok {
			list = append(list, path)
		}
	}
	return list
}

// grants asks the user by a form whether the command may do something that its sandbox does not allow, such
// as "connect to HOST:PORT", unless that is known for the session.
func (c *Command) grants(ctx context.Context, in *tools.Call, what string, form json.RawMessage) bool {
	known := c.grantsOf(in)
	key := c.name + " " + what
	known.mu.Lock()
	allowed := known.list[key]
	known.mu.Unlock()
	if allowed {
		return true
	}
	question := fmt.Sprintf("%s wants to %s. Its sandbox does not allow that.", c.name, text.Printable(what))
	answer, err := in.Ask(ctx, tools.Question{Message: question, Schema: form})
	if err != nil || answer.Action != mcp.ElicitAccept {
		if err != nil && !errors.Is(err, tools.ErrCannotAsk) {
			in.Log().Warn().Err(err).Str("taskId", in.TaskID).Msg("the user was not asked about a sandbox")
		}
		return false
	}
	choice := rawjson.StringMember(answer.Content, "allow")
	if choice == grantSession {
		known.mu.Lock()
		known.list[key] = true
		known.mu.Unlock()
	}
	return choice == grantSession || choice == grantCall
}

// refused says what a proxy has refused to a command, for a model and its user; "" if that is nothing.
func refused(p *proxy.Proxy, canAsk bool) string {
	if p == nil {
		return ""
	}
	list := p.Refused()
	if len(list) == 0 {
		return ""
	}
	said := "blocked by the sandbox: connect to " + strings.Join(list, ", ") + "; allowed: " +
		proxy.Words(p.Hosts)
	if p.Ask != nil && !canAsk {
		first, _, _ := strings.Cut(list[0], ",")
		said += "; this client cannot ask its user, who can list it: network: [" + first + "]"
	}
	return said
}
