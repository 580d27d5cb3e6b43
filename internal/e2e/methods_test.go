package e2e

import (
	"flag"
	"os"
	"strings"
	"testing"

	"runnel/rpc"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/upstream"
)

var updateMethods = flag.Bool("update-methods", false, "rewrite testdata/methods.txt")

// testdata/methods.txt is the whole surface: every method that is served, with its era. What is not there is
// -32601.
func TestMethodsAreTheGoldenList(t *testing.T) {
	server := rpc.NewServer(nil)
	runner := run.NewRunner(run.Options{})
	defer runner.Close()
	methods.Register(server, runner)
	upstream.NewSet(&tools.Registry{}).Serve(server, runner, false, tools.ServeOptions{})
	got := strings.Join(server.Methods(), "\n") + "\n"
	const file = "testdata/methods.txt"
	if *updateMethods {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the methods are\n%s%s says\n%s(go test ./internal/e2e -run TestMethods -update-methods rewrites it)", got, file, want)
	}
}
