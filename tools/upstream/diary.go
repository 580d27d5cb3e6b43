package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"runnel/rpc/rawjson"
)

// diary is a file with what a server writes to stderr, between lines about its starts and ends, for a person
// who looks later: hosts hide both.
type diary struct {
	mu   sync.Mutex
	file string // "" = nothing is kept
	open *os.File
	size int64
	cut  bool // the last line has no end
}

const (
	// maxDiary is the size above which a diary becomes the one before, of which there is one.
	maxDiary = 256 << 10
	// diaryMark begins a line of runnel's own. The time follows.
	diaryMark = "=== "
)

// Diary returns the file for what the server writes to stderr, "" if none is kept. dir is the directory of
// the state.
func (d *definition) Diary(dir string) string {
	if dir == "" {
		return ""
	}
	// Not the environment: a person who looks has another one than the host.
	sum := sha256.Sum256(rawjson.Encode([]any{d.config.Command, d.config.URL, d.dir}))
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '_'
		}
		return r
	}, d.name)
	return filepath.Join(dir, catalogFolder, name+"-"+hex.EncodeToString(sum[:4])+".log")
}

// Write appends to the diary. It never fails: the server must go on where nothing can be kept.
func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == "" {
		return len(p), nil
	}
	if d.open != nil && d.size > maxDiary {
		_ = d.open.Close()
		_ = os.Rename(d.file, d.file+".1")
		d.open = nil
	}
	if d.open == nil {
		_ = os.MkdirAll(filepath.Dir(d.file), 0o700)
		f, err := os.OpenFile(d.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			d.file = ""
			return len(p), nil
		}
		d.open, d.size = f, 0
		if info, err := f.Stat(); err == nil {
			d.size = info.Size()
		}
	}
	if len(p) > 0 {
		d.cut = p[len(p)-1] != '\n'
	}
	n, _ := d.open.Write(p)
	d.size += int64(n)
	return len(p), nil
}

// note writes a line of runnel's own.
func (d *diary) note(format string, args ...any) {
	words := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " | ")
	d.mu.Lock()
	begin := diaryMark
	if d.cut {
		begin = "\n" + begin
	}
	d.mu.Unlock()
	_, _ = fmt.Fprintf(d, "%s%s %s\n", begin, time.Now().UTC().Format(time.RFC3339), words)
}

func (d *diary) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != nil {
		_ = d.open.Close()
		d.open = nil
	}
}

// Ends returns how often a server has ended by itself since a time, and the last reason, from its diary.
func Ends(file string, since time.Time) (count int, last string) {
	text, _ := os.ReadFile(file) // "" if it is not there
	for line := range strings.Lines(string(text)) {
		rest, ours := strings.CutPrefix(line, diaryMark)
		at, words, _ := strings.Cut(strings.TrimSpace(rest), " ")
		reason, ended := strings.CutPrefix(words, endedWords)
		if when, err := time.Parse(time.RFC3339, at); ours && ended && err == nil && when.After(since) {
			count++
			last = reason
		}
	}
	return count, last
}

const endedWords = "ended: "
