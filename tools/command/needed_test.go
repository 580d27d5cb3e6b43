package command

import (
	"fmt"
	"regexp"
	"testing"
)

// A line that has none of the needed texts does not match.
func TestNeededTexts(t *testing.T) {
	lines := []string{"ERROR", "FATAL", "a FAILED test", "ERR", "ERRERR", "error", "é", "\xff", "12 of 34", "warn: x", "x warn",
		"listening on 80", "ab", "abab", "k", "K", "ſ", "", " ", "panic: runtime error"}
	for pattern, want := range map[string]string{
		`ERROR`:                      `["ERROR"]`,
		`ERROR|FATAL`:                `["ERROR" "FATAL"]`,
		`^(ERROR|FATAL)\b`:           `["ERROR" "FATAL"]`,
		`ERROR|ERR`:                  `["ERR"]`,
		`FAILED|FATAL`:               `["ILED" "TAL"]`,
		`listening on (\S+)`:         `["listening on "]`,
		`(\d+) of (\d+)`:             `[" of "]`,
		`(ab)+`:                      `["ab"]`,
		`(ab){2}`:                    `["ab"]`,
		`panic: (runtime|fatal).*`:   `["panic: "]`,
		`é|ERROR`:                    `["é" "ERROR"]`,
		`ERROR|warn.*`:               `["ERROR" "warn"]`,
		`(ab)*|ERROR`:                `[]`,
		`(ab)?k`:                     `["k"]`,
		`(?i)error`:                  `[]`,
		`(?i)k`:                      `[]`,
		`[EF]`:                       `[]`,
		`\x{fffd}`:                   `[]`,
		`ERROR|`:                     `[]`,
		`aa|bb|cc|dd|ee|ff|gg|hh`:    `["aa" "bb" "cc" "dd" "ee" "ff" "gg" "hh"]`,
		`a1|b2|c3|d4|e5|f6|g7|h8|i9`: `[]`,
		`(`:                          `[]`,
	} {
		needed := neededTexts(pattern)
		if got := fmt.Sprintf("%q", needed); got != want {
			t.Errorf("%s needs %s, want %s", pattern, got, want)
		}
		re, err := regexp.Compile(pattern)
		for _, line := range lines {
			if err == nil && needed != nil && re.MatchString(line) && !containsAny([]byte(line), needed) {
				t.Errorf("%s matches %q without %q", pattern, line, needed)
			}
		}
	}
}
