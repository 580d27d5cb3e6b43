package hosts

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
)

// Server is an entry of a host's file: how the host starts a server.
type Server struct {
	Command string
	Args    []string
	Env     map[string]string
	Off     bool // it is switched off in the host
}

// Runnel reports whether an entry starts runnel, or the program, which may have another name.
func (s Server) Runnel(program string) bool {
	base := strings.TrimSuffix(filepath.Base(s.Command), ".exe")
	return base == "runnel" || s.Command == program
}

// field is a member of an entry.
type field struct {
	name  string
	value any
}

// plain is the shape that most hosts read.
func plain(s Server) []field {
	fields := []field{{"command", s.Command}, {"args", append([]string{}, s.Args...)}}
	if len(s.Env) > 0 {
		fields = append(fields, field{"env", s.Env})
	}
	return fields
}

// typed is for hosts that know several transports: it says that the server speaks over stdin and stdout.
func typed(s Server) []field { return append([]field{{"type", "stdio"}}, plain(s)...) }

// zed says that the server comes from no extension, which versions of 2025 need.
func zed(s Server) []field { return append([]field{{"source", "custom"}}, plain(s)...) }

// copilot also lists the tools that its model may use.
func copilot(s Server) []field {
	return append(append([]field{{"type", "local"}}, plain(s)...), field{"tools", []string{"*"}})
}

// pi also says that the tools are the model's own: else it reaches them only from scripts that it writes.
func pi(s Server) []field { return append(plain(s), field{"exposure", "direct"}) }

func opencode(s Server) []field {
	fields := []field{{"type", "local"}, {"command", append([]string{s.Command}, s.Args...)}}
	if len(s.Env) > 0 {
		fields = append(fields, field{"environment", s.Env})
	}
	return append(fields, field{"enabled", true})
}

func goose(s Server) []field {
	envs := s.Env
	if envs == nil {
		envs = map[string]string{}
	}
	return []field{
		{"type", "stdio"}, {"name", "runnel"}, {"description", "Runs commands as tasks whose output streams"},
		{"enabled", true}, {"bundled", false},
		{"cmd", s.Command}, {"args", append([]string{}, s.Args...)}, {"envs", envs}, {"env_keys", []string{}},
		{"timeout", 300}, // seconds; its own default
	}
}

// readServer reads an entry in any host's shape; ok is false if it starts no program.
func readServer(entry any) (s Server, ok bool) {
	text, err := json.Marshal(entry)
	if err != nil {
		return s, false
	}
	var e struct {
		Command, Cmd           words
		Args                   []string
		Env, Envs, Environment map[string]string
		Enabled                *bool
		Disabled               bool
	}
	if json.Unmarshal(text, &e) != nil {
		return s, false
	}
	command := slices.Concat(e.Command, e.Cmd, e.Args)
	if len(e.Command)+len(e.Cmd) == 0 {
		return s, false
	}
	s = Server{Command: command[0], Args: command[1:], Off: e.Disabled || e.Enabled != nil && !*e.Enabled}
	for _, env := range []map[string]string{e.Env, e.Envs, e.Environment} {
		if env != nil {
			s.Env = env
		}
	}
	return s, true
}

// words is a program, or a program and its arguments.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(w))
	}
	var word string
	err := json.Unmarshal(text, &word)
	if word != "" {
		*w = words{word}
	}
	return err
}

// IsName reports whether an entry may have this name: every format and host takes such names, and Codex takes
// no others.
func IsName(name string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return name != "" && len(name) <= 64 && strings.Trim(name, plain) == ""
}

// quote returns a value in JSON, which TOML and YAML read the same way.
func quote(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// strings, lists and maps of them, numbers and truth values.
	_ = e.Encode(v)
	// TOML wants DEL escaped.
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}
