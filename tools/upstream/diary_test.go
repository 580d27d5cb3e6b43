//go:build unix

package upstream

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"runnel/tools"
)

// What a server writes to stderr, and how it ends, can be found later.
func TestDiary(t *testing.T) {
	t.Parallel()
	u := fake(t, "fa/ke", nil, "die", "pid")
	b := newBehind(t, u)
	b.Dir = t.TempDir()
	began := time.Now().Add(-time.Minute)
	for range 2 {
		if _, _, err := b.call("die", &tools.Call{}); err == nil {
			t.Error("the call of a server that dies succeeds")
		}
		b.mustCall("pid") // it is there again, so its end was noted
	}
	file := u.Diary(b.Dir)
	text, err := os.ReadFile(file)
	if ends, last := Ends(file, began); err != nil || ends != 2 ||
		!strings.Contains(last, "exit status 3; it wrote last: | first words | last words; it is started again in") {
		t.Errorf("%d ends, the last one %q, %v", ends, last, err)
	}
	if strings.Count(string(text), "\nfirst words\nlast words\n=== ") != 2 ||
		strings.Count(string(text), " started\n") < 3 {
		t.Errorf("the diary has\n%s", text)
	}
	if ends, _ := Ends(file, time.Now().Add(time.Minute)); ends != 0 {
		t.Errorf("%d ends in the future", ends)
	}
}

// A server that writes without end fills no disk.
func TestDiaryIsBounded(t *testing.T) {
	d := diary{file: t.TempDir() + "/folder/diary.log"}
	piece := append(bytes.Repeat([]byte("x"), 32<<10-1), '\n')
	for range 100 {
		_, _ = d.Write(piece)
	}
	d.close()
	for _, file := range []string{d.file, d.file + ".1"} {
		if info, err := os.Stat(file); err != nil || info.Size() > maxDiary+int64(len(piece)) {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
}
