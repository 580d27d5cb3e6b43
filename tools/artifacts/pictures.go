package artifacts

import (
	"bytes"
	"context"
	"fmt"

	"runnel/rpc/mcp"
	"runnel/tools"
)

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
