package tasks

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxMemory limits how many bytes of results and logs a Memory keeps of ended tasks. Beyond that, the tasks
// that ended first are forgotten before their ttl is over.
const maxMemory = 64 << 20

// Memory is a State in the memory of one process, and ends with it.
type Memory struct {
	Now func() time.Time // time.Now, except in tests

	mu    sync.Mutex
	tasks map[string]*inMemory
	order []*inMemory // by number
	last  uint64      // the number of the newest task

	ended list.List // of *inMemory, in the order in which they ended
	held  int64     // bytes of ended tasks
}

type inMemory struct {
	Task
	number uint64

	// These are set when the task has ended.
	bytes  int64 // counted in held
	expiry *time.Timer
	end    *list.Element // in ended; nil while the task runs
}

// inMemoryOf is the Store of an owner.
type inMemoryOf struct {
	*Memory
	owner string
}

// NewMemory makes an empty state.
func NewMemory() *Memory { return &Memory{Now: time.Now, tasks: map[string]*inMemory{}} }

// Open implements State.
func (m *Memory) Open(owner string) Store { return inMemoryOf{m, owner} }

// Close implements State.
func (m *Memory) Close() error { return nil }

// Put implements Store.
func (m inMemoryOf) Put(_ context.Context, t Task) error {
	if t.Hidden { // its log is in memory already
		return errors.ErrUnsupported
	}
	t.Owner = m.owner
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.tasks[t.ID]
	if s == nil {
		m.last++
		s = &inMemory{number: m.last}
		m.tasks[t.ID] = s
		m.order = append(m.order, s)
	} else {
		t.Variables = s.Variables
	}
	s.Task = t
	if t.Status.Terminal() && s.end == nil {
		s.bytes = Weight(&t)
		m.held += s.bytes
		s.end = m.ended.PushBack(s)
		s.expiry = time.AfterFunc(time.Until(t.CreatedAt.Add(t.TTL)),
			func() { _ = m.Delete(context.Background(), t.ID) })
		for m.held > maxMemory && m.ended.Len() > 1 {
			m.remove(m.leastNeeded())
		}
	}
	return nil
}

// Get implements Store.
func (m inMemoryOf) Get(_ context.Context, id string) (Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.tasks[id]
	if s == nil || s.Owner != m.owner || s.Expired(m.Now()) {
		return Task{}, ErrNotFound
	}
	return s.Task, nil
}

// Head implements Store.
func (m inMemoryOf) Head(ctx context.Context, id string) (Task, error) {
	return m.Get(ctx, id)
}

// SetVariables implements Store.
func (m inMemoryOf) SetVariables(_ context.Context, id string, patch []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.tasks[id]
	if s == nil || s.Owner != m.owner || s.Status.Terminal() {
		return nil, ErrEnded
	}
	merged, err := MergeVariables(s.Variables, patch)
	if err == nil {
		s.Variables = merged
	}
	return merged, err
}

// List implements Store. The oldest first, the rest begins after the number of a task.
func (m inMemoryOf) List(_ context.Context, d Direction, from string,
	n int) (page []Task, rest string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := slices.All(m.order)
	switch {
	case d == NewestFirst && from == "":
		left = slices.Backward(m.order)
	case d == NewestFirst:
		s := m.tasks[from]
		if s == nil || s.Owner != m.owner {
			return nil, "", ErrCursor
		}
		left = slices.Backward(m.order[:m.index(s.number)])
	case from != "":
		after, err := strconv.ParseUint(from, 36, 64)
		if err != nil || after > m.last {
			return nil, "", ErrCursor
		}
		left = slices.All(m.order[m.index(after+1):])
	}
	now := m.Now()
	var shown *inMemory
	for _, s := range left {
		switch {
		case s.Owner != m.owner || s.Expired(now):
			continue
		case len(page) < n:
			page, shown = append(page, s.Task), s
			continue
		case d == NewestFirst:
			return page, shown.ID, nil
		}
		return page, strconv.FormatUint(shown.number, 36), nil
	}
	return page, "", nil
}

// Delete implements Store.
func (m inMemoryOf) Delete(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range []string{id, FilesID(id)} {
		if s := m.tasks[one]; s != nil && s.Owner == m.owner {
			m.remove(s)
		}
	}
	return nil
}

// MarkFetched implements Store: every task is kept for its ttl.
func (m inMemoryOf) MarkFetched(context.Context, string) error { return nil }

// remove forgets s. m.mu is held.
func (m *Memory) remove(s *inMemory) {
	delete(m.tasks, s.ID)
	if i := m.index(s.number); i == 0 { // the usual case, in which nothing is moved
		m.order[0] = nil
		m.order = m.order[1:]
	} else {
		m.order = slices.Delete(m.order, i, i+1)
	}
	if s.end != nil {
		m.ended.Remove(s.end)
		m.held -= s.bytes
		s.expiry.Stop()
	}
}

// leastNeeded returns the task that ended first of those that no other reads any more: a task that goes on
// may read those that it has begun. It does not return the last one, which has just ended. m.mu is held.
func (m *Memory) leastNeeded() *inMemory {
	first := m.ended.Front()
	for e := first; e != m.ended.Back(); e = e.Next() {
		s := e.Value.(*inMemory)
		if above := m.tasks[Above(s.Variables)]; above == nil || above.end != nil {
			return s
		}
	}
	return first.Value.(*inMemory)
}

// index returns the index in order of the task with a number, or of the next one. m.mu is held.
func (m *Memory) index(number uint64) int {
	i, _ := slices.BinarySearchFunc(m.order, number,
		func(s *inMemory, n uint64) int { return cmp.Compare(s.number, n) })
	return i
}

// Weight returns how much memory an ended task takes, in bytes.
func Weight(t *Task) int64 {
	const record = 512
	n := record + t.Log.Held()
	if t.Outcome.Result != nil {
		n += int64(t.Outcome.Result.Size())
	}
	return n + int64(len(t.Variables)+len(t.Arguments))
}
