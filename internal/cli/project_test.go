package cli

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// In a directory of a repository, runnel finds the runnel.yaml nearest above, up to the repository's root,
// and asks for trust as ever.
func TestConfigOfTheProject(t *testing.T) {
	_, run := inHome(t)
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	where := func(dir string) string {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "runnel.yaml")
		if err := os.WriteFile(file, []byte("tools: {where: {command: [pwd]}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	where(root)
	repo := filepath.Join(root, "repo")
	file := where(repo)
	deep := filepath.Join(repo, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	// No repository.
	run("call", "where", "--state", "memory").is(t, exitFailure, "", `there is no tool "where"`)
	if err := os.Mkdir(filepath.Join(repo, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	run("call", "where", "--state", "memory").
		is(t, exitFailure, "", file+" is not used: it is not trusted yet")
	run("trust").is(t, exitFine, "tools: .*", "trusted until it changes: "+file)
	for range 2 {
		run("call", "where", "--state", "memory").is(t, exitFine, repo+"\n", "")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	run("trust", ".").is(t, exitUsage, "", "there is no runnel.yaml")
	// The one above the repository does not count.
	run("trust").is(t, exitUsage, "", "there is no runnel.yaml")
	near := where(filepath.Join(repo, "a"))
	run("trust").is(t, exitFine, "tools: .*", "trusted until it changes: "+near)
	run("call", "where", "--state", "memory").is(t, exitFine, filepath.Dir(near)+"\n", "")
	run("config", "check").is(t, exitFine, near+".*", "")
	if err := os.Mkdir("runnel.yaml", 0o700); err != nil { // which is not a config
		t.Fatal(err)
	}
	for range 2 { // a directory is its file
		run("call", "where", "--state", "memory").is(t, exitFine, filepath.Dir(near)+"\n", "")
		run("call", "where", "--state", "memory", "--config", "..").
			is(t, exitFine, filepath.Dir(near)+"\n", "")
		run("config", "check", "..").is(t, exitFine, "../runnel.yaml.*", "")
		run("tools", "--config", repo).is(t, exitUsage, "", "--config: there is no config file "+file)
		run("trust", "--remove", "..").is(t, exitFine, "", `no longer trusted: ../runnel.yaml \(a server .*\)\n`)
		run("trust", "..").is(t, exitFine, "tools: .*", "trusted until it changes: "+near)
	}
}

// What the config says of HTTP, of metrics and of the log counts for a server, if the file is trusted; flags
// and --set win over it. Other commands open no port.
func TestServerOfTheConfig(t *testing.T) {
	_, run := inHome(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address := taken.Addr().String()
	config := "http: {addr: " + address + ", noStdio: true}\nmetrics: " + address +
		"\nlog: {level: error}\ntools: {a: {command: [echo, here]}}\n"
	if err := os.WriteFile("runnel.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		const unused = `^runnel: \S*runnel.yaml is not used: it is not trusted yet. Read it, then run: runnel trust \S+\n`
		run("tools", "--state", "memory").is(t, exitFailure, "", unused+"$")
		run("tools", "--state", "memory", "-o", "json").is(t, exitFailure, `\{"tools":\[\]\}\n`, unused+"$")
		// Runnel's own.
		run("tools", "--state", "memory", "--protocol=2025-06-18").
			is(t, exitFailure, "cancel_task .*", unused+"$")
		// The tools of flags are listed, since they were asked for.
		run("tools", "--state", "memory", "--tool", "b=true").is(t, exitFine, "b .*", unused+"$")
		run("tools", "a", "--state", "memory").
			is(t, exitFailure, "", unused+
				`runnel: there is no tool "a", nor any other, while the project's runnel.yaml is not used\n$`)
		run("call", "a", "--state", "memory").
			is(t, exitFailure, "", unused+
				`runnel: there is no tool "a", nor any other, while the project's runnel.yaml is not used\n$`)
		run("doctor", "--state", "memory").
			is(t, exitFailure, `.*WRONG  config: \S+ is not used: it is not trusted yet.*`, "")
		run("serve", "--state", "memory").
			is(t, exitFine, "", `^runnel: \S*runnel.yaml is not used: it is not trusted yet[^\n]*\n[^\n]*"serving"[^\n]*\n$`)
	}
	run("trust").is(t, exitFine, "http: .*", "trusted until it changes")
	for range 2 {
		run("call", "a", "--state", "memory").is(t, exitFine, "here\n", "")
		run("serve", "--state", "memory").
			is(t, exitFailure, "", `^runnel: runnel.yaml:1:8: http.addr: listen tcp `+address+`: .*\n`)
		run("serve", "--state", "memory", "--http=:0", "--no-stdio=false", "--set=log.level=info").
			is(t, exitFine, "", `"metrics are not served".*\n.*"serving HTTP"`)
		run("serve", "--state", "memory", "--set=http={addr: ':0', noStdio: false}", "--metrics=:0").
			is(t, exitFine, "", "")
		run("serve", "--state", "memory", "--set=http.addr=:0", "--no-stdio=false", "--http="+address).
			is(t, exitFailure, "", `^runnel: --http: listen tcp `+address)
	}
}

// A file that the variable names needs no trust, and config check does not ask for it.
func TestCheckOfANamedConfig(t *testing.T) {
	_, run := inHome(t, "RUNNEL_CONFIG=runnel.yaml")
	if err := os.WriteFile("runnel.yaml", []byte("tools: {a: {command: [echo, ran]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		run("config", "check").is(t, exitFine, `runnel\.yaml: fine, 1 tool\n.*`, "")
		run("config", "check", "runnel.yaml").is(t, exitFine, `runnel\.yaml: fine, .*`,
			"Unless you name it with --config")
		run("call", "a", "--state", "memory").is(t, exitFine, "ran\n", "")
	}
}
