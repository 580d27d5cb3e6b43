package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"runnel/internal/system"
	"runnel/rpc/rawjson"
	"runnel/tools/remote"
)

// catalogFolder is the folder of the catalogs in the directory of the state. catalogAge is how long an unused
// one is kept.
const (
	catalogFolder = "upstreams"
	catalogAge    = 30 * 24 * time.Hour
	// maxCatalog is the size of four full lists.
	maxCatalog = 5 * remote.MaxListBytes
)

// catalogFile returns the file for a server's catalog, "" if none is kept. Its name depends on all that may
// decide what the server answers: the program with its arguments, files and environment, or the URL, and the
// client that it sees.
func catalogFile(dir string, def *definition, client shownClient) string {
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256(rawjson.Encode(struct {
		Format  int // the version of the file's format
		Command []string
		Files   []string
		Env     []string
		Dir     string
		Client  shownClient
		URL     string      `json:",omitempty"`
		Header  http.Header `json:",omitempty"`
	}{4, def.config.Command, def.files(), def.lastingEnv(), def.dir, client, def.at.URL, def.at.Header}))
	return filepath.Join(dir, catalogFolder, hex.EncodeToString(sum[:16])+".json")
}

// files describes the server's program and those of its arguments that are files, such as a script. A new
// version of one may have other tools.
func (d *definition) files() (list []string) {
	if len(d.config.Command) == 0 {
		return nil
	}
	program, _ := d.Program() // "" is not a file
	for i, name := range d.config.Command {
		if i == 0 {
			name = program
		} else if !filepath.IsAbs(name) {
			name = filepath.Join(d.dir, name)
		}
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			list = append(list, fmt.Sprint(name, " ", info.Size(), " ", info.ModTime().UnixNano()))
		}
	}
	return list
}

// lastingEnv returns the server's environment, sorted, without what differs in each terminal and, since the
// directory is known, PWD.
func (d *definition) lastingEnv() []string {
	return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(d.env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(passingVariables, name)
	})))
}

// passingVariables differ in each terminal or session, and say nothing about what a server has.
var passingVariables = []string{"_", "OLDPWD", "PWD", "SHLVL", "SSH_AUTH_SOCK", "SSH_CLIENT",
	"SSH_CONNECTION", "SSH_TTY", "TERM_SESSION_ID", "WINDOWID", "XDG_SESSION_ID"}

// loadCatalog reads a kept catalog; nil if it is missing or unreadable.
func loadCatalog(file string) *catalog {
	text, _, err := system.ReadRegular(file, maxCatalog)
	c := &catalog{Lists: map[string][]listEntry{}}
	if err != nil || json.Unmarshal(text, c) != nil {
		return nil
	}
	return c
}

// keep stores the catalog for the next runnel, and deletes those that were not used for long. A catalog that
// lacks a list is not stored.
func (c *catalog) keep(file string) error {
	if file == "" || len(c.unread) > 0 {
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // else it would differ from the original
	if err := encoder.Encode(c); err != nil {
		return err
	}
	folder := filepath.Dir(file)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	old, _ := os.ReadDir(folder) // the next one tries again
	for _, f := range old {
		if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > catalogAge {
			_ = os.Remove(filepath.Join(folder, f.Name()))
		}
	}
	f, err := os.CreateTemp(folder, "new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = text.WriteTo(f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
