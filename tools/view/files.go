package view

import (
	"context"
	"errors"
	"image"
	_ "image/gif"  // pictures that are shown
	_ "image/jpeg" // another kind of them
	_ "image/png"  // and another
	"io"

	_ "golang.org/x/image/webp" // the last one

	"runnel/tasks"
	"runnel/tasks/files"
	"runnel/tools"
)

const (
	// maxFiles is how many files of a task the page lists.
	maxFiles = 200
	// maxPictures is how many of them it shows as pictures, each of at most maxPicture bytes and maxPixels: a
	// file of a few KiB may have more of them than a browser can hold.
	maxPictures = 12
	maxPicture  = 4 << 20
	maxPixels   = 16 << 20
	// pictureHead is how much of a file is read to learn its size in pixels, in bytes: metadata may come
	// first.
	pictureHead = 256 << 10
)

// shownFile is a file that a task has made.
type shownFile struct {
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Size     int64  `json:"size"`
	URI      string `json:"uri"`
	// Width and Height are those of a picture that the page shows, in pixels; 0 = it shows a link.
	Width  int `json:"width,omitempty"`
	Height int `json:"height,omitempty"`
}

// files implements view_files.
func (v *view) files(ctx context.Context, _ *tools.Call, p taskParams) (any, error) {
	answer := struct {
		Files []shownFile `json:"files"`
		More  int         `json:"more,omitempty"` // files that are not listed
	}{Files: []shownFile{}}
	set, err := v.runner.Files(ctx, p.TaskID)
	if errors.Is(err, tasks.ErrNotFound) { // it has made none
		return answer, nil
	} else if err != nil {
		return nil, err
	}
	pictures := 0
	for n, f := range set.Files {
		if n == maxFiles {
			answer.More = len(set.Files) - n
			break
		}
		shown := shownFile{Name: f.Name, MIMEType: f.MIMEType, Size: f.Size,
			URI: tasks.FileURI(p.TaskID, f.Name)}
		if pictures < maxPictures {
			if shown.Width, shown.Height = pictureSize(ctx, set, f); shown.Width > 0 {
				pictures++
			}
		}
		answer.Files = append(answer.Files, shown)
	}
	return answer, nil
}

// pictureSize returns the size of a picture that every browser can show, 0 for other files.
func pictureSize(ctx context.Context, set *files.Set, f files.File) (width, height int) {
	switch f.MIMEType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return 0, 0
	}
	if f.Size > maxPicture {
		return 0, 0
	}
	size, _, err := image.DecodeConfig(io.LimitReader(set.Reader(ctx, f), pictureHead))
	if err != nil || size.Width <= 0 || size.Height <= 0 || size.Width > maxPixels/size.Height {
		return 0, 0
	}
	return size.Width, size.Height
}
