package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The other rooms that each room may import. A new room must be added with its reason.
var rooms = map[string][]string{
	"runnel/internal/system":          {}, // what Unix and Windows do in different ways; all may import it
	"runnel/internal/shorten":         {}, // text made shorter between characters; all may import it
	"runnel/internal/signal":          {}, // what has happened is told; all may import it
	"runnel/internal/pause":           {}, // a wait that ends with its context; all may import it
	"runnel/rpc/mcp":                  {},
	"runnel/rpc/rawjson":              {}, // JSON text looked at without decoding it
	"runnel/rpc":                      {"runnel/rpc/mcp", "runnel/rpc/rawjson"},
	"runnel/rpc/http":                 {"runnel/rpc", "runnel/internal/headers", "runnel/internal/oauth", "runnel/rpc/mcp", "runnel/rpc/rawjson"},                                                                                            // the second way in, to the same server
	"runnel/internal/oauth":           {},                                                                                                                                                                                                    // which access tokens count
	"runnel/internal/oauth/oauthtest": {},                                                                                                                                                                                                    // an issuer of tokens for tests
	"runnel/internal/headers":         {"runnel/rpc/rawjson"},                                                                                                                                                                                // the headers that both sides must agree on
	"runnel/rpc/http/client":          {"runnel/rpc", "runnel/internal/headers", "runnel/rpc/mcp", "runnel/rpc/rawjson"},                                                                                                                     // the other side of it
	"runnel/partials":                 {"runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tools/text"},                                                                                                                                         // text knows nothing of tools
	"runnel/partials/tracker":         {"runnel/rpc/mcp", "runnel/rpc/rawjson"},                                                                                                                                                              // the client's half
	"runnel/tasks":                    {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tools/text"},                                                                                                        // what a task is, and what a state must do
	"runnel/tasks/files":              {"runnel/partials", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks"},                                                                                                                           // the files that a task has made
	"runnel/tasks/run":                {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/files", "runnel/tools/secrets", "runnel/tools/text"},                                          // text and secrets know nothing of tools
	"runnel/tasks/feed":               {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/run"},                                                                                         // what a client is sent about a call
	"runnel/tasks/methods":            {"runnel/internal/clients", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/run"},                                                                                 // the tasks/* methods of both eras
	"runnel/tasks/sqlite":             {"runnel/tasks", "runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson"},                                                                                                             // the state on disk
	"runnel/tasks/nats":               {"runnel/tasks", "runnel/tasks/engine", "runnel/partials", "runnel/rpc/mcp"},                                                                                                                          // the state of many machines
	"runnel/internal/natstest/node":   {},                                                                                                                                                                                                    // the program of one
	"runnel/internal/natstest":        {},                                                                                                                                                                                                    // servers of NATS that tests can kill
	"runnel/tasks/redis":              {"runnel/tasks", "runnel/tasks/engine", "runnel/partials", "runnel/rpc/mcp"},                                                                                                                          // another one
	"runnel/tasks/dynamodb":           {"runnel/tasks", "runnel/tasks/engine", "runnel/partials", "runnel/rpc", "runnel/rpc/mcp"},                                                                                                            // a third one
	"runnel/internal/dynatest":        {},                                                                                                                                                                                                    // a server of it for tests
	"runnel/tasks/engine":             {"runnel/tasks", "runnel/partials", "runnel/rpc/mcp"},                                                                                                                                                 // what states that are servers share
	"runnel/internal/enginetest":      {"runnel/tasks", "runnel/tasks/run", "runnel/tasks/engine", "runnel/tasks/statetest", "runnel/partials", "runnel/rpc/mcp"},                                                                            // what each of them must do
	"runnel/tasks/logs":               {"runnel/tasks", "runnel/tasks/files", "runnel/tasks/run", "runnel/tasks/feed", "runnel/tasks/methods", "runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tools/text"}, // text knows nothing of tools
	"runnel/tasks/statetest":          {"runnel/tasks", "runnel/tasks/files", "runnel/tasks/run", "runnel/partials", "runnel/rpc", "runnel/rpc/mcp"},                                                                                         // what every state must do
	"runnel/tools/sandbox/shim":       {},
	"runnel/tools/sandbox":            {"runnel/tools/sandbox/shim"},                                                                                                                                                                                                           // what a child may do; it knows nothing of tools
	"runnel/tools/proxy":              {},                                                                                                                                                                                                                                      // the network of a child that has none of its own; it knows nothing of tools
	"runnel/tools/process":            {"runnel/tools/sandbox"},                                                                                                                                                                                                                // a child, its family and its guard; it knows nothing of tools
	"runnel/internal/processtest":     {},                                                                                                                                                                                                                                      // children for tests, and that none is left
	"runnel/tools/schema":             {"runnel/rpc/rawjson"},                                                                                                                                                                                                                  // checks JSON values; it knows nothing of tools
	"runnel/tools/config/strict":      {},                                                                                                                                                                                                                                      // YAML to structs, with places
	"runnel/tools/config":             {"runnel/tools/config/strict", "runnel/partials", "runnel/rpc", "runnel/rpc/http", "runnel/rpc/mcp", "runnel/tasks", "runnel/tools/process", "runnel/tools/proxy", "runnel/tools/sandbox", "runnel/tools/text", "runnel/tools/secrets"}, // what a config file can say
	"runnel/tools/secrets":            {"runnel/rpc/rawjson"},                                                                                                                                                                                                                  // what must not be shown; it knows nothing of tools
	"runnel/tools/text":               {},                                                                                                                                                                                                                                      // UTF-8, and how text is shaped for a model; it knows nothing of tools, and tasks/logs may import it
	"runnel/internal/clients":         {},                                                                                                                                                                                                                                      // what is known about each client; it knows nothing of tools
	"runnel/tools/remote":             {"runnel/tasks", "runnel/rpc", "runnel/partials/tracker", "runnel/rpc/mcp", "runnel/rpc/rawjson"},
	"runnel/tools/terminal":           {"runnel/tools/text"}, // the terminal of a command: its keys, its screen
	"runnel/tools":                    {"runnel/tools/terminal", "runnel/partials", "runnel/partials/tracker", "runnel/rpc", "runnel/rpc/http", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/files", "runnel/tasks/run", "runnel/tasks/feed", "runnel/tasks/methods", "runnel/tasks/logs", "runnel/internal/clients", "runnel/internal/term", "runnel/tools/config", "runnel/tools/process", "runnel/tools/schema", "runnel/tools/text", "runnel/tools/secrets"},
	"runnel/tools/toolstest":          {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/run", "runnel/tasks/methods", "runnel/tools"}, // a call of a tool in a test
	"runnel/tools/command":            {"runnel/tools/terminal", "runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tools", "runnel/tools/artifacts", "runnel/tools/config", "runnel/tools/process", "runnel/tools/proxy", "runnel/tools/sandbox", "runnel/tools/schema", "runnel/tools/text", "runnel/tools/secrets"},
	"runnel/tools/artifacts":          {"runnel/rpc/mcp", "runnel/tasks", "runnel/tasks/files", "runnel/tools", "runnel/tools/config", "runnel/tools/secrets", "runnel/tools/text"},                                   // the files that a command has made
	"runnel/tools/notify":             {"runnel/rpc/http/client", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tools/config", "runnel/tools/process", "runnel/tools/secrets", "runnel/tools/text"}, // who is told of the end of a task
	"runnel/internal/detach":          {"runnel/tools/notify", "runnel/tasks/run", "runnel/tasks/sqlite", "runnel/tools", "runnel/tools/command", "runnel/tools/process", "runnel/tools/secrets"},
	"runnel/tools/upstream":           {"runnel/partials/tracker", "runnel/rpc", "runnel/rpc/http/client", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/run", "runnel/tasks/logs", "runnel/tools", "runnel/tools/config", "runnel/tools/process", "runnel/tools/proxy", "runnel/tools/sandbox", "runnel/tools/remote", "runnel/tools/text", "runnel/tools/secrets"},
	"runnel/tools/view":               {"runnel/partials", "runnel/rpc", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tasks/run", "runnel/tasks/logs", "runnel/tools", "runnel/tools/text", "runnel/tools/view/page"}, // what the page of the live view lives on
	"runnel/internal/selftest":        {"runnel/tools", "runnel/rpc", "runnel/rpc/mcp"},
	"runnel/tools/view/page":          {}, // the HTML page of the live view

	"runnel/internal/term":    {"runnel/rpc/mcp", "runnel/tools/text"},                                                                                  // all that a person sees
	"runnel/internal/top":     {"runnel/internal/term", "runnel/partials", "runnel/rpc/mcp", "runnel/rpc/rawjson", "runnel/tasks", "runnel/tools/text"}, // the screen of runnel top
	"runnel/internal/trace":   {"runnel/internal/term", "runnel/partials/tracker", "runnel/rpc/mcp", "runnel/tools/process", "runnel/tools/secrets"},    // the record of a session
	"runnel/internal/hosts":   {},                                                                                                                       // which file of a host names its servers, and how that is edited; it knows nothing of runnel
	"runnel/internal/propose": {},                                                                                                                       // which tools the manifest files of a project ask for
	"runnel/internal/manual":  {},                                                                                                                       // the pages of runnel help
	"runnel/internal/trust":   {"runnel/internal/term", "runnel/tools/config"},                                                                          // which config files a user trusts
	"runnel/internal/metrics": {"runnel/rpc/http", "runnel/rpc/mcp", "runnel/tasks"},                                                                    // what monitoring asks for
	"runnel/internal/stdio":   {},                                                                                                                       // the pipes of a host
	"runnel/internal/serve":   nil,                                                                                                                      // it may import all of the above
	"runnel/internal/doctor":  nil,                                                                                                                      // whether runnel can work here
	"runnel/internal/cli":     nil,                                                                                                                      // so may this
	"runnel/internal/e2e":     {},                                                                                                                       // tests alone
	"runnel":                  {"runnel/internal/cli"},

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
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").CombinedOutput()
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
			case path == "runnel/internal/system", path == "runnel/internal/shorten", path == "runnel/internal/pause", path == "runnel/internal/signal":
			case first == "runnel" && allowed != nil && !slices.Contains(allowed, path):
				t.Errorf("%s imports %s", room, path)
			case room == "runnel/rpc/mcp" && strings.Contains(first, "."):
				t.Errorf("%s imports %s: it may import the standard library only", room, path)
			}
		}
	}
}
