package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/logs"
	"runnel/tools/remote"
	"runnel/tools/text"
)

// catalog is what a server has told of itself and of what it has. It is kept with the state: a list is answered from it while the
// server starts, and nothing has to start for a list that nobody reads.
type catalog struct {
	Server       mcp.Implementation     `json:"server"`
	Instructions string                 `json:"instructions,omitempty"`
	Capabilities mcp.ServerCapabilities `json:"capabilities"`

	Tools     []json.RawMessage `json:"tools,omitempty"`
	Prompts   []listEntry       `json:"prompts,omitempty"`
	Resources []listEntry       `json:"resources,omitempty"`
	Templates []listEntry       `json:"templates,omitempty"`
}

// listEntry is an entry of a list that is not looked into.
type listEntry struct {
	Key string          `json:"key"` // its name, its URI or its template
	Raw json.RawMessage `json:"raw"`
}

// maxInstructions is how much of a server's instructions is passed on, in bytes.
const maxInstructions = 64 << 10

// catalog asks the server for all that it has. Without its tools it is of no use; any other list that cannot be read is left out.
func (l *link) catalog(ctx context.Context) (*catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, l.u.times.start)
	defer cancel()
	caps := *l.client.Capabilities()
	c := &catalog{Server: l.client.Server(), Instructions: text.Clip(l.client.Instructions(), maxInstructions), Capabilities: caps}
	c.Capabilities.Extensions = nil // nobody asks for them here
	if c.Server.Icons != nil && c.Server.Icons[0] != '[' || len(c.Server.Icons) > maxListEntry {
		c.Server.Icons = nil
	}
	var cut bool
	var err error
	if c.Tools, cut, err = remote.ReadList(ctx, l.client, "tools/list", "tools"); err != nil {
		var e *rpc.Error
		if caps.Tools != nil || !errors.As(err, &e) || e.Code != mcp.CodeMethodNotFound {
			return nil, err
		}
	}
	if cut {
		l.u.log.Warn().Int("tools", len(c.Tools)).Msg("upstream has too many tools: the first are taken")
	}
	if caps.Prompts != nil {
		c.Prompts = l.entries(ctx, "prompts/list", "prompts", "name")
	}
	if caps.Resources != nil {
		c.Resources = l.entries(ctx, "resources/list", "resources", "uri")
		c.Templates = l.entries(ctx, "resources/templates/list", "resourceTemplates", "uriTemplate")
	}
	return c, ctx.Err()
}

// entries reads a list whose entries have a key. What cannot be read is left out, with a line in the log.
func (l *link) entries(ctx context.Context, method, member, key string) (list []listEntry) {
	raw, cut, err := remote.ReadList(ctx, l.client, method, member)
	if err != nil {
		l.u.log.Debug().Err(err).Msg("a list of an upstream cannot be read") // some declare resources and have no templates
		return nil
	}
	if cut {
		l.u.log.Warn().Str("list", method).Int("entries", len(raw)).Msg("a list of an upstream is too long: the first entries are taken")
	}
	wrong := 0
	for _, entry := range raw {
		var name string
		if !rawjson.IsObject(entry) || len(entry) > maxListEntry || json.Unmarshal(rawjson.Member(entry, key), &name) != nil || name == "" || len(name) > logs.MaxURI {
			wrong++
			continue
		}
		if key == "uri" && strings.HasPrefix(name, tasks.LogPrefix) {
			continue // the logs of a runnel's tasks: those of this one have their own
		}
		list = append(list, listEntry{name, entry})
	}
	if wrong > 0 {
		l.u.log.Warn().Str("list", method).Int("entries", wrong).Msg("entries of a list of an upstream are left out: they have no " + key + ", or are too large")
	}
	return list
}

// catalogFolder is where catalogs are kept, in the directory of the state, and catalogAge how long one that nobody has used.
const (
	catalogFolder = "upstreams"
	catalogAge    = 30 * 24 * time.Hour
	// maxCatalog is as much as four full lists take.
	maxCatalog = 5 * remote.MaxListBytes
)

// catalogFile is where the catalog of a server is kept: by what is started, and what it is told of its client, which may decide
// what it has.
func (u *Server) catalogFile(dir string) string {
	definition := rawjson.Encode(struct {
		Command []string
		Env     map[string]string
		Dir     string
		Client  mcp.ClientCapabilities
	}{u.config.Command, u.config.Env, u.dir, u.capabilities})
	sum := sha256.Sum256(definition)
	return filepath.Join(dir, catalogFolder, hex.EncodeToString(sum[:16])+".json")
}

// recall reads the catalog that is kept of the server, nil if there is none that can be read.
func (u *Server) recall(dir string) *catalog {
	if dir == "" {
		return nil
	}
	file := u.catalogFile(dir)
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxCatalog {
		return nil
	}
	text, err := os.ReadFile(file)
	c := &catalog{}
	if err != nil || json.Unmarshal(text, c) != nil {
		return nil
	}
	return c
}

// keep keeps the catalog for the next runnel, and forgets those that nobody has used for long.
func (u *Server) keep(dir string, c *catalog) error {
	if dir == "" {
		return nil
	}
	file := u.catalogFile(dir)
	if reflect.DeepEqual(u.recall(dir), c) {
		now := time.Now()
		return os.Chtimes(file, now, now)
	}
	folder := filepath.Dir(file)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if old, err := os.ReadDir(folder); err == nil {
		for _, f := range old {
			if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > catalogAge {
				_ = os.Remove(filepath.Join(folder, f.Name())) // the next one tries again
			}
		}
	}
	f, err := os.CreateTemp(folder, "new-*") // mode 0600
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(f)
	encoder.SetEscapeHTML(false) // else it would not be the same again
	err = encoder.Encode(c)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("keeping what an upstream has: %w", err)
	}
	return nil
}
