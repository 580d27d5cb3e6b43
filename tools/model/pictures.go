package model

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"runnel/internal/system"
	"runnel/rpc/rawjson"
	"runnel/tools/inputs"
)

const (
	// maxPicture bounds a picture, in bytes; providers take 5 to 20 MB. maxPictures bounds those of a call.
	maxPicture  = 10 << 20
	maxPictures = 20
)

// pictureTypes are the types that all providers take.
var pictureTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// findPictures returns the inputs that are pictures: texts, or lists of texts, with "format: image".
func findPictures(in *inputs.Inputs) (names []string) {
	properties := rawjson.Member(in.Schema, "properties")
	for _, name := range in.Names {
		s := rawjson.Member(properties, name)
		if rawjson.StringMember(s, "format") == "image" ||
			rawjson.StringMember(rawjson.Member(s, "items"), "format") == "image" {
			names = append(names, name)
		}
	}
	return names
}

// readPictures reads the pictures of a call, in the order of the inputs.
func (m *Model) readPictures(args inputs.Arguments) (list []picture, err error) {
	for _, name := range m.pictures {
		for _, value := range args[name].Values {
			if len(list) == maxPictures {
				return nil, fmt.Errorf("argument %q: a call has at most %d pictures", name, maxPictures)
			}
			p, err := m.readPicture(value)
			if err != nil {
				return nil, fmt.Errorf("argument %q: %w", name, err)
			}
			list = append(list, p)
		}
	}
	return list, nil
}

// readPicture reads a picture, a data: URI in base64 or the path of a file below the tool's directory. What
// it is its bytes say, not its caller.
func (m *Model) readPicture(value string) (p picture, err error) {
	if rest, isURI := strings.CutPrefix(value, "data:"); isURI {
		kind, data, found := strings.Cut(rest, ",")
		if !found || !strings.HasSuffix(kind, ";base64") {
			return p, errors.New("is not a data: URI in base64, such as data:image/png;base64,iVBORw0KGgo=")
		}
		if p.data, err = base64.StdEncoding.DecodeString(data); err != nil {
			return p, fmt.Errorf("its base64 cannot be read: %w", err)
		}
	} else if p.data, err = readBelow(m.dir, value); err != nil {
		return p, err
	}
	if len(p.data) > maxPicture {
		return p, fmt.Errorf("it is too large: a picture has at most %d bytes", maxPicture)
	}
	if p.mime = http.DetectContentType(p.data); !slices.Contains(pictureTypes, p.mime) {
		return p, errors.New("it is not a picture: PNG, JPEG, GIF and WebP are")
	}
	return p, nil
}

// readBelow reads a regular file below a directory, and no other: the path is that of a caller.
func readBelow(dir, path string) ([]byte, error) {
	if filepath.IsAbs(path) {
		var err error
		if path, err = filepath.Rel(dir, path); err != nil {
			return nil, errors.New("it is not below the tool's directory")
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the tool's directory cannot be opened: %w", cause(err))
	}
	defer func() { _ = root.Close() }()                         // nothing was written
	f, err := root.OpenFile(path, os.O_RDONLY|system.NoWait, 0) // a FIFO does not make it wait
	if err != nil {
		return nil, fmt.Errorf("it cannot be read from the tool's directory: %w", cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, maxPicture+1))
}

// cause returns the reason without the path.
func cause(err error) error {
	if about, ok := errors.AsType[*fs.PathError](err); ok {
		return about.Err
	}
	return err
}

// item returns a picture as MCP has it.
func (p *picture) item() json.RawMessage {
	return rawjson.Encode(object{"type": "image", "mimeType": p.mime,
		"data": base64.StdEncoding.EncodeToString(p.data)})
}
