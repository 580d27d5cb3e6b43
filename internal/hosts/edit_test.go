package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var server = Server{Command: "/usr/local/bin/runnel", Args: []string{"--tool", `say="a" \ {{b}} <é>`},
	Env: map[string]string{"PATH": "/bin", "A": "b"}}

// texts are files as hosts and people write them.
var texts = map[string][]string{
	"json": {
		"", "\n", "{}", "{}\n", "{\n}\n", "{ }", `{"a":1}`, `{"a":1,"KEY":{}}`,
		`{"a": [1, 2.50, 1e400], "KEY": {"other":{"command":"x"}}}`,
		"{\n  \"a\": 1,\n  \"KEY\": {}\n}\n",
		"{\n\t\"a\": \"é\\u00e9\",\n\t\"KEY\": {\n\t\t\"other\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t}\n}",
		"{\r\n    \"KEY\": {\r\n        \"other\": {\"command\": \"x\"}\r\n    },\r\n    \"z\": null\r\n}\r\n", "\ufeff{\n  \"a\": 1\n}\n", "  {\"KEY\":\n{}}", "{\"a\": 1,\n \"b\": 2}",
	},
	"comments": {
		"// Zed settings\n//\n{\n  // the theme\n  \"theme\": \"One\", // dark\n  /* servers */ \"KEY\": { // mine\n    // none yet\n  },\n}\n",
		"{ /* a */ // b\n  \"KEY\": {\n    \"other\": { \"command\": \"x\" }, // last\n  }\n}", "{ // {\n}",
		"{ /* two\nlines */ \"a\": 1}", "{\"KEY\": {/* none */}}",
	},
	"toml": {
		"", "a = 1", "# model\nmodel = \"o\"   # the best\n\n[mcp_servers.other]\ncommand = \"x\"\n\n  [mcp_servers.other.env]\n  A = '''\n[x]\n'''\n\n# end\n", "a = 1\r\n[b]\r\nc = 2\r\n",
		"[mcp_servers]\n", "[projects.\"/home/me\"]\ntrust_level = \"trusted\"\n",
		"[mcp_servers.runnel-2]\ncommand = \"x\"\n\n\n",
	},
	"yaml": {
		"", "# goose\n", "GOOSE_MODEL: x", "extensions:\n", "extensions: {}\n",
		"extensions:\n  # mine\n  other:\n    cmd: x # y\n    args: [a,\n      b]\n\nGOOSE_MODEL: 'x'\n# end",
		"extensions:\n    other:\n        enabled: true\nz: |\n  text\n   more\n",
		"{\"extensions\": {\"é\": {\"enabled\": true}}, \"z\": 1}\n", "{}",
		"a: \"é\"\nextensions: {other: {cmd: x}}\n", "extensions:\r\n  other:\r\n    cmd: x\r\n",
		"---\na: 1\n",
	},
}

// formats are the hosts that stand for their formats.
var formats = map[string]string{"json": "claude-code", "comments": "zed", "toml": "codex", "yaml": "goose"}

// An entry is put in and taken out, and the file is as it was. What other programs write to it in between
// stays.
func TestEditLeavesEverythingElse(t *testing.T) {
	for kind, list := range texts {
		h := Find(formats[kind])
		for _, before := range list {
			before = strings.ReplaceAll(before, "KEY", h.key)
			dir := t.TempDir()
			path, records := filepath.Join(dir, "file"), Records(filepath.Join(dir, "records"))
			write(t, path, before)
			apply(t, before)(h.Install(path, "runnel", server, records, 0o600))
			installed := content(t, path)
			got, err := h.Servers([]byte(installed))
			if err != nil || !same(got["runnel"], server) {
				t.Errorf("%s: %v, %+v\n%s", h.ID, err, got["runnel"], installed)
			}
			if strings.Contains(before, "\r\n") &&
				strings.Count(installed, "\n") != strings.Count(installed, "\r\n") {
				t.Errorf("%s: mixed ends of lines in %q", h.ID, installed)
			}
			again, err := h.Install(path, "runnel", server, records, 0o600)
			if err != nil || !again.Nothing() {
				t.Errorf("%s: installing again changes the file: %v\n%s", h.ID, err, installed)
			}
			other := server
			other.Args = []string{"wrap", "--", "x"}
			apply(t, installed)(h.Install(path, "runnel", other, records, 0o600))
			apply(t, content(t, path))(h.Install(path, "second", server, records, 0o600))
			both := content(t, path)
			if got, err := h.Servers([]byte(both)); err != nil || !same(got["runnel"], other) ||
				!same(got["second"], server) {
				t.Errorf("%s: %v, %+v\n%s", h.ID, err, got, both)
			}
			for _, order := range [][]string{{"second", "runnel"}, {"runnel", "second"}} {
				if content(t, path) == before {
					apply(t, before)(h.Install(path, "runnel", other, records, 0o600))
					apply(t, content(t, path))(h.Install(path, "second", server, records, 0o600))
				}
				apply(t, content(t, path))(h.Uninstall(path, order[0], records))
				if got, err := h.Servers([]byte(content(t, path))); err != nil ||
					got[order[0]].Command != "" || got[order[1]].Command == "" {
					t.Errorf("%s: %v, %+v without %s", h.ID, err, got, order[0])
				}
				apply(t, content(t, path))(h.Uninstall(path, order[1], records))
				if after := content(t, path); after != before {
					t.Errorf("%s: before\n%q\nboth\n%q\nafter %q\n%q", h.ID, before, both, order, after)
				}
			}
			if left, _ := os.ReadDir(string(records)); len(left) != 1 || left[0].Name() != "lock" {
				t.Errorf("%s: records are left: %v", h.ID, left)
			}
		}
	}
}

