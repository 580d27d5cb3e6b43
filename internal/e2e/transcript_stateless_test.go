package e2e

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

var metas = regexp.MustCompile(`\{\{stateless([a-z ]*)(;.*?)?\}\}`)

// statelessMeta spells the _meta of a request of the stateless era: {{stateless}}, {{stateless tasks
// partials}}, {{stateless ask; "progressToken":1}}. The words are what the client declares: tasks the tasks
// extension, partials runnel/task-partials, ask elicitation, results the partialResults of SEP-2998. What
// follows is added as it is.
func statelessMeta(macro string) string {
	m := metas.FindStringSubmatch(macro)
	words := strings.Fields(m[1])
	var extensions, capabilities []string
	for _, c := range []struct {
		word, spelling string
		into           *[]string
	}{
		{"tasks", `"io.modelcontextprotocol/tasks":{}`, &extensions},
		{"partials", `"runnel/task-partials":{}`, &extensions},
		{"ask", `"elicitation":{}`, &capabilities},
		{"results", `"partialResults":{}`, &capabilities},
	} {
		if slices.Contains(words, c.word) {
			*c.into = append(*c.into, c.spelling)
		}
	}
	if extensions != nil {
		capabilities = append(capabilities, `"extensions":{`+strings.Join(extensions, ",")+`}`)
	}
	more := ""
	if m[2] != "" {
		more = "," + strings.TrimSpace(m[2][1:])
	}
	return `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{` + strings.Join(capabilities, ",") + `}` + more + `}`
}

var signals = map[string]syscall.Signal{"SIGHUP": syscall.SIGHUP, "SIGTERM": syscall.SIGTERM}

// parseOutside parses the directives that reach the program from outside its pipes.
func (s *step) parseOutside(mode string) error {
	_, err := strconv.Unquote(s.text)
	switch {
	case s.kind == "config" && err != nil:
		return fmt.Errorf("%w: %s", err, s.text)
	case s.kind == "signal" && signals[s.text] == 0:
		return fmt.Errorf("unknown signal %q", s.text)
	case s.kind != "config" && s.kind != "signal":
		return fmt.Errorf("unknown directive %q", s.kind)
	case mode != "binary":
		return errors.New("needs mode: binary")
	}
	return nil
}

func (p *player) outside(st step) error {
	if st.kind == "signal" {
		return syscall.Kill(p.s.pid, signals[st.text])
	}
	yaml, err := strconv.Unquote(st.text)
	if err != nil {
		return err
	}
	return os.WriteFile(p.s.config, []byte(yaml), 0o600)
}
