package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"runnel/internal/dynatest"
)

// Two runnels on one table of DynamoDB. Its credentials stand in no output and no log.
func TestDynamoDBState(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	var built buildOnce
	program := built.program(t, "runnel-dynamodb", "-tags", "dynamodb")
	url := "dynamodb://" + dynatest.Table + "?region=test&endpoint=" + s.Endpoint
	env := append(append(environ(t), dynatest.Environ()...), "RUNNEL_STATE="+url)
	shareState(t, program, env)

	run := func(says string, env []string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = env
		out, _ := cmd.CombinedOutput()
		if !strings.Contains(string(out), says) || strings.Contains(string(out), "s3cret") {
			t.Errorf("%q: %s", args, out)
		}
	}
	plain := append(env, noConfig)
	run("ok     state: "+url+": ", plain, "doctor")
	run("there is no table other here",
		append(plain, "RUNNEL_STATE="+strings.Replace(url, dynatest.Table, "other", 1)), "doctor")
	run("its region is not known",
		append(plain, "RUNNEL_STATE=dynamodb://runnel?endpoint="+s.Endpoint), "doctor")
	run("there are no AWS credentials", append(plain, "AWS_ACCESS_KEY_ID="), "doctor")
	inURL := append(plain, "RUNNEL_STATE=dynamodb://key:s3cret@runnel?region=test")
	for _, args := range [][]string{{"doctor"}, {"tasks", "list"}, {"config", "show"}, {"call", "echo"}} {
		run("", inURL, args...)
	}
	run("the URL of a state holds no credentials", inURL, "tasks", "list")

	config := writeConfig(t, "tools: {build: {runs: builds}}\n")
	run("tools.build.runs: workers are found through a state on NATS, and tasks live elsewhere here",
		env, config...)
	config = writeConfig(t, "tools: {build: {runs: builds, command: [make]}}\n")
	run("name it with --state nats://HOST:4222", env, append([]string{"work"}, config...)...)
	run("name it with --state nats://HOST:4222", plain, "fleet")
}

// A program that was built without DynamoDB says which one has it.
func TestWithoutDynamoDB(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(builtProgram(t), "tasks", "list", "--state", "dynamodb://runnel")
	cmd.Env = append(environ(t), noConfig)
	if out, err := cmd.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "go build -tags dynamodb") {
		t.Errorf("%v: %s", err, out)
	}
}
