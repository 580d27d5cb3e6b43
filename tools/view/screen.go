package view

import (
	"context"
	"errors"
	"strings"
	"time"

	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/terminal"
)

// maxNews bounds what a screen keeps of the lines that have left it, which the page does not ask for.
const maxNews = 1 << 10

type screenParams struct {
	TaskID string `json:"taskId"`
	After  int64  `json:"after"` // Next of the answer before
	WaitMs int64  `json:"waitMs"`
}

// shownScreen is a screen, as the log has it up to Next. Of a task without a terminal it is empty.
type shownScreen struct {
	Text    string `json:"text"`   // its lines
	Row     int    `json:"row"`    // of the cursor, from 1
	Column  int    `json:"column"` // the same, in cells
	Columns int    `json:"columns"`
	Rows    int    `json:"rows"`
	Next    int64  `json:"next"`
}

// screen implements view_screen.
func (v *view) screen(ctx context.Context, _ *tools.Call, p screenParams) (any, error) {
	followed, release, err := v.runner.Follow(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	defer release()
	if followed != nil && p.WaitMs > 0 {
		await(ctx, followed, p.After, time.Duration(p.WaitMs)*time.Millisecond)
	}
	t, err := v.runner.Head(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	var shown shownScreen
	err = v.onScreen(ctx, &t, func(screen *terminal.SeenScreen) {
		shown.Text, shown.Row, shown.Column = screen.Text()
		shown.Columns, shown.Rows = screen.Size()
		shown.Next = screen.Next
		screen.News(maxNews)
	})
	if errors.Is(err, errNoTerminal) {
		err = nil
	}
	shown.Text = v.runner.Secrets().String(shown.Text)
	return shown, err
}

var errNoTerminal = errors.New("this task has no screen: only a tool with interactive: true has one, as " +
	"long as the beginning of its output is kept")

// onScreen calls look with the screen of a task.
func (v *view) onScreen(ctx context.Context, t *tasks.Task, look func(screen *terminal.SeenScreen)) error {
	columns, rows, ok := terminal.SizeOf(ctx, t.Log)
	if !ok {
		return errNoTerminal
	}
	return v.screens.On(ctx, t.ID, t.Log, columns, rows, maxNews, look)
}

// These bound what the page types at once: less than a program leaves unread.
const (
	maxTyped = 16 << 10 // characters
	maxKeys  = 1000
)

type typeParams struct {
	TaskID string   `json:"taskId"`
	Keys   []string `json:"keys"`
	Text   string   `json:"text"` // after the keys
}

// typeInto implements view_type: a person types, and no model reads it.
func (v *view) typeInto(ctx context.Context, _ *tools.Call, p typeParams) (any, error) {
	followed, release, err := v.runner.Follow(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	defer release()
	t, err := v.runner.Head(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	application := false
	err = v.onScreen(ctx, &t, func(screen *terminal.SeenScreen) { application = screen.Application() })
	if err != nil {
		return nil, err
	}
	typed, err := terminal.Keys(p.Keys, application)
	switch {
	case err != nil:
		return nil, err
	case followed == nil:
		return nil, tasks.ErrEnded
	}
	typed = append(typed, strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(p.Text)...)
	return struct{}{}, followed.Send(ctx, tasks.Input{Data: typed, Person: true})
}
