package process

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Windows has no process groups that lead to everything a process has started. Job objects take the place of
// process groups, the guard and strays: everything that a process in a job starts is in the job, too, and
// cannot leave it.
//
//	own job      this program and all that it starts, but for what is to outlive it (Apart). Nobody else has a handle of it: with this
//	             program, however it ends, the handle goes, and the system ends all that is in the job.
//	family's job a leader and all that it starts, inside the own job. The leader is put there before its first instruction.
//
// The guard removes folders only.

// TieChildren ties everything that this program starts from now on to it, so that the system ends both
// together.
var TieChildren = sync.OnceFunc(func() { _ = ownJob() })

// ownJob puts this program into its own job, and reports whether that worked: before Windows 8 a process
// could only be in one job.
var ownJob = sync.OnceValue(func() bool {
	job, err := newJob(windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK)
	return err == nil && windows.AssignProcessToJobObject(job, windows.CurrentProcess()) == nil
})

// newJob makes a job whose processes end when its handle is closed.
func newJob(flags uint32) (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | flags
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		_ = windows.CloseHandle(job)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	return job, nil
}

// familyJob is the job of a family. While its leader's handle is open, the leader's id is not given to
// another process.
type familyJob struct{ job, leader windows.Handle }

// jobs holds the families' jobs, by the ids of their leaders.
var jobs struct {
	sync.Mutex
	of map[int]familyJob
}

// Guard puts the leader of a family, which was just started, into a job until Release.
func Guard(pid int) error {
	leader, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.PROCESS_SUSPEND_RESUME, false, uint32(pid))
	if err != nil {
		return os.NewSyscallError("OpenProcess", err)
	}
	job, err := newJob(0)
	if err == nil {
		if err = windows.AssignProcessToJobObject(job, leader); err != nil {
			_ = windows.CloseHandle(job)
			err = os.NewSyscallError("AssignProcessToJobObject", err)
		}
	}
	if err != nil {
		_ = windows.CloseHandle(leader)
		return err
	}
	jobs.Lock()
	defer jobs.Unlock()
	if jobs.of == nil {
		jobs.of = map[int]familyJob{}
	}
	jobs.of[pid] = familyJob{job, leader}
	return nil
}

// GuardMark does nothing: TieChildren ties all children to the life of this program.
func GuardMark(string) (release func()) { return func() {} }

// Release ends the job of a family, with all that is left in it.
func Release(pid int) {
	jobs.Lock()
	defer jobs.Unlock()
	if j, ok := jobs.of[pid]; ok {
		_ = windows.CloseHandle(j.job)
		_ = windows.CloseHandle(j.leader)
		delete(jobs.of, pid)
	}
}

// jobOf calls f with the job of a family, if there is one.
func jobOf(pid int, with func(familyJob)) (found bool) {
	jobs.Lock()
	defer jobs.Unlock()
	j, found := jobs.of[pid]
	if found {
		with(j)
	}
	return found
}

// prepare makes a child the leader of a family. The child starts suspended, until begin has put it into a
// job.
func prepare(cmd *exec.Cmd, s *Spec) error {
	if s.Pty {
		return errors.New("a terminal (pty: true) is available on Unix only")
	}
	cmd.SysProcAttr = NewGroup()
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_SUSPENDED
	switch {
	case s.Script:
		cmd.SysProcAttr.CmdLine = scriptLine(s.Argv)
	case isBatch(s.Path):
		line, err := batchLine(s.Path, s.Argv[1:])
		if err != nil {
			return err
		}
		cmd.Path, cmd.SysProcAttr.CmdLine = commandInterpreter(), line
	}
	return nil
}

// NewGroup returns attributes for a program that gets no Ctrl-C, but that SignalGroup reaches. If this
// program has no console, the other gets no visible one, either.
func NewGroup() *syscall.SysProcAttr {
	flags := uint32(windows.CREATE_NEW_PROCESS_GROUP)
	if _, err := windows.GetConsoleCP(); err != nil {
		flags |= windows.CREATE_NO_WINDOW
	}
	return &syscall.SysProcAttr{CreationFlags: flags}
}

// Apart returns attributes with which a program outlives what a terminal, a host or this program does to its
// own group.
func Apart() *syscall.SysProcAttr {
	flags := uint32(windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW)
	if ownJob() { // the host's job, if it lets nobody out, still keeps it
		flags |= windows.CREATE_BREAKAWAY_FROM_JOB
	}
	return &syscall.SysProcAttr{CreationFlags: flags}
}

// ResumeThread would need a list of all threads.
var resumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// begin starts a program. A leader (see prepare) runs as soon as it is in its job.
func begin(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil || cmd.SysProcAttr.CreationFlags&windows.CREATE_SUSPENDED == 0 {
		return err
	}
	err := Guard(cmd.Process.Pid)
	if err == nil {
		jobOf(cmd.Process.Pid, func(j familyJob) {
			if status, _, _ := resumeProcess.Call(uintptr(j.leader)); status != 0 {
				err = os.NewSyscallError("NtResumeProcess", windows.NTStatus(status))
			}
		})
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		Release(cmd.Process.Pid)
	}
	return err
}

// guardChild does nothing: begin has put the child into its job.
func guardChild(int) {}

// processCounts is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type processCounts struct {
	userTime, kernelTime, thisPeriodUserTime, thisPeriodKernelTime int64
	pageFaults, total, active, terminated                          uint32
}

func (f *family) gone() bool {
	const basicAccountingInformation = 1
	var counts processCounts
	jobOf(f.leader, func(j familyJob) {
		_ = windows.QueryInformationJobObject(j.job, basicAccountingInformation,
			uintptr(unsafe.Pointer(&counts)), uint32(unsafe.Sizeof(counts)), nil)
	})
	return counts.active == 0
}

func (f *family) signal(s syscall.Signal) { SignalGroup(f.leader, s) }

// SignalGroup asks a family to end by CTRL_BREAK. For KILL, and without a console to ask through, it ends the
// family.
func SignalGroup(leader int, s syscall.Signal) {
	if s != syscall.SIGKILL && windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT,
		uint32(leader)) == nil {
		return
	}
	jobOf(leader, func(j familyJob) { _ = windows.TerminateJobObject(j.job, 1) })
}

// ownGroup returns the group of this program.
func ownGroup() int { return os.Getpid() }
