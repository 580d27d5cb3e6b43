// Package fleet is both sides of a fleet: a [Worker] runs the calls that other processes offer through a
// state with a queue, and [Lend] gives a front the tools of the workers that are there.
//
//	tasks.Queues.Next ─▶ Worker.begin ─ tools.Take ─▶ a Run like any other ─▶ its end frees the slot
//	tasks.Queue.Announce ◀─ Worker.announce          Worker.obey ◀─ tasks.Queue.Orders
//	tasks.Queue.Fleet ─▶ front.follow ─▶ upstream.Set.Lend
//
// Package serve makes the parts of a worker from a config.
//
// Goroutines: those of a worker are listed at its type; a front has one per owner, which asks for the tools
// of workers.
//
// Locks: Worker.mu is never held while the state is asked.
//
// Where things stand:
//
//	a worker takes a task                      Worker.take, Worker.begin (worker.go)
//	a worker takes no task that would wait     Worker.ready (worker.go)
//	a worker is drained, a class paused        Worker.obey (announce.go)
//	what an owner may know of a worker         Worker.selfFor (announce.go)
//	a front lists the tools of workers         front.follow (front.go)
package fleet
