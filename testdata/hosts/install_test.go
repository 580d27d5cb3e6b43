package hosts

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An installation is a host whose file "runnel install" edits, instead of one that is written for the test.
type installation struct {
	host, id string
	file     string                        // below the home
	before   func(s Start) string          // what the user has in it; "" = there is no file
	list     []string                      // the host's own list of servers
	listed   string                        // what that says of runnel
	run      func(s Start) (args []string) // the environment is that of the host's Start
	rewrites bool                          // the host writes to this file itself
}

var installations = []installation{
	{
		host: "claude-code", id: "claude-code", file: ".claude.json", rewrites: true,
		before: func(Start) string {
			return "{\n  \"hasCompletedOnboarding\": true,\n  \"mcpServers\": {\n    \"other\": {\"command\": \"/bin/false\"}\n  }\n}\n"
		},
		list: []string{"mcp", "list"}, listed: `(?m)^runnel: .*✔ Connected`,
		run: func(Start) []string { return []string{"--allowedTools", "mcp__runnel", "-p", Prompt} },
	},
	{
		host: "codex", id: "codex", file: ".codex/config.toml",
		before: func(s Start) string {
			return `# mine
model = "scripted" # the model
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "` + s.URL + `/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"

[analytics]
enabled = false
# end`
		},
		list: []string{"mcp", "list"}, listed: `(?m)^runnel .* enabled`,
		run: func(Start) []string {
			return []string{"exec", "--skip-git-repo-check",
				"--dangerously-bypass-approvals-and-sandbox", Prompt}
		},
	},
	{
		host: "gemini", id: "gemini", file: ".gemini/settings.json",
		before: func(Start) string {
			return `{
	// how I log in
	"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
	"privacy": {"usageStatisticsEnabled": false}, /* no */
	"general": {"enableAutoUpdate": false},
	"telemetry": {"enabled": false}
}
`
		},
		list: []string{"mcp", "list"}, listed: `✓ runnel: .* - Connected`,
		run: func(Start) []string {
			return []string{"--yolo", "--skip-trust", "-m", "gemini-2.5-flash", "-p", Prompt}
		},
	},
	{
		host: "goose", id: "goose", file: ".config/goose/config.yaml",
		before: func(Start) string {
			return "# mine\nGOOSE_TELEMETRY_ENABLED: false\nextensions:\n  # none but runnel\n  memory:\n    type: builtin\n    name: memory\n    enabled: false\n    bundled: true\n"
		},
		run: func(Start) []string { return []string{"run", "--no-session", "-t", Prompt} },
	},
	{
		host: "opencode", id: "opencode", file: ".config/opencode/opencode.json",
		before: func(s Start) string { return s.scriptedFile("https://opencode.ai/config.json") },
		list:   []string{"mcp", "list"}, listed: `(?s)✓ runnel.*connected`,
		run: func(Start) []string { return []string{"run", "--title", "test", Prompt} },
	},
	{
		host: "kilo", id: "kilo", file: ".config/kilo/kilo.json",
		before: func(s Start) string { return s.scriptedFile("https://app.kilo.ai/config.json") },
		list:   []string{"mcp", "list"}, listed: `(?s)✓ runnel.*connected`,
		run: func(Start) []string { return []string{"run", "--title", "test", Prompt} },
	},
	{
		host: "pi", id: "pi", file: ".pi/agent/mcp.json",
		before: func(s Start) string {
			s.scriptedPi()
			return "{\n  \"mcpServers\": {}\n}\n"
		},
		list: []string{"mcp", "list"}, listed: `(?m)^runnel: connected, .*direct`,
		run: func(Start) []string { return []string{"-p", Prompt} },
	},
	{
		host: "copilot", id: "copilot", file: ".copilot/mcp-config.json",
		before: func(Start) string { return "{\n  \"mcpServers\": {}\n}\n" },
		list:   []string{"mcp", "list"}, listed: `(?m)^ *runnel \(local\)`,
		run: func(Start) []string {
			return []string{"--allow-all", "--no-auto-update", "--disable-builtin-mcps", "-p", Prompt}
		},
	},
	{
		host: "cline", id: "cline", file: ".cline/data/settings/cline_mcp_settings.json",
		before: func(s Start) string {
			s.scriptedCline()
			return "{\n  \"mcpServers\": {}\n}\n"
		},
		list: []string{"config", "mcp"}, listed: `(?m)^ *runnel \[stdio\]`,
		run: func(Start) []string {
			return []string{"-P", "openai-compatible", "-k", key, "-m",
				"scripted", Prompt}
		},
	},
	{
		host: "qwen", id: "qwen", file: ".qwen/settings.json",
		before: func(Start) string {
			return `{
	// how I log in
	"security": {"auth": {"selectedType": "openai"}},
	"privacy": {"usageStatisticsEnabled": false}, /* no */
	"general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
	"telemetry": {"enabled": false},
	"$version": 4
}
`
		},
		list: []string{"mcp", "list"}, listed: `runnel: .* - Connected`,
		run: func(Start) []string { return []string{"--yolo", "-m", "scripted", "-p", Prompt} },
	},
}

