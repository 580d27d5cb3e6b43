package system

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"
)

// Modes say nothing on Windows, where every file seems to be everybody's: only the list of a file says who
// may read it.
func TestReadableByOthers(t *testing.T) {
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		t.Fatal(err)
	}
	mine := "(A;;FA;;;" + me.User.Sid.String() + ")"
	for name, c := range map[string]struct {
		list               string // SDDL
		readable, writable bool
	}{
		"mine":                 {"D:P" + mine, false, false},
		"read by everybody":    {"D:P" + mine + "(A;;FR;;;WD)", true, false},
		"written by everybody": {"D:P" + mine + "(A;;FA;;;WD)", true, true},
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		sd, err := windows.SecurityDescriptorFromString(c.list)
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := sd.DACL()
		if err != nil {
			t.Fatal(err)
		}
		if err := windows.SetNamedSecurityInfo(file, windows.SE_FILE_OBJECT,
			windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list,
			nil); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if who, readable := ReadableByOthers(file, info); readable != c.readable {
			t.Errorf("%s: readable by others %v (%s)", name, readable, who)
		}
		if who, writable := WritableByOthers(file, info); writable != c.writable {
			t.Errorf("%s: writable by others %v (%s)", name, writable, who)
		}
	}
}
