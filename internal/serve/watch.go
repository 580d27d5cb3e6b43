package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"runnel/tools/config"
	"runnel/tools/upstream"
)

// reload keeps the tools what the config file says: it is read again on SIGHUP and when it changes. Only the tools
// change; what else the file says holds from the next start on. A file with a mistake changes nothing. It ends with ctx.
func (s *Setup) reload(ctx context.Context, file string, conf *config.Config, set *upstream.Set, log zerolog.Logger) {
	trusted := "" // where it shows that the file is trusted again
	if file == config.FileName && s.Options.Config == "" {
		trusted, _ = s.Trust().dir() // it is there: the file is trusted
	}
	var events <-chan fsnotify.Event
	var errs <-chan error
	w, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = w.Close() }() // it watches nothing more
		events, errs = w.Events, w.Errors
		watch(w, file, trusted)
	}
	timer := time.NewTimer(0)
	<-timer.C
	defer timer.Stop()
	if now, _ := os.Stat(file); !same(now, s.seen) { // it changed before it was watched
		timer.Reset(settle)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			now, _ := os.Stat(file)
			switch {
			case filepath.Dir(e.Name) == trusted: // perhaps in this file, as it is
				timer.Reset(settle)
			case e.Op != fsnotify.Chmod && !same(now, s.seen):
				s.seen = now
				timer.Reset(settle)
			}
		case err := <-errs: // events were lost, or the folder is
			log.Warn().Err(err).Msg("watching the config")
			timer.Reset(settle)
		case <-s.Hangups:
			timer.Reset(0)
		case <-timer.C:
			if w != nil {
				watch(w, file, trusted) // first: a change from now on is seen
			}
			s.readAgain(ctx, file, conf, set, log)
		}
	}
}

// watch watches the folders where a change of a file shows, and one more if it is not "", instead of those that were watched: any of
// them may be another one by now.
func watch(w *fsnotify.Watcher, file, more string) {
	for _, dir := range w.WatchList() {
		_ = w.Remove(dir) // it is gone if not there
	}
	for _, dir := range folders(file) {
		_ = w.Add(dir) // what cannot be watched is read again on SIGHUP only
	}
	if more != "" {
		_ = w.Add(more)
	}
}

// maxLinks is how many links may stand on the way to a file: as many as Linux follows.
const maxLinks = 40

// folders are the one that a file stands in, because editors replace a file by another one of its name, and those of all links
// on the way to it: of the file's name, and of folders in its path.
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
		case err != nil: // no link
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

// same reports whether a file is as it was; nil = it is not there. A pipe stays as it is, whatever is written to it: once it has been
// read, to open it again would wait for who writes more.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && (!a.Mode().IsRegular() || a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()))
}

func (s *Setup) readAgain(ctx context.Context, file string, began *config.Config, set *upstream.Set, log zerolog.Logger) {
	now, _ := os.Stat(file)
	if now != nil && now.Mode()&os.ModeNamedPipe != 0 {
		log.Warn().Str("config", file).Msg("the config is a pipe: waiting for somebody to write to it")
	}
	conf, found, left, err := s.ReadConfigs(ctx)
	if left != nil {
		s.seen = now // else every change in its folder would count as one of the file
	}
	if ctx.Err() != nil {
		return
	}
	switch {
	case left != nil && file == config.FileName:
		err = left // the last trusted content stays
	case err == nil && found != file:
		err = fmt.Errorf("%s is gone", file)
	}
	if err == nil {
		var next *upstream.Set
		var count int
		if next, count, err = s.Registry(conf); err == nil {
			set.Replace(next)
			log.Info().Str("config", file).Int("tools", count).Int("upstreams", len(conf.Upstreams)).Msg("config read again")
			if waiting := conf.Differs(began); len(waiting) > 0 {
				log.Warn().Strs("sections", waiting).Msg("only tools and upstreams change while runnel runs: start it again for what these sections say")
			}
			return
		}
	}
	log.Error().Err(err).Msg("config not taken: the tools stay as they were")
}
