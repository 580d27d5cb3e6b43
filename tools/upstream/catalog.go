package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"runnel/internal/shorten"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/logs"
	"runnel/tools"
	"runnel/tools/remote"
	"runnel/tools/secrets"
)

// catalog is a server's description of itself, with its lists. It is kept with the state, so a list can be
// answered while the server starts, and no server starts for a list that nobody reads.
type catalog struct {
	Info         mcp.Implementation     `json:"server"`
	Instructions string                 `json:"instructions,omitempty"`
	Capabilities mcp.ServerCapabilities `json:"capabilities"`
	// The capabilities as the server wrote them.
	Declared json.RawMessage `json:"declared,omitempty"`

	Tools []json.RawMessage      `json:"tools"`
	Lists map[string][]listEntry `json:"lists"` // all others, by their methods

	specs []mcp.Tool // of Tools, those that the config wants and that can be served
	// The methods of lists that have not been read since the server was started: they are those from before.
	unread map[string]bool
}

// listEntry is an entry of a list whose entries are passed on unread.
type listEntry struct {
	Key string          `json:"key"` // its name, its URI or its template
	Raw json.RawMessage `json:"raw"`
}

// The methods of the lists. The entries of all but toolList are passed on unread.
const (
	toolList     = "tools/list"
	promptList   = "prompts/list"
	resourceList = "resources/list"
	templateList = "resources/templates/list"
)

const (
	// maxInstructions limits the part of a server's instructions that is passed on, in bytes.
	maxInstructions = 64 << 10
	// maxIcons limits the icons of a server, in bytes of JSON.
	maxIcons = mcp.MaxListPage
	// maxToolName limits the name of a tool, which is stored with each of its tasks.
	maxToolName = 1 << 10
)

// listKind is one of a server's lists.
type listKind struct {
	method, member, key string // key is the member of an entry by which requests name it
}

var listKinds = []*listKind{
	{toolList, "tools", "name"},
	{promptList, "prompts", "name"},
	{resourceList, "resources", "uri"},
	{templateList, "resourceTemplates", "uriTemplate"},
}

// isOf reports whether a server says that it has a list. Tools are asked for in any case.
func (k *listKind) isOf(caps *mcp.ServerCapabilities) bool {
	switch k.method {
	case promptList:
		return caps.Prompts != nil
	case resourceList, templateList:
		return caps.Resources != nil
	}
	return true
}

// copy returns a copy that can be changed while others read the original; it may be nil.
func (c *catalog) copy() *catalog {
	if c == nil {
		return &catalog{Lists: map[string][]listEntry{}}
	}
	next := *c
	next.Lists, next.unread = maps.Clone(c.Lists), maps.Clone(c.unread)
	return &next
}

// introduce sets how a server has introduced itself. Its lists are unread.
func (c *catalog) introduce(client *rpc.Client, hide *secrets.Set) {
	c.Info = client.Server()
	c.Capabilities = *client.Capabilities()
	c.Declared = slices.Clone(client.Declared())
	if hide.Holds(c.Declared) {
		c.Declared, c.Capabilities = hide.JSON(c.Declared), mcp.ServerCapabilities{}
		_ = json.Unmarshal(c.Declared, &c.Capabilities) // an object stays an object
	}
	if info := rawjson.Encode(c.Info); hide.Holds(info) {
		c.Info = mcp.Implementation{}
		_ = json.Unmarshal(hide.JSON(info), &c.Info)
	}
	c.Instructions = shorten.Clip(hide.String(client.Instructions()), maxInstructions)
	if c.Info.Icons != nil && c.Info.Icons[0] != '[' || len(c.Info.Icons) > maxIcons {
		c.Info.Icons = nil
	}
	c.unread = map[string]bool{}
	for _, kind := range listKinds {
		if kind.isOf(&c.Capabilities) {
			c.unread[kind.method] = true
		} else {
			delete(c.Lists, kind.method)
		}
	}
}

// readList asks a server for a list. It returns the change of the catalog.
func (d *definition) readList(ctx context.Context, client *rpc.Client,
	kind *listKind) (change func(*catalog), err error) {
	raw, cut, err := remote.ReadList(ctx, client, kind.method, kind.member)
	if err != nil && !isMissing(err) {
		return nil, err
	}
	if cut {
		d.log.Warn().Str("list", kind.method).Int("entries", len(raw)).
			Msg("a list of an upstream is too long: the first entries are taken")
	}
	if kind.method == toolList {
		hide := d.secrets.Set()
		for i, tool := range raw {
			raw[i] = hide.JSON(tool)
		}
		specs := d.served(raw, d.log)
		return func(c *catalog) { c.Tools, c.specs = raw, specs }, nil
	}
	entries := d.entries(kind, raw)
	return func(c *catalog) { c.Lists[kind.method] = entries }, nil
}