// An entry that runnel did not write, or whose host has written the file anew, is found by its structure.
func TestUninstallWithoutARecord(t *testing.T) {
	for _, c := range []struct{ host, before, after string }{
		{"claude-code", `{"mcpServers": {"runnel": {"command": "runnel"}}}`, `{"mcpServers": {}}`},
		{"claude-code", "{\n  \"mcpServers\": {\n    \"a\": {},\n    \"runnel\": {\n      \"command\": \"runnel\"\n    }\n  }\n}", "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}"},
		{"claude-code", "{\n  \"mcpServers\": {\n    \"runnel\": {\"command\": \"runnel\"},\n    \"a\": {}\n  }\n}", "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}"},
		{"zed", "{\n  \"context_servers\": {\n    \"a\": {}, // keep\n    // runnel\n    \"runnel\": {\"command\": \"runnel\"}, // x\n  }\n}", "{\n  \"context_servers\": {\n    \"a\": {}, // keep\n    // runnel // x\n  }\n}"},
		{"codex", "a = 1\n\n[mcp_servers.runnel]\ncommand = \"runnel\"\n\n[mcp_servers.runnel.env]\nA = \"b\"\n\n# b\n[b]\nc = 1\n", "a = 1\n\n\n# b\n[b]\nc = 1\n"},
		{"codex", "[mcp_servers.\"runnel\"]\ncommand = \"runnel\"\n", ""},
		{"goose", "a: 1\nextensions:\n  runnel:\n    cmd: runnel\n    args:\n    - x\n  # other\n  b:\n    cmd: x\n", "a: 1\nextensions:\n  # other\n  b:\n    cmd: x\n"},
	} {
		h := Find(c.host)
		dir := t.TempDir()
		path, records := filepath.Join(dir, "file"), Records(filepath.Join(dir, "records"))
		write(t, path, c.before)
		if _, err := h.Install(path, "runnel", server, records, 0); err == nil ||
			!strings.Contains(err.Error(), "--name") {
			t.Errorf("%s: an entry of somebody else is written over: %v", c.host, err)
		}
		apply(t, c.before)(h.Uninstall(path, "runnel", records))
		if after := content(t, path); after != c.after {
			t.Errorf("%s:\n%s\nafter\n%s\nwant\n%s", c.host, c.before, after, c.after)
		}
		if kept := content(t, records.Backup(path, "runnel")); kept != c.before {
			t.Errorf("%s: the backup is %q", c.host, kept)
		}
	}
}

