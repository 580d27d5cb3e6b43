package hosts

import "runtime"

// A Host is a program that starts MCP servers.
type Host struct {
	ID, Title string
	Programs  []string // its commands; if one is in PATH, the host is on this machine

	user    map[string]place // the user's file, by GOOS; "" = on all other systems
	Project string           // its file in a project, with slashes; "" = it has none

	format format
	key    string // the member of the file that holds the entries
	shape  func(Server) []field

	// Elsewhere says that the host is started by a desktop, and starts its servers in an unrelated directory.
	Elsewhere bool
	// SetPath says that servers get a PATH without the directories that the user's shell adds.
	SetPath bool
	// Root is how a project's file writes the project's directory, if servers are started elsewhere.
	Root string
	// After says what the user has to do before the host uses the entry.
	After string
}

// Table lists all hosts. The sources of the places and shapes, as read in November 2026:
//
//	Claude Code     code.claude.com/docs/en/mcp (scopes); $CLAUDE_CONFIG_DIR as in the program, 2.1.330
//	Claude Desktop  modelcontextprotocol.io/docs/develop/connect-local-servers; Linux: Electron's appData
//	Codex           developers.openai.com/codex/config-reference; $CODEX_HOME and trusted projects as in openai/codex
//	Gemini CLI      google-gemini/gemini-cli docs/tools/mcp-server.md; $GEMINI_CLI_HOME as in the program, 0.61.0
//	Cursor          cursor.com/docs/mcp
//	VS Code         code.visualstudio.com/docs/agents/reference/mcp-configuration; the default profile's folder is Code/User
//	Windsurf        docs.windsurf.com/windsurf/cascade/mcp
//	Goose           goose documentation/docs/guides/config-files.md; crates/goose/src/config/paths.rs: XDG on macOS, too, and $GOOSE_PATH_ROOT
//	opencode        opencode.ai/docs/mcp-servers; XDG on every system, as in the program, 1.18.33
//	Copilot CLI     docs.github.com, "Adding MCP servers for GitHub Copilot CLI"; $COPILOT_HOME as in the program, 1.0.102
//	Cline           docs.cline.bot, "MCP servers" of the CLI; $CLINE_DATA_DIR as in the program, 3.0.65
//	Qwen Code       QwenLM/qwen-code docs, "MCP servers"; $QWEN_HOME as in the program, 0.24.4
//	Kilo            opencode's relative: XDG on every system, as in the program, 7.7.9
//	Pi              its docs/mcp.md, docs/environment-variables.md, 1.6.0
//	Zed             zed.dev/docs/ai/mcp; crates/paths/src/paths.rs: ~/.config on macOS, too
var Table = []*Host{
	{
		ID: "claude-code", Title: "Claude Code", Programs: []string{"claude"},
		user:    map[string]place{"": {"CLAUDE_CONFIG_DIR", "~", ".claude.json"}},
		Project: ".mcp.json",
		format:  jsonText{}, key: "mcpServers", shape: typed,
		After: "Sessions that begin now have it.",
	},
	{
		ID: "claude-desktop", Title: "Claude Desktop",
		user: map[string]place{
			"":        {"XDG_CONFIG_HOME", "~/.config", "Claude/claude_desktop_config.json"},
			"darwin":  {"", "~/Library/Application Support", "Claude/claude_desktop_config.json"},
			"windows": {"APPDATA", "~/AppData/Roaming", "Claude/claude_desktop_config.json"},
		},
		format: jsonText{}, key: "mcpServers", shape: plain,
		Elsewhere: true, SetPath: true,
		After: "Quit Claude Desktop and start it again.",
	},
	{
		ID: "codex", Title: "Codex", Programs: []string{"codex"},
		user:    map[string]place{"": {"CODEX_HOME", "~/.codex", "config.toml"}},
		Project: ".codex/config.toml",
		format:  tomlText{}, key: "mcp_servers", shape: plain,
		After: "Sessions that begin now have it.",
	},
	{
		ID: "gemini", Title: "Gemini CLI", Programs: []string{"gemini"},
		user:    map[string]place{"": {"GEMINI_CLI_HOME", "~", ".gemini/settings.json"}},
		Project: ".gemini/settings.json",
		format:  jsonText{comments: true}, key: "mcpServers", shape: plain,
		After: "Sessions that begin now have it, in folders that Gemini CLI trusts.",
	},
	{
		ID: "cursor", Title: "Cursor", Programs: []string{"cursor"},
		user:    map[string]place{"": {"", "~", ".cursor/mcp.json"}},
		Project: ".cursor/mcp.json",
		format:  jsonText{comments: true}, key: "mcpServers", shape: typed,
		Elsewhere: true, SetPath: true, Root: "${workspaceFolder}",
		After: "See that it is switched on in Cursor's settings, under MCP.",
	},
	{
		ID: "vscode", Title: "VS Code", Programs: []string{"code"},
		user: map[string]place{
			"":        {"XDG_CONFIG_HOME", "~/.config", "Code/User/mcp.json"},
			"darwin":  {"", "~/Library/Application Support", "Code/User/mcp.json"},
			"windows": {"APPDATA", "~/AppData/Roaming", "Code/User/mcp.json"},
		},
		Project: ".vscode/mcp.json",
		format:  jsonText{comments: true}, key: "servers", shape: typed,
		Elsewhere: true, Root: "${workspaceFolder}", // its PATH is that of a login shell
		After: "VS Code asks whether it may start it.",
	},
	{
		ID: "windsurf", Title: "Windsurf", Programs: []string{"windsurf"},
		user:   map[string]place{"": {"", "~", ".codeium/windsurf/mcp_config.json"}},
		format: jsonText{comments: true}, key: "mcpServers", shape: plain,
		Elsewhere: true, SetPath: true,
		After: "Refresh the list of MCP servers in Windsurf.",
	},
	{
		ID: "goose", Title: "Goose", Programs: []string{"goose"},
		user: map[string]place{
			"":        {"XDG_CONFIG_HOME", "~/.config", "goose/config.yaml"},
			"windows": {"APPDATA", "~/AppData/Roaming", "Block/goose/config/config.yaml"},
		},
		format: yamlText{}, key: "extensions", shape: goose,
		After: "Sessions that begin now have it.",
	},
	{
		ID: "opencode", Title: "opencode", Programs: []string{"opencode"},
		user:    map[string]place{"": {"XDG_CONFIG_HOME", "~/.config", "opencode/opencode.json"}},
		Project: "opencode.json",
		format:  jsonText{comments: true}, key: "mcp", shape: opencode,
		After: "Sessions that begin now have it.",
	},
	{
		ID: "copilot", Title: "Copilot CLI", Programs: []string{"copilot"},
		user:   map[string]place{"": {"COPILOT_HOME", "~/.copilot", "mcp-config.json"}},
		format: jsonText{}, key: "mcpServers", shape: copilot,
		After: "Sessions that begin now have it.",
	},
	{
		ID: "cline", Title: "Cline CLI", Programs: []string{"cline"},
		user:   map[string]place{"": {"CLINE_DATA_DIR", "~/.cline/data", "settings/cline_mcp_settings.json"}},
		format: jsonText{}, key: "mcpServers", shape: plain,
		After: "Sessions that begin now have it.",
	},
	{
		ID: "qwen", Title: "Qwen Code", Programs: []string{"qwen"},
		user:    map[string]place{"": {"QWEN_HOME", "~/.qwen", "settings.json"}},
		Project: ".qwen/settings.json",
		format:  jsonText{comments: true}, key: "mcpServers", shape: plain,
		After: "Sessions that begin now have it.",
	},
	{
		ID: "kilo", Title: "Kilo", Programs: []string{"kilo", "kilocode"},
		user:    map[string]place{"": {"XDG_CONFIG_HOME", "~/.config", "kilo/kilo.json"}},
		Project: "kilo.json",
		format:  jsonText{comments: true}, key: "mcp", shape: opencode,
		After: "Sessions that begin now have it.",
	},
	{
		ID: "pi", Title: "Pi", Programs: []string{"pi"},
		user:    map[string]place{"": {"PI_CODING_AGENT_DIR", "~/.pi/agent", "mcp.json"}},
		Project: ".pi/mcp.json",
		format:  jsonText{}, key: "mcpServers", shape: pi,
		After: "Sessions that begin now have it, a project's file where Pi trusts the project.",
	},
	{
		ID: "zed", Title: "Zed", Programs: []string{"zed", "zeditor"},
		user: map[string]place{
			"":        {"XDG_CONFIG_HOME", "~/.config", "zed/settings.json"},
			"darwin":  {"", "~/.config", "zed/settings.json"},
			"windows": {"APPDATA", "~/AppData/Roaming", "Zed/settings.json"},
		},
		Project: ".zed/settings.json",
		format:  jsonText{comments: true}, key: "context_servers", shape: zed,
		Elsewhere: true, // its PATH is that of a login shell
		After:     "Zed starts it at once.",
	},
}

// Find returns the host with an id, nil if there is none.
func Find(id string) *Host {
	for _, h := range Table {
		if h.ID == id {
			return h
		}
	}
	return nil
}

// IDs returns the ids of all hosts.
func IDs() (ids []string) {
	for _, h := range Table {
		ids = append(ids, h.ID)
	}
	return ids
}

// System is the system on which a host's files are looked for.
type System struct {
	OS     string // as GOOS
	Getenv func(string) string
}

// This returns the system that runnel runs on.
func This(getenv func(string) string) System { return System{runtime.GOOS, getenv} }