// isMissing reports whether an error means that the server lacks the method: some declare resources and have
// no templates.
func isMissing(err error) bool {
	e, ok := errors.AsType[*rpc.Error](err)
	return ok && e.Code == mcp.CodeMethodNotFound
}

// entries returns the entries of a list that have a key; others are left out and logged. Secrets are masked,
// except in the keys, by which requests find their entry.
func (d *definition) entries(kind *listKind, raw []json.RawMessage) (list []listEntry) {
	wrong := 0
	for _, entry := range raw {
		name := rawjson.StringMember(entry, kind.key)
		switch {
		case name == "" || len(name) > logs.MaxURI:
			wrong++
		case kind.method == resourceList && strings.HasPrefix(name, tasks.LogPrefix):
			// The logs of a runnel's tasks: those of this one have their own.
		default:
			list = append(list, listEntry{name, d.secrets.Set().JSON(entry)})
		}
	}
	if wrong > 0 {
		d.log.Warn().Str("list", kind.method).Int("entries", wrong).
			Msg("entries of a list of an upstream are left out: they have no " + kind.key +
				", or it is too long")
	}
	return list
}

// served returns the tools that the config wants and that can be served, and logs why others cannot.
func (d *definition) served(list []json.RawMessage, log zerolog.Logger) (wanted []mcp.Tool) {
	specs, unreadable := remote.ReadTools(list)
	for _, raw := range unreadable {
		log.Warn().Str("entry", shorten.Clip(string(raw), maxLogLine)).
			Msg("a tool of an upstream is left out: it cannot be read")
	}
	named := map[string]bool{}
	for _, spec := range specs {
		if named[spec.Name] = true; !d.takes(spec.Name) {
			continue
		}
		for _, member := range []*json.RawMessage{&spec.OutputSchema, &spec.Icons, &spec.Meta} {
			if string(*member) == "null" { // the schema forbids it, but some servers write it
				*member = nil
			}
		}
		if err := d.checkTool(&spec); err != nil {
			log.Warn().Err(err).Str("tool", shorten.Clip(spec.Name, maxLogLine)).
				Msg("a tool of an upstream is left out")
			continue
		}
		wanted = append(wanted, spec)
	}
	for _, name := range slices.Concat(d.config.Allow, d.config.Deny) {
		if !named[name] {
			log.Warn().Str("tool", name).Msg("allow or deny name a tool that the upstream does not have")
		}
	}
	return wanted
}

// checkTool refuses a tool that would spoil the list for clients. Names are not checked: clients of today
// take any. An input schema without a type
// is listed as it is by a wrapped server, whose list has nothing to lose by it; among other servers it gets
// its type, because the official TypeScript client takes no list that has such a tool.
func (d *definition) checkTool(t *mcp.Tool) error {
	if t.Name == "" || len(t.Name) > maxToolName {
		return fmt.Errorf("its name has %d bytes: the limit is %d, and one has at least 1", len(t.Name),
			maxToolName)
	}
	if len(t.InputSchema) == 0 || string(t.InputSchema) == "null" {
		t.InputSchema = json.RawMessage("{}")
	}
	switch kind := rawjson.Member(t.InputSchema, "type"); {
	case !rawjson.IsObject(t.InputSchema):
		return errors.New("its input schema is not an object")
	case d.name == WrappedName:
	case kind == nil:
		t.InputSchema = rawjson.WithMember(t.InputSchema, "type", "object")
	case string(kind) != `"object"`:
		return errors.New("its input schema is not that of an object")
	}
	if t.OutputSchema != nil && !rawjson.IsObject(t.OutputSchema) ||
		t.Meta != nil && !rawjson.IsObject(t.Meta) || t.Icons != nil && t.Icons[0] != '[' {
		return errors.New("its output schema or _meta is not an object, or its icons are not an array")
	}
	return nil
}

// shownName returns the name under which clients see a tool. A prefix is for clients that take only some
// letters in a name; taken holds the names that other tools of the server have.
func (d *definition) shownName(name string, taken map[string]bool) string {
	if d.config.Prefix == "" {
		return name
	}
	plain := strings.Map(func(r rune) rune {
		if tools.CheckName(string(r)) != nil {
			return '_'
		}
		return r
	}, name)
	shown := d.config.Prefix + plain
	for n := 2; taken[shown]; n++ {
		shown = fmt.Sprintf("%s%s_%d", d.config.Prefix, plain, n)
	}
	return shown
}
