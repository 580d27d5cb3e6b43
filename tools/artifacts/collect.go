package artifacts

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"runnel/internal/system"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/files"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/secrets"
)

// Made is a directory in which a command runs, as it was when the command started. Watch makes one.
type Made struct {
	root    *os.Root
	rules   *config.Artifacts
	before  listing
	began   time.Time
	unknown error // why it is not known what the command makes
}

// Watch looks at a directory before a command runs there. It returns nil without rules.
func Watch(dir string, rules *config.Artifacts) *Made {
	if rules == nil || len(rules.Files) == 0 {
		return nil
	}
	m := &Made{rules: rules, began: time.Now()}
	if m.root, m.unknown = os.OpenRoot(dir); m.unknown == nil {
		m.before, m.unknown = list(m.root, rules.Files)
	}
	return m
}

// Close releases the directory. It may be called on nil.
func (m *Made) Close() {
	if m != nil && m.root != nil {
		_ = m.root.Close()
	}
}

// about returns a line of a result that is not output.
func about(text string) mcp.ContentBlock { return tools.StreamText(text, mcp.StreamFiles) }

// clockSlack is how much the clock of a file system may be behind.
const clockSlack = 2 * time.Second

// maxReasons is how many of the files that are left out a result names.
const maxReasons = 10

// Collect keeps the files that are new or changed since Watch, and returns the items that a result has of
// them: pictures and sounds, links to all files, and at last a text about those that are left out. nil
// returns none.
func (m *Made) Collect(ctx context.Context, call *tools.Call, hidden *secrets.Set) []mcp.ContentBlock {
	if m == nil {
		return nil
	}
	if m.unknown != nil {
		return []mcp.ContentBlock{about(fmt.Sprintf("[no files: %v]", m.unknown))}
	}
	after, err := list(m.root, m.rules.Files)
	if err != nil {
		return []mcp.ContentBlock{about(fmt.Sprintf("[no files: %v]", err))}
	}
	maps.DeleteFunc(after, func(name string,
		_ os.FileInfo) bool {
		return !m.before.isChanged(name, after[name])
	})
	if len(after) == 0 {
		return nil
	}
	keeper, err := call.KeepFiles(ctx, int64(*m.rules.MaxBytes))
	if err != nil {
		return []mcp.ContentBlock{about(fmt.Sprintf("[no files: the task cannot be kept: %v]", err))}
	}
	c := collection{made: m, call: call, hidden: hidden, keeper: keeper, names: map[string]bool{},
		room: maxShown}
	names := slices.Sorted(maps.Keys(after))
	for i, name := range names {
		if c.kept == m.rules.Max {
			c.leaveOut(fmt.Sprintf("%d more", len(names)-i),
				fmt.Errorf("a result has at most %d files (artifacts.max)", c.kept))
			break
		}
		if err := c.take(ctx, name, after[name]); err != nil {
			c.leaveOut(fmt.Sprintf("%.200q", name), err)
		}
	}
	if err := keeper.Close(context.WithoutCancel(ctx)); err != nil {
		return []mcp.ContentBlock{about(fmt.Sprintf("[no files: %v]", err))}
	}
	return c.all()
}

// collection is the files of one result.
type collection struct {
	made    *Made
	call    *tools.Call
	hidden  *secrets.Set
	keeper  *files.Writer
	names   map[string]bool // of the files that are kept
	content []mcp.ContentBlock
	kept    int
	room    int      // bytes of base64 that pictures and sounds may still take
	reasons []string // why files are left out
	more    int      // that are left out, too
}

func (c *collection) leaveOut(what string, why error) {
	if len(c.reasons) == maxReasons {
		c.more++
		return
	}
	c.reasons = append(c.reasons, fmt.Sprintf("[left out: %s: %v]", c.hidden.String(what), why))
}

// all returns the content, with the reasons at its end.
func (c *collection) all() []mcp.ContentBlock {
	if c.more > 0 {
		c.reasons = append(c.reasons, fmt.Sprintf("[left out: %d more]", c.more))
	}
	if len(c.reasons) > 0 {
		c.content = append(c.content, about(strings.Join(c.reasons, "\n")))
	}
	return c.content
}

// take keeps one file and adds what the result has of it.
func (c *collection) take(ctx context.Context, name string, listed os.FileInfo) error {
	if err := checkName(name); err != nil {
		return err
	}
	if left := c.keeper.Left(); listed.Mode().IsRegular() && listed.Size() > left {
		return c.tooLarge(listed.Size())
	}
	from, err := open(c.made.root, name, listed)
	if err != nil {
		return err
	}
	defer func() { _ = from.file.Close() }()
	if at, ok := system.ChangeTime(listed); ok && at.Before(c.made.began.Add(-clockSlack)) {
		return errors.New("it is older than the call, and only its directory was moved")
	}
	found, err := detect(from)
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", rootCause(err))
	}
	kind, content := found.kind, mask(found, c.hidden)
	var data bytes.Buffer // of a picture or a sound
	if (isPicture(kind) || isSound(kind)) && listed.Size() <= maxPicture {
		content = io.TeeReader(content, &data)
	}
	file, err := c.keeper.Write(ctx, content)
	switch {
	case errors.Is(err, files.ErrFull):
		return c.tooLarge(listed.Size())
	case err != nil:
		return err
	}
	if err := from.check(); err != nil {
		return err
	}
	file.Name, file.MIMEType = c.unique(c.hidden.String(name)), kind
	c.keeper.Keep(file)
	c.kept++
	c.show(ctx, &file, data.Bytes())
	return nil
}

// unique returns a name that no file has yet: masks may have made some alike.
func (c *collection) unique(name string) string {
	kind := path.Ext(name)
	free := name
	for n := 2; c.names[free]; n++ {
		free = fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(name, kind), n, kind)
	}
	c.names[free] = true
	return free
}

func (c *collection) tooLarge(size int64) error {
	return fmt.Errorf("its %d bytes do not fit into what is left of %s (artifacts.maxBytes)", size,
		*c.made.rules.MaxBytes)
}

// show adds a file to the content: itself if it is a picture or a sound that fits, and a link. No item takes
// more than half of the room that is left, so that there is some for the next ones.
func (c *collection) show(ctx context.Context, file *files.File, data []byte) {
	var item mcp.ContentBlock
	how := ""
	if limit := c.room / 2; isPicture(file.MIMEType) {
		item, how = shown(ctx, data, file.MIMEType, limit)
	} else if isSound(file.MIMEType) && len(data) > 0 && base64.StdEncoding.EncodedLen(len(data)) <= limit {
		item = mcp.Audio(data, file.MIMEType)
	}
	if item != nil {
		c.room -= len(item)
		c.content = append(c.content, item)
	}
	c.content = append(c.content, tasks.LinkFile(c.call.TaskID, mcp.Resource{
		Name: file.Name, MimeType: file.MIMEType, Size: file.Size, Description: how,
	}, file.SHA256))
}
