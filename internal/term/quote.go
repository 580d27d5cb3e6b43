package term

import (
	"runtime"
	"strings"

	"github.com/kballard/go-shellquote"
)

// Quote writes words as a part of a command that people and models may paste into a shell, whoever chose the
// words: a directory may be named x$(rm -rf y). Characters that a terminal obeys become blanks.
func Quote(words ...string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,=[]"
	quoted := make([]string, len(words))
	for n, word := range words {
		switch word = Printable(word); {
		case word != "" && strings.Trim(word, plain) == "":
		case runtime.GOOS != "windows" && word != "" && !strings.Contains(word, "'"):
			word = "'" + word + "'" // easier to read than the backslashes of shellquote
		case runtime.GOOS != "windows":
			word = shellquote.Join(word)
		case strings.Trim(word, plain+`\ ()~`) == "" && word != "":
			word = `"` + word + `"` // cmd.exe and PowerShell take it as it is
		default:
			word = "'" + strings.ReplaceAll(word, "'", "''") + "'" // PowerShell expands nothing in it
		}
		quoted[n] = word
	}
	return strings.Join(quoted, " ")
}
