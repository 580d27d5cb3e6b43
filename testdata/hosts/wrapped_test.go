package hosts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// own are the names of files in which Claude Code and Goose keep a result that is too long for them.
var own = regexp.MustCompile(`\d{3}-project|\d{13}-[a-z0-9]{6}|goose_mcp_response_\w+`)

// Behind "runnel wrap --", a host's model reads of a server what it reads without runnel. Each call is made
// twice.
func TestWrapped(t *testing.T) {
	filesystem := install(t, Host{Name: "filesystem",
		Program: "@modelcontextprotocol/server-filesystem/dist/index.js"})
	reporters, err := filepath.Abs("reporters.mjs")
	if err != nil {
		t.Fatal(err)
	}
	servers := []struct {
		name    string
		command func(project string) []string
		calls   func(project string) []Call
		reads   string        // of the last call
		only    string        // the host; "": all
		limit   time.Duration // for the host's run; 0: the usual one, else it is long
	}{
		{
			// To Claude Code, which has roots, it shows those: it asks for them after initialized.
			name:    "filesystem",
			command: func(project string) []string { return []string{"node", filesystem, project} },
			calls: func(project string) []Call {
				return []Call{
					{Tool: "list_allowed_directories"},
					{Tool: "read_text_file", Args: object{"path": filepath.Join(project, "small.txt")}},
					// More than the host takes.
					{Tool: "read_text_file", Args: object{"path": filepath.Join(project, "large.txt")}},
					// An error.
					{Tool: "read_text_file", Args: object{"path": filepath.Join(project, "none.txt")}},
					{Tool: "read_text_file", Args: object{"path": "/etc/hostname"}}, // not allowed
					{Tool: "read_text_file", Args: object{"path": filepath.Join(project, "small.txt")}},
				}
			},
			reads: "a small file",
		},
		{
			name:    "own list_tasks",
			command: func(string) []string { return []string{"node", reporters} },
			calls:   func(string) []Call { return []Call{{Tool: "list_tasks"}} },
			reads:   "theirs: water the plants",
		},
		{
			name:    "silent",
			command: func(string) []string { return []string{"node", reporters} },
			calls:   func(string) []Call { return []Call{{Tool: "silent", Args: object{"seconds": 100}}} },
			reads:   "said at last",
			only:    "claude-code", // the others give up on the server itself
			limit:   5 * time.Minute,
		},
	}
	for _, h := range Hosts {
		if !h.Short || testing.Short() && h.Name != "claude-code" {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			program := install(t, h)
			for _, server := range servers {
				t.Run(server.name, func(t *testing.T) {
					if server.limit > 0 && testing.Short() {
						t.Skip("calls of 100 s: make hosts")
					}
					if server.only != "" && server.only != h.Name {
						t.Skipf("%s only", server.only)
					}
					t.Parallel()
					var read []string
					for _, wrapped := range []bool{false, true} {
						s := Scenario{Name: "wrapped " + server.name, NoGolden: true, Limit: server.limit}
						s.Server = func(binary, dir string) []string {
							project := filepath.Join(dir, "project")
							for name, text := range map[string]string{"small.txt": "a small file\n",
								"large.txt": strings.Repeat("a line of a large file\n", 26<<10)} {
								if err := os.WriteFile(filepath.Join(project, name), []byte(text),
									0o600); err != nil {
									t.Fatal(err)
								}
							}
							if !wrapped {
								return server.command(project)
							}
							return append([]string{binary, "wrap", "--state", filepath.Join(dir, "state"),
								"--"}, server.command(project)...)
						}
						s.Play = func(run *Run, results []Result) []Call {
							calls := server.calls(filepath.Join(run.Dir, "project"))
							if calls = append(calls, calls...); len(results) < len(calls) {
								return calls[len(results) : len(results)+1]
							}
							return nil
						}
						s.Check = func(run *Run) {
							if last := run.raw(len(run.Results) - 1); !strings.Contains(last, server.reads) {
								run.Errorf("wrapped %t: the model read %.300q", wrapped, last)
							}
							read = append(read, own.ReplaceAllString(run.Transcript(), "OWN"))
						}
						play(t, h, program, s, &figures{})
					}
					if len(read) == 2 && read[0] != read[1] {
						t.Errorf("the model read something else\n%s", difference(read[0], read[1]))
					}
				})
			}
		})
	}
}
