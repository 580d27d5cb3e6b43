// Package artifacts finds the files that a command has made, and says how a result carries them.
//
//	Watch ─ listing before ─▶ Made ─ the command runs ─▶ Collect: listing after ─ what is new or changed
//	        │ open (open.go) ─▶ regular, inside, unchanged ─▶ mask (content.go) ─▶ tasks/files
//	        └ picture.go ─▶ "image", "audio"; and a resource_link for each
//
// A directory in which a command has worked is hostile: its files may be symbolic links, FIFOs or devices,
// and may change while they are read. All of it is reached through an os.Root, and only a regular file that
// was read as a whole, and was the same before and after, counts. What is left out is named in the result.
//
// It starts no goroutine.
package artifacts
