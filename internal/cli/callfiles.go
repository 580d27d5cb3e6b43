package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// fileLink is a link of a result to a file that its task has made.
type fileLink struct {
	Type, URI, Name string
	Size            int64
	Meta            map[string]any `json:"_meta"`
}

// fileLinks returns the links among the items of a result, each file once.
func fileLinks(items []json.RawMessage) (links []fileLink) {
	seen := map[string]bool{}
	for _, item := range items {
		var l fileLink
		if json.Unmarshal(item, &l) != nil || l.Type != "resource_link" || seen[l.URI] {
			continue
		}
		if strings.HasPrefix(l.URI, tasks.LogPrefix) && strings.Contains(l.URI, tasks.FileInfix) {
			seen[l.URI] = true
			links = append(links, l)
		}
	}
	return links
}

// saveFiles writes the files that the items of a result link to below a directory, and says which.
func (c *call) saveFiles(ctx context.Context, items []json.RawMessage) error {
	links := fileLinks(items)
	if len(links) == 0 {
		return nil
	}
	if err := os.MkdirAll(c.o.artifacts, 0o755); err != nil {
		return fmt.Errorf("--artifacts: %w", err)
	}
	root, err := os.OpenRoot(c.o.artifacts) // the names are the server's
	if err != nil {
		return fmt.Errorf("--artifacts: %w", err)
	}
	defer func() { _ = root.Close() }()
	var errs []error
	for _, l := range links {
		if err := c.saveFile(ctx, root, &l); err != nil {
			errs = append(errs, fmt.Errorf("--artifacts: %.200q: %w", l.Name, err))
			continue
		}
		c.i.Say(zerolog.InfoLevel, fmt.Sprintf("saved %s, %d bytes",
			filepath.Join(c.o.artifacts, filepath.FromSlash(l.Name)), l.Size))
	}
	return errors.Join(errs...)
}

// saveFile reads a file page by page into a new one, which gets the name of the file once it is whole: what
// stood there before is lost only then.
func (c *call) saveFile(ctx context.Context, root *os.Root, l *fileLink) (err error) {
	if !fs.ValidPath(l.Name) {
		return errors.New("not a name for a file")
	}
	if dir := path.Dir(l.Name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	part := path.Join(path.Dir(l.Name), fmt.Sprintf(".runnel-%d", os.Getpid()))
	out, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err == nil {
			err = root.Rename(part, l.Name)
		}
		if err != nil {
			_ = root.Remove(part)
		}
	}()
	hash := sha256.New()
	for at := int64(0); at < l.Size; {
		var page struct {
			Contents []struct {
				Text string
				Blob []byte
				Meta map[string]json.RawMessage `json:"_meta"`
			}
		}
		uri := fmt.Sprintf("%s?after=%d", l.URI, at)
		if err := c.client.Call(ctx, "resources/read", mcp.ResourceParams{URI: uri}, &page); err != nil {
			return err
		}
		var next int64
		if len(page.Contents) != 1 || json.Unmarshal(page.Contents[0].Meta[mcp.MetaNext], &next) != nil ||
			next <= at || next > l.Size {
			return fmt.Errorf("the server has sent nothing after byte %d, or more than its %d", at, l.Size)
		}
		piece := bytes.Join([][]byte{[]byte(page.Contents[0].Text), page.Contents[0].Blob}, nil)
		_, _ = hash.Write(piece) // never fails
		if _, err := out.Write(piece); err != nil {
			return err
		}
		at = next
	}
	if want, _ := l.Meta[mcp.MetaSHA256].(string); want != "" && want != hex.EncodeToString(hash.Sum(nil)) {
		return errors.New("it has another SHA-256 than its link says")
	}
	return nil
}
