package artifacts

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif" // pictures that are read
	"image/jpeg"
	"image/png"
	"math"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // another kind of them

	"runnel/rpc/mcp"
	"runnel/tools"
)

const (
	// maxShown is how many bytes of base64 all pictures and sounds of a result take: half of a line, the rest
	// of which is for its text.
	maxShown = mcp.MaxContent / 2
	// maxSide is the longest side of a picture that is shown, in pixels. Models' interfaces scale longer ones
	// down to about this, and one of them refuses a request with many pictures of which one is longer than
	// 2,000.
	maxSide = 1568
	minSide = 64
	// maxPixels bounds the memory in which a picture is scaled: up to 128 MiB where a pixel takes 8 bytes,
	// and a quarter of it for the half of its size.
	maxPixels = 16 << 20
	// maxLong is the longest side, in pixels, of a picture that is scaled.
	maxLong = 16 << 10
	// maxPicture is how long a file may be, in bytes, that is held in memory to be shown.
	maxPicture = 16 << 20
)

// shown returns a picture as a content item of at most limit bytes of base64. One that is small enough goes
// as it is; a larger one is scaled down, and how says so. The item is nil if the picture cannot be shown.
//
// Only one picture is scaled at a time, whatever calls there are, since a file of a few KiB may have millions
// of pixels. ctx bounds the wait.
func shown(ctx context.Context, data []byte, kind string, limit int) (item mcp.ContentBlock, how string) {
	size, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || size.Width <= 0 || size.Height <= 0 || size.Width > maxPixels/size.Height {
		return nil, ""
	}
	longest := max(size.Width, size.Height)
	if longest <= maxSide && base64.StdEncoding.EncodedLen(len(data)) <= limit {
		return mcp.Image(data, kind), ""
	}
	if longest > maxLong {
		return nil, ""
	}
	select {
	case scaling <- struct{}{}:
		defer func() { <-scaling }()
	case <-ctx.Done():
		return nil, ""
	}
	picture, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, ""
	}
	for side := min(longest, maxSide); side >= minSide; side /= 2 {
		scale := float64(side) / float64(longest)
		bounds := image.Rect(0, 0, max(int(math.Round(float64(size.Width)*scale)), 1),
			max(int(math.Round(float64(size.Height)*scale)), 1))
		small := scaled(picture, bounds)
		encoded, made := encode(small, format, limit)
		if encoded != nil {
			return mcp.Image(encoded, made),
				fmt.Sprintf("shown with %d×%d of its %d×%d pixels", bounds.Dx(), bounds.Dy(), size.Width,
					size.Height)
		}
	}
	return nil, ""
}

// scaling holds an element while a picture is scaled.
var scaling = make(chan struct{}, 1)

// scaled returns a picture scaled down. It is halved as long as it is more than twice too large, so that
// every pixel counts.
//
// x/image/draw scales, since the standard library only copies pixels; imaging and resize, which are easier to
// call, are not maintained any more. Of its ways this is the one that takes no memory beyond the result: a
// picture of one pixel by a million would take gigabytes with the others.
func scaled(picture image.Image, bounds image.Rectangle) *image.RGBA {
	for {
		to := bounds
		if is := picture.Bounds(); is.Dx() > 2*bounds.Dx() || is.Dy() > 2*bounds.Dy() {
			to = image.Rect(0, 0, max(is.Dx()/2, bounds.Dx()), max(is.Dy()/2, bounds.Dy()))
		}
		smaller := image.NewRGBA(to)
		draw.ApproxBiLinear.Scale(smaller, to, picture, picture.Bounds(), draw.Src, nil)
		if to == bounds {
			return smaller
		}
		picture = smaller
	}
}

// encode encodes a picture in at most limit bytes of base64: as PNG, which keeps the edges of plots and text,
// unless it was a photograph or is too long so. nil if it is too long anyway.
func encode(picture *image.RGBA, format string, limit int) ([]byte, string) {
	var out bytes.Buffer
	if format == "png" || format == "gif" {
		if png.Encode(&out, picture) == nil && base64.StdEncoding.EncodedLen(out.Len()) <= limit {
			return out.Bytes(), "image/png"
		}
		out.Reset()
	}
	if !picture.Opaque() { // JPEG would make it black where nothing is
		white := image.NewRGBA(picture.Bounds())
		draw.Draw(white, white.Bounds(), image.White, image.Point{}, draw.Src)
		draw.Draw(white, white.Bounds(), picture, image.Point{}, draw.Over)
		picture = white
	}
	if jpeg.Encode(&out, picture, &jpeg.Options{Quality: 85}) == nil &&
		base64.StdEncoding.EncodedLen(out.Len()) <= limit {
		return out.Bytes(), "image/jpeg"
	}
	return nil, ""
}

// maxPictures bounds the pictures of KeepPictures together, in bytes.
const maxPictures = 64 << 20

// KeepPictures keeps pictures that a call has made in memory as files of its task, and returns the items that
// a result has of them, as Collect does: each picture, scaled down if it is large, and a link to the whole
// file. call.KeepFiles must not be called besides.
func KeepPictures(ctx context.Context, call *tools.Call, pictures [][]byte) []mcp.ContentBlock {
	if len(pictures) == 0 {
		return nil
	}
	keeper, err := call.KeepFiles(ctx, maxPictures)
	if err != nil {
		return []mcp.ContentBlock{about(fmt.Sprintf("[no pictures: the task cannot be kept: %v]", err))}
	}
	c := collection{call: call, keeper: keeper, room: maxShown}
	for i, data := range pictures {
		name := fmt.Sprintf("picture-%d", i+1)
		found, err := detect(bytes.NewReader(data))
		if err == nil && !isPicture(found.kind) {
			err = fmt.Errorf("it is %s, and no picture that models see", found.kind)
		}
		if err != nil {
			c.leaveOut(name, err)
			continue
		}
		file, err := keeper.Write(ctx, bytes.NewReader(data))
		if err != nil {
			c.leaveOut(name, err)
			continue
		}
		file.Name, file.MIMEType = name+"."+found.kind[len("image/"):], found.kind
		keeper.Keep(file)
		c.show(ctx, &file, data)
	}
	if err := keeper.Close(context.WithoutCancel(ctx)); err != nil {
		return []mcp.ContentBlock{about(fmt.Sprintf("[no pictures: %v]", err))}
	}
	return c.all()
}
