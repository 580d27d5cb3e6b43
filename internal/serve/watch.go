package serve

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"runnel/internal/system"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// reload reads the config file again at SIGHUP and when it changes, until ctx ends. file is "" if there is none,
// or if the project's is not trusted yet: it is used once it is. Where there is none, SIGHUP ends the server. Only tools, upstreams, secrets and notices take effect;
// everything else in the file counts from the next start on. A file with a mistake changes nothing.
func (s *Setup) reload(ctx context.Context, file string, conf *config.Config, set *upstream.Set,
	log zerolog.Logger, end context.CancelCauseFunc) {
	trusted := "" // the folder where a record changes when the project's file is trusted
	if s.project != "" {
		trusted, _ = s.Trust().WatchableDir() // without it the file is read again at SIGHUP, or when it changes
	}
	watched := func() string {
		if file == "" && s.refused == "" {
			return ""
		}
		return cmp.Or(file, s.project)
	}
	var events <-chan fsnotify.Event
	var errs <-chan error
	w, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = w.Close() }() // an error no longer matters
		events, errs = w.Events, w.Errors
		watch(w, watched(), trusted)
	}
	var due <-chan time.Time // when the file is read again
	now, _ := os.Stat(watched())
	if file == "" || !same(now, s.seen) || s.refused != "" { // it may have changed before it was watched
		due = time.After(settle)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			now, _ := os.Stat(watched())
			switch {
			case filepath.Dir(e.Name) == trusted: // perhaps this file is trusted now
				due = time.After(settle)
			case e.Op != fsnotify.Chmod && !same(now, s.seen):
				s.seen = now
				due = time.After(settle)
			}
		case err := <-errs: // events were lost, or the folder is gone
			log.Warn().Err(err).Msg("watching the config")
			due = time.After(settle)
		case <-s.Hangups:
			if watched() == "" {
				end(system.SignalError(syscall.SIGHUP))
				return
			}
			due = time.After(0)
		case <-due:
			if w != nil {
				watch(w, watched(), trusted) // before reading, so that no change is missed
			}
			file = s.readAgain(ctx, file, conf, set, log)
		}
	}
}

// watch watches the folders where a change of the file shows, and one more, if they are not "". It drops the old
// watches: any of those folders may have been replaced.
func watch(w *fsnotify.Watcher, file, more string) {
	for _, dir := range w.WatchList() {
		_ = w.Remove(dir) // an error says that the folder is gone
	}
	if file != "" {
		for _, dir := range folders(file) {
			_ = w.Add(dir) // without a watch the file is read again at SIGHUP only
		}
	}
	if more != "" {
		_ = w.Add(more)
	}
}

// maxLinks is how many links are followed, as many as on Linux.
const maxLinks = 40

// folders returns the folder of a file, because editors replace the file, and the folders of all links on the
// way to it, whether they are links to the file or to folders of its path.
func folders(file string) (list []string) {
	path, err := filepath.Abs(file)
	if err != nil {
		return []string{filepath.Dir(file)}
	}
	at, rest := "/", path
	for rest != "" && len(list) < maxLinks {
		var name string
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		switch {
		case err != nil: // not a link
			at = next
			continue
		case filepath.IsAbs(target):
			list, at = append(list, at), "/"
		default:
			list = append(list, at)
		}
		rest = target + "/" + rest
	}
	return append(list, filepath.Dir(at))
}

// same reports whether a file is unchanged; nil = it does not exist. Data in a pipe is not a change: to read
// it again would wait for another writer.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && (!a.Mode().IsRegular() ||
		a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()))
}

// readAgain takes what is in the config file now, and returns the file that it has taken it from: another one
// than before if the project's is trusted since.
func (s *Setup) readAgain(ctx context.Context, file string, began *config.Config, set *upstream.Set,
	log zerolog.Logger) string {
	now, _ := os.Stat(cmp.Or(file, s.project))
	if now != nil && now.Mode()&os.ModeNamedPipe != 0 {
		log.Warn().Str("config", file).
			Msg("the config is a pipe: waiting until all of it is written and it is closed, or replaced")
	}
	if now != nil && now.Mode().IsRegular() && now.Size() == 0 {
		log.Warn().Str("config", file).
			Msg("the config is empty, as while an editor writes it: the tools stay as they were until something is in it")
		return file
	}
	conf, found, left, err := s.ReadConfigs(ctx)
	if left != nil {
		s.seen = now // else every change in its folder would count as a change of the file
	}
	if ctx.Err() != nil {
		return file
	}
	switch {
	case left != nil && (file == "" || file == s.project):
		if left.Error() == s.refused { // another file was trusted
			return file
		}
		s.refused = left.Error()
		err = left // the last trusted content stays in effect
	case err == nil && found == "" && file == "":
		return file // there still is none
	case err == nil && found != file && found != s.project && file != "":
		err = fmt.Errorf("%s does not exist any more", file)
	}
	if err == nil {
		var count int
		if count, err = s.replaceTools(set, conf, log); err == nil {
			s.refused = ""
			log.Info().Str("config", found).Int("tools", count).Int("upstreams", len(conf.Upstreams)).
				Msg("config read again")
			if waiting := conf.Differs(began); len(waiting) > 0 {
				log.Warn().Strs("sections", waiting).
					Msg("only tools, upstreams, secrets and notify change while runnel runs: restart it for these sections to take effect")
			}
			return found
		}
	}
	log.Error().Err(err).Msg("config not taken: the tools stay as they were")
	return file
}
