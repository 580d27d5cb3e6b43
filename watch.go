package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"runnel/tools"
)

// settle is how long a config file must stay as it is before it is read again: editors write it in several steps.
const settle = 200 * time.Millisecond

// reload keeps the tools what the config file says: it is read again on SIGHUP and when it changes. Only the tools
// change; what else the file says holds from the next start on. A file with a mistake changes nothing. It ends with ctx.
func (i *invocation) reload(ctx context.Context, file string, registry *tools.Registry, log zerolog.Logger) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	var events <-chan fsnotify.Event
	var errs <-chan error
	if w, err := fsnotify.NewWatcher(); err == nil {
		defer func() { _ = w.Close() }() // it watches nothing more
		// The folder, because editors replace a file by another one of its name.
		if err := w.Add(filepath.Dir(file)); err == nil {
			events, errs = w.Events, w.Errors
		}
	}
	timer := time.NewTimer(0)
	<-timer.C
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if filepath.Base(e.Name) == filepath.Base(file) && e.Op != fsnotify.Chmod {
				timer.Reset(settle)
			}
		case err := <-errs: // events were lost, or the folder is
			log.Warn().Err(err).Msg("watching the config")
			timer.Reset(settle)
		case <-hangups:
			timer.Reset(0)
		case <-timer.C:
			i.readAgain(file, registry, log)
		}
	}
}

func (i *invocation) readAgain(file string, registry *tools.Registry, log zerolog.Logger) {
	config, found, err := i.loadConfig()
	if err == nil && found != file {
		err = fmt.Errorf("%s is gone", file)
	}
	if err == nil {
		var next *tools.Registry
		var count int
		if next, count, err = i.registry(config); err == nil {
			registry.Replace(next)
			log.Info().Str("config", file).Int("tools", count).Msg("config read again")
			return
		}
	}
	log.Error().Err(err).Msg("config not taken: the tools stay as they were")
}
