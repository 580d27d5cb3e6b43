package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The other rooms that each room may import. A new room must be added with its reason.
var rooms = map[string][]string{
	"runnel/internal/system":  {}, // what Unix and Windows do in different ways; all may import it
	"runnel/internal/shorten": {}, // text made shorter between characters; all may import it
	"runnel/internal/signal":  {}, // what has happened is told; all may import it
	"runnel/internal/pause":   {}, // a wait that ends with its context; all may import it
	"runnel/rpc/mcp":          {},
	"runnel/rpc/rawjson":      {}, // JSON text looked at without decoding it
	"runnel/rpc":              {"runnel/rpc/mcp", "runnel/rpc/rawjson"},
	// The second way in, to the same server.
	"runnel/rpc/http": {"runnel/rpc", "runnel/internal/headers", "runnel/internal/oauth",
		"runnel/rpc/mcp", "runnel/rpc/rawjson"},
	// Which access tokens count.
	"runnel/internal/oauth": {},
	// An issuer of tokens for tests.
	"runnel/internal/oauth/oauthtest": {},
	// The headers that both sides must agree on.
	"runnel/internal/headers": {"runnel/rpc/rawjson"},
	// Streams of events, of servers of MCP and of models.
	"runnel/internal/sse": {},
	// The other side of it.
	"runnel/rpc/http/client": {"runnel/rpc", "runnel/internal/headers", "runnel/internal/sse", "runnel/rpc/mcp",
		"runnel/rpc/rawjson"},
	// Text knows nothing of tools.
	"runnel/partials": {"runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tools/text"},
	// The client's half.
	"runnel/partials/tracker": {"runnel/rpc/mcp", "runnel/rpc/rawjson"},
	// What a task is, and what a state must do.
	"runnel/tasks": {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tools/text"},
	// The files that a task has made.
	"runnel/tasks/files": {"runnel/partials", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tasks"},
	// Text, secrets and schemas know nothing of tools.
	"runnel/tasks/run": {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tasks", "runnel/tasks/files", "runnel/tools/schema", "runnel/tools/secrets", "runnel/tools/text"},
	// What a client is sent about a call.
	"runnel/tasks/feed": {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tasks", "runnel/tasks/run"},
	// The tasks/* methods of both eras.
	"runnel/tasks/methods": {"runnel/internal/clients", "runnel/rpc", "runnel/rpc/mcp",
		"runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/run"},
	// The state on disk.
	"runnel/tasks/sqlite": {"runnel/tasks", "runnel/partials", "runnel/rpc", "runnel/rpc/mcp",
		"runnel/rpc/rawjson"},
	// The state of many machines.
	"runnel/tasks/nats": {"runnel/tasks", "runnel/tasks/engine", "runnel/partials",
		"runnel/rpc/mcp"},
	// The program of one.
	"runnel/internal/natstest/node": {},
	// Servers of NATS that tests can kill.
	"runnel/internal/natstest": {},
	// Another one.
	"runnel/tasks/redis": {"runnel/tasks", "runnel/tasks/engine", "runnel/partials",
		"runnel/rpc/mcp"},
	// A third one.
	"runnel/tasks/dynamodb": {"runnel/tasks", "runnel/tasks/engine", "runnel/partials", "runnel/rpc",
		"runnel/rpc/mcp"},
	// A server of it for tests.
	"runnel/internal/dynatest": {},
	// What states that are servers share.
	"runnel/tasks/engine": {"runnel/tasks", "runnel/partials", "runnel/rpc/mcp"},
	// What each of them must do.
	"runnel/internal/enginetest": {"runnel/tasks", "runnel/tasks/run", "runnel/tasks/engine",
		"runnel/tasks/statetest", "runnel/partials", "runnel/rpc/mcp"},
	// Text knows nothing of tools.
	"runnel/tasks/logs": {"runnel/tasks", "runnel/tasks/files", "runnel/tasks/run",
		"runnel/tasks/feed", "runnel/tasks/methods", "runnel/partials", "runnel/rpc", "runnel/rpc/mcp",
		"runnel/rpc/rawjson", "runnel/tools/text"},
	// What every state must do.
	"runnel/tasks/statetest": {"runnel/tasks", "runnel/tasks/files", "runnel/tasks/run",
		"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson"},
	// States for the tests of others.
	"runnel/tasks/statetest/fake": {"runnel/tasks"},
	"runnel/tools/sandbox/shim":   {},
	// What a child may do; it knows nothing of tools.
	"runnel/tools/sandbox": {"runnel/tools/sandbox/shim"},
	// The network of a child that has none of its own; it knows nothing of tools.
	"runnel/tools/proxy": {},
	// A child, its family and its guard; it knows nothing of tools.
	"runnel/tools/process": {"runnel/tools/sandbox"},
	// Children for tests, and that none is left.
	"runnel/internal/processtest": {},
	// Checks JSON values; it knows nothing of tools.
	"runnel/tools/schema": {"runnel/rpc/rawjson"},
	// YAML to structs, with places.
	"runnel/tools/config/strict": {},
	// What a config file can say.
	"runnel/tools/config": {"runnel/tools/config/strict", "runnel/partials", "runnel/rpc",
		"runnel/rpc/http", "runnel/rpc/mcp", "runnel/tasks", "runnel/tools/process", "runnel/tools/proxy",
		"runnel/tools/sandbox", "runnel/tools/text", "runnel/tools/secrets"},
	"runnel/tools/secrets": {"runnel/rpc/rawjson"}, // what must not be shown; it knows nothing of tools
	// UTF-8, and how text is shaped for a model; it knows nothing of tools, and tasks/logs may import it.
	"runnel/tools/text":       {},
	"runnel/internal/clients": {}, // what is known about each client; it knows nothing of tools
	"runnel/tools/remote": {"runnel/tasks", "runnel/rpc", "runnel/partials/tracker", "runnel/rpc/mcp",
		"runnel/rpc/rawjson"},
	// The terminal of a command: its keys, its screen, as a log has it.
	"runnel/tools/terminal": {"runnel/partials", "runnel/tools/text"},
	// The page at which a person types a password.
	"runnel/tools/askpass": {"runnel/rpc/http"},
	// What a model is shown of a task; it knows nothing of tools.
	"runnel/tools/reading": {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tasks", "runnel/tasks/run", "runnel/tools/secrets", "runnel/tools/terminal", "runnel/tools/text"},
	// The tools by which a model uses tasks; it knows nothing of other tools.
	"runnel/tools/fallback": {"runnel/rpc", "runnel/rpc/mcp", "runnel/tasks", "runnel/tasks/run",
		"runnel/tools/reading", "runnel/tools/terminal", "runnel/tools/text"},
	"runnel/tools": {"runnel/tools/askpass", "runnel/tools/fallback", "runnel/tools/reading", "runnel/tools/terminal", "runnel/partials", "runnel/partials/tracker",
		"runnel/rpc", "runnel/rpc/http", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks",
		"runnel/tasks/files", "runnel/tasks/run", "runnel/tasks/feed", "runnel/tasks/methods",
		"runnel/tasks/logs", "runnel/internal/clients", "runnel/internal/term", "runnel/tools/config",
		"runnel/tools/process", "runnel/tools/schema", "runnel/tools/text", "runnel/tools/secrets"},
	// A call of a tool in a test.
	"runnel/tools/toolstest": {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tasks", "runnel/tasks/run", "runnel/tasks/methods", "runnel/tools"},
	// The arguments of a config's tool, and the texts that they fill.
	"runnel/tools/inputs": {"runnel/rpc/rawjson", "runnel/tools", "runnel/tools/config", "runnel/tools/schema"},
	"runnel/tools/command": {"runnel/tools/inputs", "runnel/tools/terminal", "runnel/partials", "runnel/rpc", "runnel/rpc/mcp",
		"runnel/rpc/rawjson", "runnel/tasks", "runnel/tools", "runnel/tools/artifacts", "runnel/tools/config",
		"runnel/tools/process", "runnel/tools/proxy", "runnel/tools/sandbox", "runnel/tools/schema",
		"runnel/tools/text", "runnel/tools/secrets"},
	// A language model behind a tool.
	"runnel/tools/model": {"runnel/internal/headers", "runnel/internal/sse", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tasks", "runnel/tasks/run", "runnel/tools", "runnel/tools/artifacts", "runnel/tools/config",
		"runnel/tools/inputs", "runnel/tools/schema", "runnel/tools/secrets", "runnel/tools/text"},
	// Providers of models for tests and for an example.
	"runnel/internal/modeltest": {},
	// What the clock starts.
	"runnel/tools/every": {"runnel/rpc/mcp", "runnel/tasks", "runnel/tasks/run", "runnel/tools/config",
		"runnel/tools/schema"},
	// Tools that are made of others.
	"runnel/tools/steps": {"runnel/partials", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks",
		"runnel/tools", "runnel/tools/config", "runnel/tools/config/strict", "runnel/tools/inputs",
		"runnel/tools/text"},
	// The files that a command has made.
	"runnel/tools/artifacts": {"runnel/rpc/mcp", "runnel/tasks", "runnel/tasks/files", "runnel/tools",
		"runnel/tools/config", "runnel/tools/secrets", "runnel/tools/text"},
	// Who is told of the end of a task.
	"runnel/tools/notify": {"runnel/rpc/http/client", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tasks", "runnel/tools/config", "runnel/tools/process", "runnel/tools/secrets",
		"runnel/tools/text"},
	"runnel/internal/detach": {"runnel/tools/notify", "runnel/tasks/run", "runnel/tasks/sqlite",
		"runnel/tools", "runnel/tools/command", "runnel/tools/process", "runnel/tools/secrets"},
	"runnel/tools/upstream": {"runnel/partials/tracker", "runnel/rpc", "runnel/rpc/http/client",
		"runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/run", "runnel/tasks/logs",
		"runnel/tools", "runnel/tools/config", "runnel/tools/process", "runnel/tools/proxy",
		"runnel/tools/sandbox", "runnel/tools/remote", "runnel/tools/text", "runnel/tools/secrets"},
	// What the page of the live view lives on.
	"runnel/tools/view": {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson",
		"runnel/tasks", "runnel/tasks/files", "runnel/tasks/run", "runnel/tasks/logs", "runnel/tools",
		"runnel/tools/terminal", "runnel/tools/text", "runnel/tools/view/page"},
	"runnel/internal/selftest": {"runnel/tools", "runnel/rpc", "runnel/rpc/mcp"},
	"runnel/tools/view/page":   {}, // the HTML page of the live view

	// All that a person sees.
	"runnel/internal/term": {"runnel/rpc/mcp", "runnel/tools/text"},
	// The screen of runnel top.
	"runnel/internal/top": {"runnel/internal/term", "runnel/partials", "runnel/rpc/mcp",
		"runnel/rpc/rawjson", "runnel/tasks", "runnel/tools/text"},
	// The record of a session.
	"runnel/internal/trace": {"runnel/internal/term", "runnel/partials/tracker", "runnel/rpc/mcp",
		"runnel/tools/process", "runnel/tools/secrets"},
	// Which file of a host names its servers, and how that is edited; it knows nothing of runnel.
	"runnel/internal/hosts": {},
	// Which tools the manifest files of a project ask for.
	"runnel/internal/propose": {},
	// The pages of runnel help.
	"runnel/internal/manual": {},
	// Which config files a user trusts.
	"runnel/internal/trust": {"runnel/internal/term", "runnel/tools/config"},
	// What monitoring asks for.
	"runnel/internal/metrics": {"runnel/rpc/http", "runnel/rpc/mcp", "runnel/tasks", "runnel/tasks/run"},
	// Workers, and the tools that they lend.
	"runnel/internal/fleet": {"runnel/internal/metrics", "runnel/rpc/rawjson", "runnel/tasks",
		"runnel/tasks/run", "runnel/tools", "runnel/tools/config", "runnel/tools/secrets",
		"runnel/tools/upstream"},
	"runnel/internal/stdio":  {},  // the pipes of a host
	"runnel/internal/serve":  nil, // it may import all of the above
	"runnel/internal/doctor": nil, // whether runnel can work here
	"runnel/internal/cli":    nil, // so may this
	"runnel/internal/e2e":    {},  // tests alone
	"runnel":                 {"runnel/internal/cli"},

	"runnel/internal/cmd/cast":  {}, // programs that build something for the repository
	"runnel/internal/cmd/count": {},
	"runnel/internal/cmd/man":   nil,
}

// The top level is main.go and folders.
func TestTopLevelIsMain(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || !slices.Equal(files, []string{"main.go"}) {
		t.Errorf("%q, %v", files, err)
	}
}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").
		CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		room, imports := fields[0], fields[1:]
		allowed, ok := rooms[room]
		if !ok {
			t.Errorf("%s is no room", room)
		}
		for _, path := range imports {
			first, _, _ := strings.Cut(path, "/")
			switch {
			case path == "runnel/internal/system", path == "runnel/internal/shorten",
				path == "runnel/internal/pause", path == "runnel/internal/signal":
			case first == "runnel" && allowed != nil && !slices.Contains(allowed, path):
				t.Errorf("%s imports %s", room, path)
			case room == "runnel/rpc/mcp" && strings.Contains(first, "."):
				t.Errorf("%s imports %s: it may import the standard library only", room, path)
			}
		}
	}
}

// The maps in main.go and in each doc.go stay true: a file that they name is there, and has the method that
// stands before it, as in "Runner.ttl (start.go)".
func TestMapsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	pages := []string{"main.go"}
	byName := map[string][]string{} // the paths of all files with a name
	for _, room := range []string{"rpc", "partials", "tasks", "tools", "internal"} {
		err := filepath.WalkDir(room, func(path string, d fs.DirEntry, err error) error {
			if name := filepath.Base(path); filepath.Ext(path) == ".go" {
				byName[name] = append(byName[name], path)
				if name == "doc.go" {
					pages = append(pages, path)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	named := regexp.MustCompile(`(?:\b[A-Za-z]\w*\.([A-Za-z]\w*) )?(^|[^\w*/])([a-z0-9][\w/]*\.go)\b`)
	checked := 0
	for _, page := range pages {
		for line := range strings.Lines(read(page)) {
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				method, file := m[1], m[3]
				paths := byName[file]
				own := filepath.Join(filepath.Dir(page), file)
				if _, err := os.Stat(file); err == nil { // from the top level
					paths = []string{file}
				} else if slices.Contains(paths, own) {
					paths = []string{own}
				} else if len(paths) == 0 ||
					page != "main.go" && !strings.Contains(line, "package") && !strings.Contains(line, "there)") {
					t.Errorf("%s names %s, which is not in its room:\n%s", page, file, line)
					continue
				}
				if !slices.ContainsFunc(paths, func(path string) bool {
					return regexp.MustCompile(`\b` + method + `\b`).MatchString(read(path))
				}) {
					t.Errorf("%s: %s has no %q:\n%s", page, file, method, line)
				}
				checked++
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d names of files were found", checked)
	}
}
