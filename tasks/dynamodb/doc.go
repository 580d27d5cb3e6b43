// Package dynamodb keeps tasks in a table of DynamoDB, where runnels of many machines find them.
//
//	Insert, Write, End, Take ─ transaction, if the keeper is who it must be ─▶ items of the owner
//	Append ─ transaction, if the keeper and the position are ────────────────▶    │
//	                                                                             ▼
//	Read, List, Outcome, Load ◀─ consistent reads ─────────────────────── items of the owner
//	Hear, Asked ◀─ looks, again and again: the table announces no changes
//
// The table has a partition key pk and a sort key sk, both text, and no index: all reads
// are consistent ones. An owner has the partitions that begin with PREFIX:OWNER:, so that a policy of IAM can
// hold owners apart (dynamodb:LeadingKeys). After that come
//
//	pk             sk                    what
//	schema         schema                the version of what stands here
//	task:ID        record                the record, as JSON, and what conditions look at beside it
//	               output:END.PIECE      an extent of output that ends at a position, in pieces of 300 KB; the first has its marks and its length
//	               ends:LAST.PIECE       where segments end, up to a number
//	               result:ATTEMPT.PIECE  the outcome; the record names the attempt that counts
//	tasks          PLACE                 the order in which tasks were made: by time, so that those of the last minute can be counted
//	live           live:ID, hidden:ID    who keeps which task that has not ended; without a handle it is hidden
//	admitted       all                   how many tasks were admitted; one is, if no other was since tasks were counted
//	alive          KEEPER                a lease
//	session        ID                    the session of an HTTP client, and its version; it expires, too
//	asked:KEEPER   ID                    a task that somebody asks its keeper to cancel
//
// Each item of a task has the attribute expires, the table's time to live, a minute after the task's own.
// DynamoDB deletes expired items within some days; until then runnel does not show them.
//
// Words:
//
//	space    what this process has of an owner's items
//	beat     the number in a lease, which its process counts up: DynamoDB has no clock that could be asked, and those of machines differ
//	pulse    which beat of another process was seen, and since when
//	piece    what one item holds of something that is longer than the 400 KB that DynamoDB allows
//	place    of a task in the order of all
//
// Goroutines: none but those of package engine and of the client.
//
// Locks: space.mu, under which nothing waits and no other lock is taken.
//
// Its costs, in units (a write of 1 KB, a consistent read of 4 KB; in a transaction each counts twice):
//
//	a task            13 writes: 8 when it is made, 1 for its result, 4 for its end; 1 for each status between; 3 reads for its limits
//	its output        2 writes for each KB, and at least 4 each time it is stored: pace (state.go)
//	a long log        as much again for what is cut out of its middle
//	who follows it    1 read each 0.1 to 1 s, and what is new
//	a runnel          1 write and 1 read each 4 s, 2 reads each 5 s; 1 read each second while it runs tasks
//	a prune           1 write for each KB; what expires by itself costs nothing
//
// Where things stand:
//
//	a write of a process that is no longer the keeper is refused   the conditions in write.go and output.go: tasks.ErrFenced
//	an owner has too many tasks                                    space.admit (write.go)
//	a process counts as gone                                       its beat has not changed for some time: space.Alive (lease.go)
//	its tasks are not ended if it has come back meanwhile          space.unrenewed (lease.go)
//	what was stored without an answer is not stored twice          settled (call.go), space.append (output.go)
//	a throttled or conflicting request is sent again               space.try (call.go)
//	a newer runnel has changed the items                           space.check (state.go), with each renewal of the lease
package dynamodb
