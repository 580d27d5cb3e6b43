package propose

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"runnel/internal/serve"
	"runnel/tools/config"
)

var update = flag.Bool("update", false, "write the proposals into testdata")

// unpack reads the files of an archive: "-- NAME --" begins each; what stands before is for the reader.
func unpack(t *testing.T, archive string) (remark string, files fstest.MapFS) {
	t.Helper()
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	header := regexp.MustCompile(`(?m)^-- (.+) --\n`)
	at := header.FindAllStringSubmatchIndex(string(text), -1)
	files = fstest.MapFS{}
	for n, m := range at {
		end := len(text)
		if n+1 < len(at) {
			end = at[n+1][0]
		}
		files[string(text[m[2]:m[3]])] = &fstest.MapFile{Data: text[m[1]:end], Mode: 0o644}
	}
	return string(text[:at[0][0]]), files
}

// For the manifest files of twenty well-known repositories, written afresh, the proposal is what stands at
// the end of each archive: read it as a maintainer would. All of it is a config without a mistake.
func TestWellKnownRepositories(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) != 20 {
		t.Fatalf("%v, %v", archives, err)
	}
	for _, archive := range archives {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			_, files := unpack(t, archive)
			want := ""
			if f := files[config.FileName]; f != nil {
				want = string(f.Data)
				delete(files, config.FileName)
			}
			got, from := Propose(files, "", testCaches)
			if len(from) == 0 {
				t.Fatal("nothing is proposed")
			}
			checkConfig(t, got)
			if got == want {
				return
			}
			if !*update {
				t.Fatalf("got (-update writes it)\n%s\nwant\n%s", got, want)
			}
			text, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			before, _, _ := strings.Cut(string(text), "-- runnel.yaml --\n")
			if err := os.WriteFile(archive, []byte(before+"-- runnel.yaml --\n"+got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// testCaches are the caches that are proposed in tests: each is named for its program.
func testCaches(program string) []string { return []string{"~/.cache/" + program} }

// checkConfig is what config check does.
func checkConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	conf, err := config.Parse(config.FileName, []byte(text))
	if err == nil {
		_, _, err = (&serve.Setup{Env: os.Environ()}).Registry(conf)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return conf
}

// The user is asked before what deploys or deletes, and before nothing else; what never ends is not a tool,
// unless it is a server that says when it listens.
func TestJudge(t *testing.T) {
	for name, want := range map[string]string{
		"deploy": "asks", "deploy-staging": "asks", "docs:deploy": "asks", "db:reset": "asks",
		"clean": "asks", "distclean": "asks", "release": "asks", "publish": "asks",
		"install": "asks", "install-deps": "runs", "db-migrate": "asks", "test": "runs", "build": "runs",
		"build-release": "runs", "test:install": "runs", "cleanup-check": "runs", "lint:fix": "runs",
		"build:w": "no", "bump": "asks", "version:patch": "asks", "dev": "no", "start": "no",
		"test:watch": "no", "docs-serve": "no", "build:dev": "runs", "help": "no", "_x": "no",
		"prepare": "no", "{{x}}": "no", "server": "no",
	} {
		got := "no"
		if tool, ok := judge(Tool{}, name, ""); ok && tool.leftOut == "" && tool.Confirm {
			got = "asks"
		} else if ok && tool.leftOut == "" {
			got = "runs"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for body, want := range map[string]string{
		"vite": "Local", "vite --port 3000": "Local", "npx vite --host && x": "Local", "vite build": "",
		"vite build --watch": "", "next dev": "Local", "nuxt dev": "Local",
		"cross-env A=1 webpack serve --open": "Loopback",
		"python manage.py runserver":         "Starting", "bin/rails s -p 3000": "istening",
		"flask run": "unning", "vitest": "", "vitest --watch": "", "hugo serve": "Web Server",
		"nodemon x.js": "",
	} {
		if ready := readyOf(body); (want == "") != (ready == "") || !strings.Contains(ready, want) {
			t.Errorf("%s: %q, want %q", body, ready, want)
		}
	}
	for body, want := range map[string]bool{"vitepress dev docs": true, "tsc --watch": false,
		"vite build": true, "jest --watch=false": true,
		"rollup -c -w -m inline": false, "tsc -b -w": false, "jest --watchAll": false,
		"jest --watchAll=false": true, "deno run -A --watch=static/,routes/ dev.ts": false,
		"tsx watch src/x.ts": false, "npx serve -p 8080": false, "servez .": false,
		"concurrently \"rollup -c\" \"servez -p 8080\"": false, "php -S localhost:80": true,
		"mix phx.server":        false,
		"python -m http.server": false, "uvicorn app:app": true, "pip install uvicorn": true,
		"grep -w x": true, "sass a.scss b.css": true,
	} {
		if tool, _ := judge(Tool{}, "docs", body); (tool.leftOut == "") != want {
			t.Errorf("%s: %q, want %v", body, tool.leftOut, want)
		}
	}
	for body, want := range map[string]bool{
		"kubectl apply -f x": true, "npm publish": true, "git push --tags": true,
		"docker buildx build --push .": true, "aws s3 sync build s3://x": true, "scp a host:": true,
		"docker compose down -v": true, "docker-compose -f x.yml down --volumes": true,
		"docker volume rm data": true, "git add . && git commit -m x": true, "git tag -a v1": true,
		"./deploy": true, "bash scripts/deploy.sh prod": true, "npx wrangler pages deploy": true,
		"mvn clean deploy": true, "sudo make install": true, "ssh host reboot": true,
		"rails db:drop db:create": true, "psql -c 'DROP TABLE a'": true,
		"curl -fsS -X DELETE https://x": true, "npm version patch": true, "poetry version minor": true,
		"bump-my-version bump patch": true, "bump2version minor": true,
		"./mvnw -B release:prepare": true, "./gradlew publish": true, "mix hex.publish": true,
		"cargo release": true, "cargo build --release": false, "mvn verify": false,
		"rm -rf ~/.cache": true, "rm -rf src": true, "rm -fr $DIR": true, "rm -r -f dist /srv/x": true,
		"rm -rf dist/../src": true, "rimraf data": true, "cd x; rm --recursive *": true,
		"rm -rf dist && tsc": false, "rm -rf ./dist .cache packages/*/dist *.tsbuildinfo; tsc": false,
		"rimraf coverage && jest": false, "rm -f a.txt": false,
		"git status": false, "git tag | tail -1": false, "git log": false, "npm run publisher": false,
		"docker build .": false, "docker compose up -d": false, "docker compose run --rm test": false,
		"mkdir -p deploy/x": false, "tsc -p deployment": false,
	} {
		if tool, _ := judge(Tool{}, "build", body); tool.Confirm != want {
			t.Errorf("%s: %v, want %v", body, tool.Confirm, want)
		}
	}
}

// The user is asked before what starts something else of the file that deploys or deletes, too, in whatever
// way and however far away.
func TestWhatOthersReach(t *testing.T) {
	for name, c := range map[string]struct{ text, asks, runs string }{
		"Makefile": {
			".PHONY: all push ci sub deep order x build first\nall: build push\nbuild: clean\n\tgcc\nclean:\n\trm -rf build\nci:\n\t@$(MAKE) deploy\n" +
				"sub:\n\tcd y && make -C z publish\ndeep: x # y\nx: all\norder: build | first\nfirst: order\n\thelm upgrade a b\n",
			"all ci sub deep x order first", "build",
		},
		"justfile": {"all: build (push 'x')\nbuild:\n    gcc\n_up:\n    git push\nlater: build && _up\nci:\n    just --quiet all\n", "all later ci", "build"},
		"Taskfile.yml": {
			"tasks:\n  all: {deps: [build, {task: push}]}\n  ci: {cmds: [go test, {task: all}]}\n  end: {cmds: [{defer: {task: up}}, go test]}\n  build: go build\n  up: {internal: true, cmd: git push}\n",
			"all ci end", "build",
		},
		"package.json": {
			`{"scripts": {"build": "npm install && npm run clean && tsc", "clean": "rm -rf dist", "all": "run-s build ship", "pack": "tsc", "postpack": "npm publish", "ci": "yarn all", "site": "pnpm run deploy"}}`,
			"all pack ci site", "build",
		},
	} {
		text, _ := Propose(fstest.MapFS{name: &fstest.MapFile{Data: []byte(c.text), Mode: 0o644}}, "",
			testCaches)
		conf := checkConfig(t, text)
		for _, tool := range strings.Fields(c.asks) {
			if conf.Tools[tool].Confirm == "" {
				t.Errorf("%s: %s does not ask\n%s", name, tool, text)
			}
		}
		for _, tool := range strings.Fields(c.runs) {
			if conf.Tools[tool].Confirm != "" {
				t.Errorf("%s: %s asks\n%s", name, tool, text)
			}
		}
	}
}

// The patterns read what the programs print.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		pattern, line string
		want          []string
	}{
		{pytestProgress, "tests/test_a.py ........ [ 42%]", []string{"42"}},
		{ninjaProgress, "[12/345] CXX a.o", []string{"12", "345"}},
		{cmakeProgress, "[  7%] Building C object a.o", []string{"7"}},
		{ctestProgress, "  3/17 Test  #3: name ......   Passed    0.01 sec", []string{"3", "17"}},
		{dockerProgress, "#9 [stage-1 3/8] RUN make", []string{"3", "8"}},
		{dockerProgress, "#9 [3/8] RUN make", []string{"3", "8"}},
		{cargoProgress, "    Building [=======>                  ] 12/34: serde", []string{"12", "34"}},
	} {
		m := regexp.MustCompile(c.pattern).FindStringSubmatch(c.line)
		if m == nil || strings.Join(m[1:], " ") != strings.Join(c.want, " ") {
			t.Errorf("%s of %q: %q", c.pattern, c.line, m)
		}
	}
}

// Whatever stands in the files, the proposal is a config without a mistake or there is none.
func FuzzPropose(f *testing.F) {
	names := []string{"Makefile", "justfile", "Taskfile.yml", "package.json", "Cargo.toml", "pyproject.toml",
		"compose.yaml", "deno.json", "composer.json", "Rakefile", "mix.exs", "mise.toml", "pom.xml",
		"build.gradle.kts", "CMakePresets.json"}
	archives, _ := filepath.Glob("testdata/*.txtar")
	for _, archive := range archives {
		text, err := os.ReadFile(archive)
		if err != nil {
			f.Fatal(err)
		}
		for n, name := range names {
			if _, after, ok := strings.Cut(string(text), "-- "+name+" --\n"); ok {
				content, _, _ := strings.Cut(after, "\n-- ")
				f.Add(byte(n), content)
			}
		}
	}
	f.Add(byte(0), ".PHONY: yes 1.5 a-b\n# it's: \"x\" {{y}} \\\nyes 1.5 a-b:\n\t@echo '#' {{z}}\n")
	f.Add(byte(3), "{\"scripts\": {\"a b\": \"x\\ny\", \"test:\\u00e9\": \"{{a}}\", \"é\": \"\", \"true\": \"# x\", \"0\": \"\"}}")
	f.Add(byte(2), "tasks:\n  a: {requires: {vars: [A, 'b c', {name: D}]}, desc: 'x: y'}\n  b: &b [c]\n  c: *b\n")
	f.Add(byte(1), "A0:\n \x000\n")
	f.Add(byte(6), "services: {'a\"b': 1, é: {}, '1': {}}\n")
	f.Fuzz(func(t *testing.T, which byte, content string) {
		text, files := Propose(fstest.MapFS{names[int(which)%len(names)]: &fstest.MapFile{Data: []byte(content), Mode: 0o644}, "CMakeLists.txt": &fstest.MapFile{Mode: 0o644}}, "", testCaches)
		if len(files) > 0 {
			checkConfig(t, text)
		}
	})
}

// A Python program is run from the project's virtual environment, which no host activates, if that has it and
// no project manager runs it.
func TestVirtualEnvironment(t *testing.T) {
	for _, c := range []struct{ also, has, test, lint string }{
		{"x", ".venv/bin/pytest", ".venv/bin/pytest", "ruff"},
		{"x", "venv/bin/ruff", "pytest", "venv/bin/ruff"},
		{"x", ".venv/Scripts/pytest.exe", ".venv/Scripts/pytest.exe", "ruff"},
		{"uv.lock", ".venv/bin/pytest", "uv", "uv"},
	} {
		files := fstest.MapFS{"pyproject.toml": {Data: []byte("[tool.pytest]\n[tool.ruff]\n")},
			c.has: {}, c.also: {}}
		for range 2 {
			text, _ := Propose(files, "", testCaches)
			got := checkConfig(t, text).Tools
			if got["test"].Command[0] != c.test || got["lint"].Command[0] != c.lint {
				t.Errorf("%+v:\n%s", c, text)
			}
		}
	}
}