// The member that install has made goes with the last entry, also when the host has written the file anew.
// The entry is still install's own, and no copy of it is kept; that of the file as it was before install
// stays until then.
func TestUninstallAfterTheHostHasWritten(t *testing.T) {
	dir := t.TempDir()
	path, records := filepath.Join(dir, "file"), Records(filepath.Join(dir, "records"))
	h := Find("claude-code")
	write(t, path, `{"a":1}`)
	apply(t, `{"a":1}`)(h.Install(path, "runnel", server, records, 0o600))
	values, err := h.format.decode([]byte(content(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	values["b"] = 2
	write(t, path, quote(values))
	other := server
	other.Args = nil
	if c, err := h.Install(path, "runnel", other, records, 0o600); err != nil || c.Backup != "" {
		t.Errorf("install would keep an entry of its own in %q: %v", c.Backup, err)
	}
	apply(t, quote(values))(h.Uninstall(path, "runnel", records))
	if got := content(t, path); got != `{"a":1,"b":2}` {
		t.Error(got)
	}
	if left, _ := os.ReadDir(string(records)); len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("records are left: %v", left)
	}
}

// So it does with the last of two, whichever that is, also when one of them was installed anew meanwhile. A
// file that was not there is gone.
func TestUninstallTwo(t *testing.T) {
	for _, h := range Table {
		for name, between := range map[string]func(path string, records Records){
			"nothing": func(string, Records) {},
			"the host writes": func(path string, _ Records) {
				if values, err := h.format.decode([]byte(content(t, path))); err == nil &&
					h.format == (jsonText{}) {
					write(t, path, quote(values))
				}
			},
			"the first again": func(path string, records Records) {
				other := server
				other.Args = nil
				apply(t, "")(h.Install(path, "runnel", other, records, 0o600))
			},
		} {
			dir := t.TempDir()
			path, records := filepath.Join(dir, "a", "file"), Records(filepath.Join(dir, "records"))
			apply(t, "")(h.Install(path, "runnel", server, records, 0o600))
			apply(t, "")(h.Install(path, "second", server, records, 0o600))
			between(path, records)
			apply(t, "")(h.Uninstall(path, "runnel", records))
			apply(t, "")(h.Uninstall(path, "second", records))
			text, _ := os.ReadFile(path)
			if values, err := h.format.decode(text); err != nil || len(values) > 0 {
				t.Errorf("%s, %s: %v, left:\n%s", h.ID, name, err, text)
			}
			if _, err := os.Stat(filepath.Dir(path)); name == "nothing" && err == nil {
				t.Errorf("%s: the file that was not there: %q", h.ID, text)
			}
			if left, _ := os.ReadDir(string(records)); h.format == (jsonText{}) && len(left) != 1 {
				t.Errorf("%s, %s: records are left: %v", h.ID, name, left)
			}
		}
	}
}

// Members that somebody has written into the entry are kept before install or uninstall takes it out.
func TestEntryChangedByHand(t *testing.T) {
	for _, before := range []string{"", "{\n  \"a\": 1\n}\n"} {
		dir := t.TempDir()
		path, records := filepath.Join(dir, "file"), Records(filepath.Join(dir, "records"))
		h := Find("claude-code")
		if before != "" {
			write(t, path, before)
		}
		apply(t, before)(h.Install(path, "runnel", server, records, 0o600))
		change := func() (changed string) {
			changed = strings.Replace(content(t, path), `"type": "stdio",`,
				`"type": "stdio", "alwaysAllow": ["mine"],`, 1)
			write(t, path, changed)
			return changed
		}
		other := server
		other.Args = nil
		changed := change()
		c, err := h.Install(path, "runnel", other, records, 0o600)
		apply(t, changed)(c, err)
		if c.Backup == "" || content(t, c.Backup) != changed {
			t.Errorf("install: %q does not keep\n%s", c.Backup, changed)
		}
		if c, err := h.Install(path, "runnel", server, records, 0o600); err != nil || c.Backup != "" {
			t.Errorf("an entry of install's own is kept in %q: %v", c.Backup, err)
		}
		changed = change()
		c, err = h.Uninstall(path, "runnel", records)
		apply(t, changed)(c, err)
		if c.Backup == "" || content(t, c.Backup) != changed {
			t.Errorf("uninstall: %q does not keep\n%s", c.Backup, changed)
		}
		if records.load(c.Path, "runnel") != nil {
			t.Error("the record is left")
		}
	}
}

// A comment within the entry is somebody's, too: it is kept, though the entry says the same.
func TestEntryWithAComment(t *testing.T) {
	path, records := filepath.Join(t.TempDir(), "file"), Records(t.TempDir())
	h := Find("zed")
	write(t, path, "{\n}\n")
	apply(t, "")(h.Install(path, "runnel", server, records, 0o600))
	changed := strings.Replace(content(t, path), `"command"`, `/* mine */ "command"`, 1)
	write(t, path, changed)
	c, err := h.Uninstall(path, "runnel", records)
	apply(t, changed)(c, err)
	if c.Backup == "" || content(t, c.Backup) != changed {
		t.Errorf("%q does not keep\n%s", c.Backup, changed)
	}
}

// A file that cannot be read, or that a simple edit would damage, stays as it is, and the error says what is
// wrong with it.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ host, text, want string }{
		{"claude-code", "{", "unexpected EOF"},
		{"claude-code", "{\"a\": 1, // comment\n}", "reads plain JSON"},
		{"claude-code", "[]", "not a JSON object"},
		{"claude-code", `{"mcpServers": []}`, "list of servers"},
		{"claude-code", `{"a": 1, "a": 2}`, "twice"},
		{"zed", "{\n  \"a\": \n}", "line 3"},
		{"codex", "a = \n", "line 1"},
		{"codex", "mcp_servers = { other = { command = \"x\" } }\n", "no room for a simple edit"},
		{"codex", "[[mcp_servers]]\n", "list of servers"},
		{"goose", "a: [\n", "line"},
		{"goose", "- a\n", "mapping"},
		{"goose", "extensions: [a]\n", "list of servers"},
		{"goose", "a: 1\n...\n", "no room for a simple edit"},
	} {
		h := Find(c.host)
		path := filepath.Join(t.TempDir(), "file")
		write(t, path, c.text)
		_, err := h.Install(path, "runnel", server, Records(t.TempDir()), 0o600)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %q: %v, want %q", c.host, c.text, err, c.want)
		}
		if content(t, path) != c.text {
			t.Errorf("%s: %q was changed", c.host, c.text)
		}
	}
}

