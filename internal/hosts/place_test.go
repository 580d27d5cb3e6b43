package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The file of each host on each system, written out as the sources in Table have them.
func TestPlaces(t *testing.T) {
	home := map[string]string{"linux": "/home/me", "darwin": "/Users/me", "windows": `C:\Users\me`}
	want := map[string]map[string]string{
		"claude-code": {"linux": "/home/me/.claude.json", "darwin": "/Users/me/.claude.json",
			"windows": `C:\Users\me\.claude.json`},
		"claude-desktop": {"linux": "/home/me/.config/Claude/claude_desktop_config.json",
			"darwin":  "/Users/me/Library/Application Support/Claude/claude_desktop_config.json",
			"windows": `C:\Users\me\AppData\Roaming\Claude\claude_desktop_config.json`},
		"codex": {"linux": "/home/me/.codex/config.toml", "darwin": "/Users/me/.codex/config.toml",
			"windows": `C:\Users\me\.codex\config.toml`},
		"gemini": {"linux": "/home/me/.gemini/settings.json", "darwin": "/Users/me/.gemini/settings.json",
			"windows": `C:\Users\me\.gemini\settings.json`},
		"cursor": {"linux": "/home/me/.cursor/mcp.json", "darwin": "/Users/me/.cursor/mcp.json",
			"windows": `C:\Users\me\.cursor\mcp.json`},
		"vscode": {"linux": "/home/me/.config/Code/User/mcp.json",
			"darwin":  "/Users/me/Library/Application Support/Code/User/mcp.json",
			"windows": `C:\Users\me\AppData\Roaming\Code\User\mcp.json`},
		"windsurf": {"linux": "/home/me/.codeium/windsurf/mcp_config.json",
			"darwin":  "/Users/me/.codeium/windsurf/mcp_config.json",
			"windows": `C:\Users\me\.codeium\windsurf\mcp_config.json`},
		"goose": {"linux": "/home/me/.config/goose/config.yaml",
			"darwin":  "/Users/me/.config/goose/config.yaml",
			"windows": `C:\Users\me\AppData\Roaming\Block\goose\config\config.yaml`},
		"opencode": {"linux": "/home/me/.config/opencode/opencode.json",
			"darwin":  "/Users/me/.config/opencode/opencode.json",
			"windows": `C:\Users\me\.config\opencode\opencode.json`},
		"copilot": {"linux": "/home/me/.copilot/mcp-config.json",
			"darwin":  "/Users/me/.copilot/mcp-config.json",
			"windows": `C:\Users\me\.copilot\mcp-config.json`},
		"cline": {"linux": "/home/me/.cline/data/settings/cline_mcp_settings.json",
			"darwin":  "/Users/me/.cline/data/settings/cline_mcp_settings.json",
			"windows": `C:\Users\me\.cline\data\settings\cline_mcp_settings.json`},
		"qwen": {"linux": "/home/me/.qwen/settings.json", "darwin": "/Users/me/.qwen/settings.json",
			"windows": `C:\Users\me\.qwen\settings.json`},
		"kilo": {"linux": "/home/me/.config/kilo/kilo.json", "darwin": "/Users/me/.config/kilo/kilo.json",
			"windows": `C:\Users\me\.config\kilo\kilo.json`},
		"pi": {"linux": "/home/me/.pi/agent/mcp.json", "darwin": "/Users/me/.pi/agent/mcp.json",
			"windows": `C:\Users\me\.pi\agent\mcp.json`},
		"zed": {"linux": "/home/me/.config/zed/settings.json",
			"darwin":  "/Users/me/.config/zed/settings.json",
			"windows": `C:\Users\me\AppData\Roaming\Zed\settings.json`},
	}
	for _, h := range Table {
		for os, home := range home {
			s := System{os, func(name string) string {
				return map[string]string{"HOME": home, "USERPROFILE": home, "XDG_CONFIG_HOME": "not/absolute",
					"CODEX_HOME": ""}[name]
			}}
			if got, err := h.UserFile(s); err != nil || got != want[h.ID][os] {
				t.Errorf("%s on %s: %q, %v, want %q", h.ID, os, got, err, want[h.ID][os])
			}
		}
	}
	for _, c := range []struct{ host, os, variable, value, want string }{
		{"codex", "linux", "CODEX_HOME", "/c", "/c/config.toml"},
		{"claude-code", "darwin", "CLAUDE_CONFIG_DIR", "/c", "/c/.claude.json"},
		{"gemini", "linux", "GEMINI_CLI_HOME", "/c", "/c/.gemini/settings.json"},
		{"goose", "linux", "XDG_CONFIG_HOME", "/c", "/c/goose/config.yaml"},
		{"goose", "linux", "GOOSE_PATH_ROOT", "/c", "/c/config/config.yaml"},
		{"opencode", "linux", "XDG_CONFIG_HOME", "/c", "/c/opencode/opencode.json"},
		{"copilot", "linux", "COPILOT_HOME", "/c", "/c/mcp-config.json"},
		{"cline", "linux", "CLINE_DATA_DIR", "/c", "/c/settings/cline_mcp_settings.json"},
		{"qwen", "linux", "QWEN_HOME", "/c", "/c/settings.json"},
		{"kilo", "linux", "XDG_CONFIG_HOME", "/c", "/c/kilo/kilo.json"},
		{"pi", "linux", "PI_CODING_AGENT_DIR", "/c", "/c/mcp.json"},
		{"vscode", "windows", "APPDATA", `D:\roaming`, `D:\roaming\Code\User\mcp.json`},
		{"vscode", "darwin", "XDG_CONFIG_HOME", "/c", ""},
	} {
		got, err := Find(c.host).UserFile(System{c.os,
			func(name string) string { return map[string]string{c.variable: c.value}[name] }})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s with %s: %q, %v", c.host, c.variable, got, err)
		}
	}
}

// A host is here if its program, its file or its directory is.
func TestHere(t *testing.T) {
	home := t.TempDir()
	s := System{"linux", func(name string) string {
		return map[string]string{"HOME": home, "PATH": filepath.Join(home, "bin")}[name]
	}}
	for _, dir := range []string{"bin", ".cursor"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "bin", "codex"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var here []string
	for _, h := range Table {
		if h.Here(s) != "" {
			here = append(here, h.ID)
		}
	}
	if !slices.Equal(here, []string{"codex", "cursor"}) {
		t.Error(here)
	}
}
