package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// catalog is a server's description of itself, with its lists. It is kept with the state, so a list can be answered while the server
// starts, and no server starts for a list that nobody reads.
type catalog struct {
	Info         mcp.Implementation     `json:"server"`
	Instructions string                 `json:"instructions,omitempty"`
	Capabilities mcp.ServerCapabilities `json:"capabilities"`

	Tools []json.RawMessage      `json:"tools"`
	Lists map[string][]listEntry `json:"lists"` // all others, by their methods

	unread []string // the methods of lists that could not be read this time
}

// listEntry is an entry of a list whose entries are passed on unread.
type listEntry struct {
	Key string          `json:"key"` // its name, its URI or its template
	Raw json.RawMessage `json:"raw"`
}

// The methods of the lists whose entries are passed on unread.
const (
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

// readCatalog asks a server for all its lists. It fails if the tools cannot be read, and leaves out any other list that cannot.
func readCatalog(ctx context.Context, client *rpc.Client, log zerolog.Logger) (*catalog, error) {
	caps := *client.Capabilities()
	c := &catalog{Info: client.Server(), Instructions: shorten.Clip(client.Instructions(), maxInstructions), Capabilities: caps, Lists: map[string][]listEntry{}}
	c.Capabilities.Extensions = nil // nobody asks for them here
	if c.Info.Icons != nil && c.Info.Icons[0] != '[' || len(c.Info.Icons) > maxIcons {
		c.Info.Icons = nil
	}
	var cut bool
	var err error
	if c.Tools, cut, err = remote.ReadList(ctx, client, "tools/list", "tools"); err != nil && (caps.Tools != nil || !isMissing(err)) {
		return nil, err
	}
	if cut {
		log.Warn().Int("tools", len(c.Tools)).Msg("upstream has too many tools: the first are taken")
	}
	if caps.Prompts != nil {
		c.read(ctx, client, log, promptList, "prompts", "name")
	}
	if caps.Resources != nil {
		c.read(ctx, client, log, resourceList, "resources", "uri")
		c.read(ctx, client, log, templateList, "resourceTemplates", "uriTemplate")
	}
	return c, ctx.Err()
}

// hide masks secrets in everything that is shown or kept of a catalog, except in the keys, by which requests find their entry.
func (c *catalog) hide(s *secrets.Set) {
	c.Instructions = s.String(c.Instructions)
	for i, tool := range c.Tools {
		c.Tools[i] = s.JSON(tool)
	}
	for _, list := range c.Lists {
		for i := range list {
			list[i].Raw = s.JSON(list[i].Raw)
		}
	}
}

// isMissing reports whether an error means that the server lacks the method: some declare resources and have no templates.
func isMissing(err error) bool {
	e, ok := errors.AsType[*rpc.Error](err)
	return ok && e.Code == mcp.CodeMethodNotFound
}

// read reads a list whose entries have a key. Entries that cannot be read are left out and logged.
func (c *catalog) read(ctx context.Context, client *rpc.Client, log zerolog.Logger, method, member, key string) {
	raw, cut, err := remote.ReadList(ctx, client, method, member)
	if err != nil {
		if !isMissing(err) {
			c.unread = append(c.unread, method)
		}
		log.Debug().Err(err).Msg("a list of an upstream cannot be read")
		return
	}
	if cut {
		log.Warn().Str("list", method).Int("entries", len(raw)).Msg("a list of an upstream is too long: the first entries are taken")
	}
	wrong := 0
	for _, entry := range raw {
		name := rawjson.StringMember(entry, key)
		switch {
		case name == "" || len(name) > logs.MaxURI:
			wrong++
		case key == "uri" && strings.HasPrefix(name, tasks.LogPrefix): // the logs of a runnel's tasks: those of this one have their own
		default:
			c.Lists[method] = append(c.Lists[method], listEntry{name, entry})
		}
	}
	if wrong > 0 {
		log.Warn().Str("list", method).Int("entries", wrong).Msg("entries of a list of an upstream are left out: they have no " + key + ", or it is too long")
	}
}

// tools returns the tools that the config wants and that can be served, and logs why others cannot.
func (c *catalog) tools(def *definition, log zerolog.Logger) (wanted []mcp.Tool) {
	specs, unreadable := remote.ReadTools(c.Tools)
	for _, raw := range unreadable {
		log.Warn().Str("entry", shorten.Clip(string(raw), maxLogLine)).Msg("a tool of an upstream is left out: it cannot be read")
	}
	named := map[string]bool{}
	for _, spec := range specs {
		if named[spec.Name] = true; !def.takes(spec.Name) {
			continue
		}
		for _, member := range []*json.RawMessage{&spec.OutputSchema, &spec.Icons, &spec.Meta} {
			if string(*member) == "null" { // the schema forbids it, but some servers write it
				*member = nil
			}
		}
		if err := def.checkTool(&spec); err != nil {
			log.Warn().Err(err).Str("tool", shorten.Clip(spec.Name, maxLogLine)).Msg("a tool of an upstream is left out")
			continue
		}
		wanted = append(wanted, spec)
	}
	for _, name := range slices.Concat(def.config.Allow, def.config.Deny) {
		if !named[name] {
			log.Warn().Str("tool", name).Msg("allow or deny name a tool that the upstream does not have")
		}
	}
	return wanted
}

// checkTool refuses a tool that would spoil the list for clients. Names are not checked: clients of today take any. An input schema without a type
// is listed as it is by a wrapped server, whose list has nothing to lose by it; among other servers it gets its type, because the official TypeScript
// client takes no list that has such a tool.
func (d *definition) checkTool(t *mcp.Tool) error {
	if t.Name == "" || len(t.Name) > maxToolName {
		return fmt.Errorf("its name has %d bytes: the limit is %d, and one has at least 1", len(t.Name), maxToolName)
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
	if t.OutputSchema != nil && !rawjson.IsObject(t.OutputSchema) || t.Meta != nil && !rawjson.IsObject(t.Meta) || t.Icons != nil && t.Icons[0] != '[' {
		return errors.New("its output schema or _meta is not an object, or its icons are not an array")
	}
	return nil
}

// shownName returns the name under which clients see a tool. A prefix is for clients that take only some letters in a name; taken holds the names
// that other tools of the server have.
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