// Any text at all is edited so that taking the entry out gives it back, or it is refused.
func FuzzEdit(f *testing.F) {
	for kind, list := range texts {
		for _, text := range list {
			f.Add(formats[kind], strings.ReplaceAll(text, "KEY", Find(formats[kind]).key))
		}
	}
	f.Fuzz(func(t *testing.T, host, text string) {
		h := Find(host)
		if h == nil {
			return
		}
		all, err := h.entries([]byte(text))
		if _, has := all["runnel"]; has || err != nil {
			return
		}
		after, piece, err := h.with([]byte(text), "runnel", server)
		if err != nil {
			return
		}
		back, err := h.without(after, "runnel", &record{Piece: piece})
		if err != nil || string(back) != text {
			t.Errorf("%v\n%q\n%q", err, after, back)
		}
	})
}

func apply(t *testing.T, before string) func(*Change, error) {
	return func(c *Change, err error) {
		t.Helper()
		if err == nil {
			err = c.Apply()
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, before)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wrapped are entries as people and hosts write them, each of the server "files".
var wrapped = map[string]string{
	"claude-code":    "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"files\": {\n      \"type\": \"stdio\",\n      \"command\": \"npx\",\n      \"args\": [\n        \"-y\",\n        \"files-server\"\n      ],\n      \"env\": {\n        \"TOKEN\": \"x\"\n      }\n    }\n  },\n  \"projects\": {}\n}",
	"claude-desktop": "{\"mcpServers\":{\"other\":{\"command\":\"z\"},\"files\":{\"args\":[\"-y\",\"files-server\"],\"command\":\"npx\",\"env\":{\"TOKEN\":\"x\"}}}}\n",
	"cursor":         "{\r\n  // mine\r\n  \"mcpServers\": {\r\n    \"files\": { \"command\": \"npx\", /* as root */ \"args\": [\"-y\", \"files-server\"], \"env\": {\"TOKEN\": \"x\"}, },\r\n  }\r\n}\r\n",
	"vscode":         "{\n\t\"inputs\": [{\"type\": \"promptString\", \"id\": \"key\", \"password\": true}],\n\t\"servers\": {\n\t\t\"files\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"npx\", // Node\n\t\t\t\"args\": [\"-y\", \"files-server\"],\n\t\t\t\"env\": {\"TOKEN\": \"x\"},\n\t\t\t\"envFile\": \"${workspaceFolder}/.env\"\n\t\t}\n\t}\n}\n",
	"opencode":       "{\n  \"mcp\": {\n    \"files\": {\"type\": \"local\", \"command\": [\"npx\", \"-y\", \"files-server\"], \"environment\": {\"TOKEN\": \"x\"}, \"enabled\": true}\n  }\n}\n",
	"copilot":        "\ufeff{\"mcpServers\": {\"files\": {\"type\": \"local\", \"command\": \"npx\", \"args\": [\"-y\", \"files-server\"], \"env\": {\"TOKEN\": \"x\"}, \"tools\": [\"*\"]}}}",
	"gemini":         "{\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"files-server\"], \"env\": {\"TOKEN\": \"x\"}, \"trust\": true, \"timeout\": 1e4}}}",
}

// runnel is put before a server that is there, once, and taken away again. Everything else in the entry
// stays.
func TestWrap(t *testing.T) {
	runnel := Server{Command: "/usr/local/bin/runnel", Args: []string{"wrap", "--sync-wait", "20s"}}
	was := Server{Command: "npx", Args: []string{"-y", "files-server"}, Env: map[string]string{"TOKEN": "x"}}
	want := Server{Command: runnel.Command,
		Args: []string{"wrap", "--sync-wait", "20s", "--", "npx", "-y", "files-server"}, Env: was.Env}
	for id, before := range wrapped {
		h := Find(id)
		dir := t.TempDir()
		path, records := filepath.Join(dir, "file"), Records(filepath.Join(dir, "records"))
		write(t, path, before)
		for range 2 {
			apply(t, before)(h.Wrap(path, "files", runnel, records))
			after := content(t, path)
			if got, err := h.Servers([]byte(after)); err != nil || !same(got["files"], want) {
				t.Errorf("%s: %v, %+v\n%s", id, err, got["files"], after)
			}
			if again, err := h.Wrap(path, "files", runnel, records); err != nil || !again.Nothing() {
				t.Errorf("%s: it is wrapped twice: %v", id, err)
			}
			if _, err := h.Install(path, "files", server, records, 0o600); err == nil ||
				!strings.Contains(err.Error(), "one that runnel wraps") {
				t.Errorf("%s: install replaces it: %v", id, err)
			}
			apply(t, after)(h.Install(path, "runnel", server, records, 0o600))
			apply(t, content(t, path))(h.Uninstall(path, "runnel", records))
			apply(t, after)(h.Uninstall(path, "files", records))
			if got := content(t, path); got != before {
				t.Errorf("%s: before\n%q\nafter\n%q", id, before, got)
			}
		}
		// The entry was edited since.
		apply(t, before)(h.Wrap(path, "files", runnel, records))
		edited := strings.Replace(content(t, path), `"x"}`, `"y"}`, 1)
		edited = strings.Replace(edited, `"TOKEN": "x"`, `"TOKEN": "y"`, 1)
		write(t, path, edited)
		apply(t, edited)(h.Uninstall(path, "files", records))
		now := was
		now.Env = map[string]string{"TOKEN": "y"}
		if got, err := h.Servers([]byte(content(t, path))); err != nil || !same(got["files"], now) {
			t.Errorf("%s: %v, %+v", id, err, got["files"])
		}
	}
}

// What cannot be wrapped is refused with what to do, and the file stays.
func TestWrapRefuses(t *testing.T) {
	runnel := Server{Command: "/usr/local/bin/runnel", Args: []string{"wrap"}}
	for _, c := range []struct{ host, text, want string }{
		{"claude-code", `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}`,
			`it has no server "files"; there are: a, b`},
		{"claude-code", `{"mcpServers": {"files": {"type": "http", "url": "https://example.com/mcp"}}}`,
			"wrap --url URL"},
		{"claude-code", `{"mcpServers": {"files": {"command": "runnel", "args": ["--selftest"]}}}`,
			"runnel itself"},
		{"claude-code", `{"mcpServers": {`, "fix the file first"},
		{"codex", "[mcp_servers.files]\ncommand = \"npx\"\nargs = [\"a\"]\n",
			"write it yourself: /usr/local/bin/runnel wrap -- npx a"},
	} {
		path := filepath.Join(t.TempDir(), "file")
		write(t, path, c.text)
		for range 2 {
			if _, err := Find(c.host).Wrap(path, "files", runnel, Records(t.TempDir())); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.text, err, c.want)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, `{"mcpServers": {"files": {"command": "x"}}}`) // without arguments
	apply(t, content(t, path))(Find("cursor").Wrap(path, "files", runnel, Records(t.TempDir())))
	if got := content(t, path); got != `{"mcpServers": {"files": {"command": "/usr/local/bin/runnel", "args": ["wrap", "--", "x"]}}}` {
		t.Error(got)
	}
}
