package command

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"runnel/internal/system"
	"runnel/rpc"
	"runnel/tools"
	"runnel/tools/process"
)

// maxVariablesFile is how much of the file is read, in bytes: more than valid variables can take.
const maxVariablesFile = 2 << 20

// variablesFile is the file through which a command reads and sets the variables of its task
// (RUNNEL_VARIABLES). A nil one is of a command that has no such file.
type variablesFile struct {
	path   string
	before []byte
}

// newVariablesFile writes the call's variables to a file in a new directory, which the guard knows before it
// is made. It fails without a guard. It returns nil if the directory cannot be made: most commands never read
// the file, and run without it.
func newVariablesFile(in *tools.Call) (*variablesFile, error) {
	roots := []string{os.TempDir()}
	if cache, err := os.UserCacheDir(); err == nil {
		roots = append(roots, cache)
	}
	var errs []error
	for _, root := range roots {
		// TMPDIR may be relative, and the command and the guard run in other directories.
		root, err := filepath.Abs(root)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f := &variablesFile{path: filepath.Join(root, "runnel-"+rand.Text(), "variables.json"),
			before: in.Variables()}
		if err := process.GuardFolder(f.folder()); err != nil {
			f.remove()
			return nil, fmt.Errorf("cannot start the command: %w", err)
		}
		if err = os.Mkdir(f.folder(), 0o700); err == nil {
			err = os.WriteFile(f.path, f.before, 0o600)
		}
		if err == nil {
			return f, nil
		}
		f.remove()
		errs = append(errs, err)
	}
	in.Log().Warn().Err(errors.Join(errs...)).Str("taskId", in.TaskID).
		Msg("the command runs without $" + process.VariablesVariable +
			": its file cannot be written; set TMPDIR to a directory that can be written")
	return nil, nil
}

// merge merges the variables that the command has written into the task's.
func (f *variablesFile) merge(ctx context.Context, in *tools.Call) error {
	if f == nil {
		return nil
	}
	file, err := os.OpenFile(f.path, os.O_RDONLY|system.NoWait, 0) // opening a pipe would wait for its writer
	if err != nil {
		return fmt.Errorf("reading the variables that the command wrote: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("the variables that the command wrote are not taken: %s is no longer a file",
			f.path)
	}
	after, err := io.ReadAll(io.LimitReader(file, maxVariablesFile))
	if err != nil {
		return fmt.Errorf("reading the variables that the command wrote: %w", err)
	}
	after = bytes.TrimSpace(after)
	if len(after) == 0 || bytes.Equal(after, f.before) {
		return nil
	}
	if _, err := in.SetVariables(context.WithoutCancel(ctx), after); err != nil {
		var refused *rpc.Error
		if errors.As(err, &refused) {
			err = errors.New(refused.Message) // without the code, which is for requests
		}
		return fmt.Errorf("the variables that the command wrote are not taken: %w", err)
	}
	return nil
}

func (f *variablesFile) folder() string { return filepath.Dir(f.path) }

func (f *variablesFile) remove() {
	if f == nil {
		return
	}
	_ = os.Remove(f.path) // most commands leave nothing else there: then RemoveAll need not read the folder
	_ = os.RemoveAll(f.folder())
	process.ReleaseFolder(f.folder())
}
