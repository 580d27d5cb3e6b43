package artifacts

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"runtime"
	"testing"
)

// white returns a white PNG.
func white(t *testing.T, width, height int) []byte {
	t.Helper()
	p := image.NewGray(image.Rect(0, 0, width, height))
	for i := range p.Pix {
		p.Pix[i] = 0xff
	}
	var out bytes.Buffer
	if err := png.Encode(&out, p); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A picture is scaled in little more memory than it has pixels, and not at all if it is very long.
func TestScaledPictureIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		width, height int
		shown         bool
		most          uint64
	}{
		"long":      {1, 2 << 20, false, 16 << 20},
		"narrow":    {3, maxLong, true, 16 << 20},
		"large":     {3000, 3000, true, 72 << 20},
		"one color": {2000, 1, true, 4 << 20},
	} {
		data := white(t, c.width, c.height)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		item, how := shown(t.Context(), data, "image/png", maxShown)
		runtime.ReadMemStats(&after)
		if (item != nil) != c.shown {
			t.Errorf("%s: %s", name, how)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > c.most {
			t.Errorf("%s: it took %d bytes", name, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	scaling <- struct{}{}
	defer func() { <-scaling }()
	if item, _ := shown(ctx, white(t, 2000, 10), "image/png", maxShown); item != nil {
		t.Error("a cancelled call waits for its picture")
	}
}
