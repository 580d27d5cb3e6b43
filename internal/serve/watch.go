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

// watcher follows the config file of a running server.
type watcher struct {
	*Setup
	began *config.Config // what the server was started with
	set   *upstream.Set
	log   zerolog.Logger

	file     string // the file in use; "" if there is none
	projects bool   // that is the project's
	refused  string // why the project's file is not used, as the log has said last
	folder   string // where the records of trust are; "" if it cannot be watched
}

// cause is why the config is read again.
type cause int

// A later one includes those before it.
const (
	byTrust  cause = iota // some file is trusted now
	byChange              // the file has changed, or a folder on the way to it
	bySignal              // SIGHUP
)

// reload reads the config file again at SIGHUP and when it changes, until ctx ends. A project's file that is
// written or trusted later is used from then on; while there is no file at all, SIGHUP ends the server. Only
// tools, upstreams, secrets and notices take effect; everything else in the file counts from the next start.
// A file with a mistake changes nothing.
func (s *Setup) reload(ctx context.Context, file string, conf *config.Config, set *upstream.Set,
	log zerolog.Logger, end context.CancelCauseFunc) {
	w := &watcher{Setup: s, began: conf, set: set, log: log,
		file: file, projects: file != "" && file == s.project}
	if left := s.left(); left != nil {
		w.refused = left.Error()
	}
	var events <-chan fsnotify.Event
	var errs <-chan error
	notices, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = notices.Close() }() // an error no longer matters
		events, errs = notices.Events, notices.Errors
		w.watch(notices)
	} else {
		log.Warn().Err(err).Msg("the config is not watched: it is read again at SIGHUP only")
	}
	var due <-chan time.Time // when the file is read again
	why := byTrust
	soon := func(because cause) { due, why = time.After(settle), max(why, because) }
	if now, _ := os.Stat(w.path()); !same(now, s.seen) { // it changed before it was watched
		soon(byChange)
	} else if s.project != "" { // it may be trusted since
		soon(byTrust)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			now, _ := os.Stat(w.path())
			switch {
			case w.folder != "" && (e.Name == w.folder || filepath.Dir(e.Name) == w.folder):
				soon(byTrust)
			case e.Op != fsnotify.Chmod && !same(now, s.seen):
				s.seen = now
				soon(byChange)
			}
		case err := <-errs: // events were lost, or the folder is gone
			log.Warn().Err(err).Msg("watching the config")
			soon(byChange)
		case <-s.Hangups:
			due, why = time.After(0), bySignal
		case <-due:
			if notices != nil {
				w.watch(notices) // before reading, so that no change is missed
			}
			if none := w.readAgain(ctx, why); none && why == bySignal {
				end(system.SignalError(syscall.SIGHUP))
				return
			}
			why = byTrust
		}
	}
}

// path is the file whose changes count; "" if there is none.
func (w *watcher) path() string {
	if w.file == "" && w.refused == "" {
		return ""
	}
	return cmp.Or(w.file, w.project)
}

// watch watches the folders where a change of the file shows, or a record of trust. It drops the old watches:
// any of those folders may have been replaced.
func (w *watcher) watch(notices *fsnotify.Watcher) {
	for _, dir := range notices.WatchList() {
		_ = notices.Remove(dir) // an error says that the folder is gone
	}
	if path := w.path(); path != "" {
		for _, dir := range folders(path) {
			_ = notices.Add(dir) // without a watch the file is read again at SIGHUP only
		}
	}
	if w.project != "" {
		if w.folder, _ = w.Trust().WatchableDir(); w.folder != "" {
			_ = notices.Add(w.folder)
		}
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

// readAgain takes what is in the config file now. none reports that there is no file at all.
func (w *watcher) readAgain(ctx context.Context, why cause) (none bool) {
	if why == byTrust {
		project := config.Project()
		_, trusted, _ := w.Trust().Read(project)
		asBefore := trusted == nil
		if project == w.file {
			asBefore = trusted != nil && w.refused == ""
		}
		if asBefore { // it was about another file
			return false
		}
	}
	before, _ := os.Stat(w.path())
	if before != nil && before.Mode()&os.ModeNamedPipe != 0 && w.file != "" && !w.projects {
		w.log.Warn().Str("config", w.file).
			Msg("the config is a pipe: waiting until all of it is written and it is closed, or replaced")
	}
	conf, found, left, err := w.ReadConfigs(ctx)
	if ctx.Err() != nil {
		return false
	}
	read := w.seen
	w.seen = before // until what was read is taken: else each change in its folder would count as the file's
	refused := ""
	if left != nil {
		refused = left.Error()
	}
	told := refused == w.refused && why != bySignal
	w.refused = refused
	w.untrusted.Store(left)
	switch {
	case err != nil:
	case left != nil && (w.projects || found == ""): // what was trusted last stays in effect
		if told {
			return false
		}
		err = left
	case found == "" && w.file == "":
		return true
	case found == "" || w.file != "" && found != w.file && found != w.project:
		err = fmt.Errorf("%s does not exist any more", w.file)
	case read != nil && read.Mode().IsRegular() && read.Size() == 0:
		w.log.Warn().Str("config", found).
			Msg("the config is empty, as while an editor writes it: the tools stay as they were until " +
				"something is in it")
		return false
	}
	count := 0
	if err == nil {
		count, err = w.replaceTools(w.set, conf, w.log)
	}
	if err != nil {
		w.log.Error().Err(err).Msg("config not taken: the tools stay as they were")
		return false
	}
	w.file, w.projects, w.seen = found, found == w.project, read
	w.log.Info().Str("config", found).Int("tools", count).Int("upstreams", len(conf.Upstreams)).
		Msg("config read again")
	if waiting := w.waiting(conf); len(waiting) > 0 {
		w.log.Warn().Strs("sections", waiting).
			Msg("only tools, upstreams, secrets and notify change while runnel runs: restart it for these " +
				"sections to take effect")
	}
	return false
}

// waiting returns the sections that have changed and take effect at the next start. It leaves out what Serve
// has set itself, for the live view or a null device as stdin.
func (w *watcher) waiting(conf *config.Config) []string {
	now := *conf
	if w.view != nil {
		now.HTTP = w.began.HTTP
	}
	now.HTTP.NoStdio = now.HTTP.NoStdio || w.began.HTTP.NoStdio
	return now.Differs(w.began)
}
