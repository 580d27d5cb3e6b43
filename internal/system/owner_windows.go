package system

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"
)

// trustees returns those who may do anything with this user's files: the user, the system and the
// administrators, whom nothing keeps out, and the owner, whom IsForeign checks.
func trustees() (list []*windows.SID) {
	if me, err := windows.GetCurrentProcessToken().GetTokenUser(); err == nil {
		list = append(list, me.User.Sid)
	}
	for _, known := range []windows.WELL_KNOWN_SID_TYPE{windows.WinLocalSystemSid,
		windows.WinBuiltinAdministratorsSid, windows.WinCreatorOwnerSid, windows.WinCreatorOwnerRightsSid} {
		if sid, err := windows.CreateWellKnownSid(known); err == nil {
			list = append(list, sid)
		}
	}
	return list
}

func isTrusted(sid *windows.SID) bool { return slices.ContainsFunc(trustees(), sid.Equals) }

func nameOf(sid *windows.SID) string {
	if account, domain, _, err := sid.LookupAccount(""); err == nil {
		return domain + `\` + account
	}
	return sid.String()
}

// IsForeign reports whether a file belongs to another user than this process's, and names its owner.
func IsForeign(path string, _ fs.FileInfo) (owner string, foreign bool) {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return "", false // a file system without owners (FAT)
	}
	sid, _, err := sd.Owner()
	if err != nil || sid == nil {
		return "", false
	}
	return nameOf(sid), !isTrusted(sid)
}

// writes are the rights to change a file.
const writes = windows.GENERIC_ALL | windows.GENERIC_WRITE | windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA |
	windows.DELETE | windows.WRITE_DAC | windows.WRITE_OWNER

// WritableByOthers reports whether anybody but its user may change a file. rights shows the file's rights,
// for a message. Modes mean nothing on Windows: the file's access control list counts.
func WritableByOthers(path string, _ fs.FileInfo) (rights string, writable bool) {
	return givenToOthers(path, writes)
}

// ReadableByOthers reports whether anybody but its user may read a file. rights shows the file's rights, for
// a message.
func ReadableByOthers(path string, _ fs.FileInfo) (rights string, readable bool) {
	return givenToOthers(path, writes|windows.GENERIC_READ|windows.FILE_READ_DATA)
}

// givenToOthers reports whether anybody but a file's user has one of some rights, and who that is.
func givenToOthers(path string, rights windows.ACCESS_MASK) (who string, given bool) {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return "", false
	}
	list, _, err := sd.DACL()
	if err != nil || list == nil { // without a list, everybody may do everything
		return "everybody", err == nil
	}
	for n := range uint32(list.AceCount) {
		var entry *windows.ACCESS_ALLOWED_ACE
		if windows.GetAce(list, n, &entry) != nil ||
			entry.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE ||
			entry.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0 || entry.Mask&rights == 0 {
			continue
		}
		if sid := (*windows.SID)(unsafe.Pointer(&entry.SidStart)); !isTrusted(sid) {
			return nameOf(sid), true
		}
	}
	return "", false
}

// TakeOver returns the command that makes a folder and its contents this user's.
func TakeOver(dir string) string { return fmt.Sprintf(`takeown /r /f "%s"`, dir) }

// TakeRights returns the command that takes the right to write a folder and its contents from all other
// users.
func TakeRights(dir string) string {
	return fmt.Sprintf(`icacls "%s" /inheritance:r /grant:r "%%USERNAME%%:(OI)(CI)F"`, dir)
}

// KeepOwner does nothing: on Windows, a new file gets its owner from the user who makes it.
func KeepOwner(*os.File, fs.FileInfo) error { return nil }

// KeepPrivate is the command that takes all rights to a file from other users.
const KeepPrivate = "icacls FILE /inheritance:r /grant:r %USERNAME%:F"