// scriptedFile is the file of opencode and its relatives.
func (s Start) scriptedFile(schema string) string {
	return encode(object{"$schema": schema, "model": "scripted/scripted", "autoupdate": false,
		"share": "disabled", "permission": "allow",
		"provider": s.scripted()}) + "\n"
}

// In a fresh home, runnel install makes the real program list and call runnel, and runnel uninstall leaves
// the host's file as it was.
func TestInstall(t *testing.T) {
	for _, in := range installations {
		at := slices.IndexFunc(Hosts, func(h Host) bool { return h.Name == in.host })
		h := Hosts[at]
		if testing.Short() && in.host != "codex" {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			program := install(t, h)
			for _, name := range []string{"short", "huge"} {
				s := Scenarios[slices.IndexFunc(Scenarios, func(s Scenario) bool { return s.Name == name })]
				t.Run(name, func(t *testing.T) { in.play(t, h, program, s) })
			}
		})
	}
}

// In a project, the real programs find the entry in the project's file, and in the user's file where a
// variable says that it is.
func TestInstallElsewhere(t *testing.T) {
	// hosts that write something of their own into each file that they read, and the project's file.
	writes := map[string]struct{ file, member string }{
		"opencode": {"opencode.json", "$schema"},
		"kilo":     {"kilo.json", "$schema"},
		"qwen":     {".qwen/settings.json", "$version"},
	}
	for _, c := range []struct {
		host, variable, file string // the file below the directory that the variable names
		// The user's file that makes the host look into a project's file; PROJECT is the project.
		trusts        string
		project, user string // what the host's list says of runnel; "" = the host has no such file
	}{
		{"claude-code", "CLAUDE_CONFIG_DIR", ".claude.json", "", `(?m)^runnel: .*Pending approval`,
			`(?m)^runnel: .*✔ Connected`},
		{"codex", "CODEX_HOME", "config.toml", "[projects.\"PROJECT\"]\ntrust_level = \"trusted\"\n",
			`(?m)^runnel .* enabled`, `(?m)^runnel .* enabled`},
		{"gemini", "GEMINI_CLI_HOME", ".gemini/settings.json",
			`{"security": {"folderTrust": {"enabled": false}}}`, `✓ runnel: .* - Connected`,
			`✓ runnel: .* - Connected`},
		{"opencode", "XDG_CONFIG_HOME", "opencode/opencode.json",
			"{\n  // mine\n  \"autoupdate\": false\n}\n", `(?s)✓ runnel.*connected`,
			`(?s)✓ runnel.*connected`},
		{"kilo", "XDG_CONFIG_HOME", "kilo/kilo.json", "{\n  // mine\n  \"autoupdate\": false\n}\n",
			`(?s)✓ runnel.*connected`, `(?s)✓ runnel.*connected`},
		{"pi", "PI_CODING_AGENT_DIR", "mcp.json", "", "", `(?m)^runnel: connected, .*direct`},
		{"copilot", "COPILOT_HOME", "mcp-config.json", "", "", `(?m)^ *runnel \(local\)`},
		{"cline", "CLINE_DATA_DIR", "settings/cline_mcp_settings.json", "", "", `(?m)^ *runnel \[stdio\]`},
		{"qwen", "QWEN_HOME", "settings.json", "", `runnel: .* - Pending approval`, `runnel: .* - Connected`},
	} {
		if testing.Short() && c.host != "codex" {
			continue
		}
		t.Run(c.host, func(t *testing.T) {
			t.Parallel()
			program := install(t, Hosts[slices.IndexFunc(Hosts,
				func(h Host) bool { return h.Name == c.host })])
			binary, err := filepath.Abs(*runnel)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			// No person is there to answer.
			s := Start{Home: dir, Project: filepath.Join(dir, "project"), URL: "http://127.0.0.1:9"}
			s.write("tmp/here", "")
			s.write("project/here", "")
			run := func(program string, args ...string) string {
				t.Helper()
				args = argv(program, args...)
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir = s.Project
				cmd.Env = append(s.environment(os.Getenv("PATH")),
					c.variable+"="+filepath.Join(dir, "elsewhere"), "GEMINI_CLI_NO_RELAUNCH=true",
					"QWEN_CODE_NO_RELAUNCH=true", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			before := strings.ReplaceAll(c.trusts, "PROJECT", s.Project)
			if before != "" {
				s.write(filepath.Join("elsewhere", c.file), before)
			}
			list := []string{"mcp", "list"}
			if c.host == "cline" {
				list = []string{"config", "mcp"}
			}
			for scope, want := range map[string]string{"project": c.project, "user": c.user} {
				if want == "" {
					continue
				}
				run(binary, "install", c.host, "--scope", scope, "--tool", "a=echo hi")
				if out := run(program, list...); !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("--scope %s:\n%s", scope, out)
				}
				run(binary, "uninstall", c.host, "--scope", scope)
			}
			if mine, ok := writes[c.host]; ok {
				for _, file := range []string{filepath.Join(s.Project, mine.file),
					filepath.Join(dir, "elsewhere", c.file)} {
					if after := text(t, file); strings.Contains(after, "runnel") ||
						!strings.Contains(after, mine.member) {
						t.Errorf("after\n%s", after)
					}
				}
				return
			}
			if list, err := os.ReadDir(s.Project); err != nil || len(list) != 1 {
				t.Errorf("left in the project: %v, %v", list, err)
			}
			if before == "" {
				return
			}
			if after := text(t, filepath.Join(dir, "elsewhere", c.file)); after != before {
				t.Errorf("before\n%s\nafter\n%s", before, after)
			}
		})
	}
}

// play plays a scenario with a host that has runnel from runnel install alone.
func (in installation) play(t *testing.T, h Host, program string, s Scenario) {
	var start Start
	var before string
	var file string
	env := h.Start
	h.Start = func(s Start) (args, vars []string) {
		start = s
		before = in.before(s)
		file = filepath.Join(s.Home, in.file)
		aside := s
		aside.Home = t.TempDir()
		_, vars = env(aside) // only its variables count here
		s.write(in.file, before)
		in.runnel(t, s, "install")
		in.runnel(t, s, "uninstall")
		if after := text(t, file); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		in.runnel(t, s, "install")
		if in.list != nil {
			list := argv(program, in.list...)
			cmd := exec.CommandContext(t.Context(), list[0], list[1:]...)
			cmd.Dir, cmd.Env = s.Project, append(s.environment(os.Getenv("PATH")), vars...)
			out, err := cmd.CombinedOutput()
			if err != nil || !regexp.MustCompile(in.listed).Match(out) {
				t.Errorf("%s %s: %v\n%s", h.Name, strings.Join(in.list, " "), err, out)
			}
		}
		return in.run(s), vars
	}
	play(t, h, program, s, &figures{})

	installed := text(t, file)
	in.runnel(t, start, "uninstall")
	after := text(t, file)
	if in.rewrites {
		var was, is map[string]any
		if err := errors.Join(json.Unmarshal([]byte(installed), &was),
			json.Unmarshal([]byte(after), &is)); err != nil {
			t.Fatal(err)
		}
		delete(was["mcpServers"].(map[string]any), "runnel")
		if !reflect.DeepEqual(was, is) {
			t.Errorf("with runnel\n%s\nafter\n%s", installed, after)
		}
	} else if after != before {
		t.Errorf("before\n%s\nwith runnel\n%s\nafter\n%s", before, installed, after)
	}
	// Nothing of ours lies about: neither beside the file nor in the state, but the empty file that is
	// locked.
	for _, dir := range []string{filepath.Dir(file),
		filepath.Join(start.Home, ".local", "state", "runnel", "installed")} {
		list, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		for _, entry := range list {
			if strings.HasPrefix(entry.Name(), ".runnel-") ||
				filepath.Base(dir) == "installed" && entry.Name() != "lock" {
				t.Errorf("left: %s", filepath.Join(dir, entry.Name()))
			}
		}
	}
}

// runnel runs install or uninstall as a user would, in the host's home.
func (in installation) runnel(t *testing.T, s Start, what string) {
	t.Helper()
	args := []string{what, in.id}
	if what == "install" {
		args = append(args, s.Server[1:]...)
	}
	cmd := exec.CommandContext(t.Context(), s.Server[0], args...)
	cmd.Dir, cmd.Env = s.Project, s.environment(os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("runnel %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
