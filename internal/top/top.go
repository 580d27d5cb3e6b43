package top

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// listPace is the pause between two lists of the tasks. A list that takes long is followed by a pause of
	// listRest times its duration, so that a state has time for other work.
	listPace = time.Second
	listRest = 10
	// paintPace is the shortest time between two frames: nobody sees more than 30 per second.
	paintPace = 30 * time.Millisecond
	// keyWait is how long the rest of a key's sequence may take; after that, an escape is the Escape key.
	keyWait = 50 * time.Millisecond
)

// Run shows the tasks until the user leaves, and then restores the terminal. It returns ctx's error if ctx
// ends first.
func Run(ctx context.Context, o Options) error {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &ui{Options: o, ctx: ctx, screen: &screen{in: o.In, out: o.Out, colors: o.Colors},
		events: make(chan func()), relist: make(chan struct{}, 1)}
	u.table.where = o.Where
	said := newSignals(u.screen.leave)
	defer said.end()
	if err := u.screen.enter(); err != nil {
		return fmt.Errorf("setting up the terminal: %w", err)
	}
	defer u.screen.leave() // also after a panic
	o.Begun(u.screen.leave)
	u.start(u.list)
	go u.guarded(u.read)
	err := u.loop(said)
	cancel()
	u.all.Wait()
	return errors.Join(err, outer.Err())
}

// loop handles events, one after the other, until the user leaves.
func (u *ui) loop(said *signals) error {
	var painted time.Time
	late, paint := time.NewTimer(0), time.NewTimer(0)
	for !u.done {
		if rest := paintPace - time.Since(painted); rest > 0 {
			paint.Reset(rest)
		} else if err := u.paint(); err != nil {
			return nil // the terminal is gone
		} else {
			painted = time.Now()
		}
		select {
		case f := <-u.events:
			f()
			if len(u.typed) > 0 {
				late.Reset(keyWait)
			}
		case <-late.C:
			u.keys(true)
		case <-paint.C:
		case <-said.resized:
			u.screen.redraw()
		case <-said.resume: // the terminal may have been changed while the process was stopped
			if err := u.screen.enter(); err != nil {
				return err
			}
		case <-u.ctx.Done():
			return nil
		}
		if u.stop {
			u.stop = false
			u.screen.leave()
			said.wait()
			if err := u.screen.enter(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *ui) paint() error {
	width, height := u.screen.size()
	now := time.Now()
	var rows []row
	foot := row{{"q quit  Enter follow  c cancel  ? help", dim}}
	if width >= narrow {
		foot[0].text = "q quit  Enter follow  c cancel  r run again  / search  ! failed  t tool  h host  ? help"
	}
	switch {
	case u.help:
		rows, foot = help, row{{"any key goes back", dim}}
	case u.output != nil:
		if t := u.table.find(u.output.task.ID); t != nil && !u.output.over {
			u.output.task = *t
		}
		rows, foot = u.output.show(width, height, now), u.output.foot()
	default:
		rows = u.table.rows(width, height, now)
	}
	switch {
	case u.asking != "":
		foot = row{safe(u.asking+" y/n", yellow)}
	case u.typing:
		foot = row{safe("/"+u.table.filter.text, plain), {" ", inverse}}
	case u.message != "":
		foot = row{safe(u.message, yellow)}
	}
	return u.screen.paint(fill(rows, height, foot))
}

// list lists the tasks again and again.
func (u *ui) list() {
	for {
		began := time.Now()
		list, err := u.Source.List(u.ctx)
		took := time.Since(began)
		if !u.send(func() {
			if u.table.failed = err; err == nil {
				u.table.update(list)
			}
		}) {
			return
		}
		select {
		case <-u.relist:
		case <-time.After(max(listPace, listRest*took)):
		case <-u.ctx.Done():
			return
		}
	}
}

// read hands typed keys to the loop.
func (u *ui) read() {
	for {
		typed := make([]byte, 256)
		n, err := u.In.Read(typed)
		if !u.send(func() {
			u.typed = append(u.typed, typed[:n]...)
			u.keys(false)
			u.done = u.done || err != nil && n == 0 // the terminal is gone
		}) || err != nil && n == 0 {
			return
		}
	}
}

// keys handles the keys that have been typed.
func (u *ui) keys(late bool) {
	for len(u.typed) > 0 {
		k, n := readKey(u.typed, late)
		if n == 0 {
			return
		}
		u.typed = u.typed[n:]
		u.press(k)
	}
}
