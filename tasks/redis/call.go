package redis

import (
	"context"
	"embed"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"runnel/internal/pause"
	"runnel/tasks"
	"runnel/tasks/engine"
)

//go:embed *.lua
var files embed.FS

// scripts are the Lua scripts by name, made when the first is used: most processes use none.
var scripts = sync.OnceValue(func() map[string]*rueidis.Lua {
	text := func(name string) string {
		b, err := files.ReadFile(name)
		if err != nil {
			panic("internal error: " + err.Error())
		}
		return string(b)
	}
	all := map[string]*rueidis.Lua{}
	common := text("common.lua")
	check := text("check.lua")
	for _, name := range []string{"open", "load"} {
		all[name] = rueidis.NewLuaScript(common + text(name+".lua"))
	}
	for _, name := range []string{"lease", "put", "append", "finish", "take", "set", "ask", "fetched",
		"delete", "unmark", "sweep", "session"} {
		all[name] = rueidis.NewLuaScript(common + check + text(name+".lua"))
	}
	return all
})

const (
	// writeTimeout is how long a write waits for the server, which may be restarting, before it is refused
	// with tasks.ErrBusy.
	writeTimeout = 10 * time.Second
	readTimeout  = 5 * time.Second
	// tryAgain is the pause before an unanswered request is sent again.
	tryAgain = 100 * time.Millisecond
)

// call runs a script, and sends it again until it is answered or ctx ends: then the error is tasks.ErrBusy.
// left is how long what belongs to the task is kept. It returns the script's answer.
func (sp *space) call(ctx context.Context, script, id string, left time.Duration,
	args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answer, err := sp.try(ctx, func() rueidis.RedisResult { return sp.exec(ctx, script, id, left, args) })
	if err != nil {
		return "", err
	}
	said, err := answer.ToString()
	switch {
	case err != nil:
		return "", refused(err)
	case said == "removed":
		sp.Log.Error().Str("owner", sp.Owner).
			Msg("the server of the state has lost what it had stored: " + sp.root +
				"* begins again, and its tasks are lost")
		if _, err := sp.call(ctx, "open", "", 0); err != nil {
			return "", err
		}
		return sp.call(ctx, script, id, left, args...)
	case said == "newer":
		return "", engine.Newer(sp.root + "*")
	case said == "fenced":
		return "", tasks.ErrFenced
	}
	return said, nil
}

func (sp *space) exec(ctx context.Context, script, id string, left time.Duration,
	args []string) rueidis.RedisResult {
	all := slices.Concat([]string{schema, sp.Keeper, id, strconv.FormatInt(left.Milliseconds(), 10)}, args)
	return scripts()[script].Exec(ctx, sp.server.client, []string{sp.root}, all)
}

// try sends a request until it is answered, and words refusals for people.
func (sp *space) try(ctx context.Context, ask func() rueidis.RedisResult) (rueidis.RedisMessage, error) {
	for {
		answer := ask()
		err := answer.Error()
		refusal, said := rueidis.IsRedisErr(err)
		switch {
		case err == nil || rueidis.IsRedisNil(err):
			message, _ := answer.ToMessage() // nil for a key that is not there
			return message, nil
		case said && !passes(refusal.Error()):
			return rueidis.RedisMessage{}, refused(err)
		case errors.Is(err, rueidis.ErrClosing):
			return rueidis.RedisMessage{}, err
		case errors.As(err, new(badReply)):
			return rueidis.RedisMessage{}, sp.unreachable(err)
		}
		if !pause.For(ctx, tryAgain) {
			return rueidis.RedisMessage{}, sp.unreachable(err)
		}
	}
}

// passes reports whether a refusal is temporary: the server starts, or another one is about to take its
// place.
func passes(refusal string) bool {
	code, _, _ := strings.Cut(refusal, " ")
	return slices.Contains([]string{"LOADING", "MASTERDOWN", "READONLY", "BUSY", "TRYAGAIN", "CLUSTERDOWN"},
		code)
}

// read is try for one command, with the time limit of reads.
func (sp *space) read(ctx context.Context,
	command func(b rueidis.Builder) rueidis.Completed) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c := sp.server.client
	return sp.try(ctx, func() rueidis.RedisResult { return c.Do(ctx, command(c.B())) })
}
