# The two commands to begin with: make demo, make test. What else there is: make help.

GOLANGCI_LINT = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# What make demo tests: with -p 1 go test prints the tests as they run, with -count=1 it runs them although they have passed.
DEMO_PACKAGES = ./partials

# How many inputs make fuzz tries on each target. A number and no duration: before Go 1.27 the end of a duration
# can be reported as a failure, "context deadline exceeded" (https://go.dev/issue/75804).
FUZZTIME ?= 500000x
# How many random sessions make fuzz plays; make race plays 200.
RANDOM_SESSIONS ?= 10000

# All Go files of the repository, those of the modules below testdata included.
formatted = unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi

# How long make hostile goes on, and from which seed (one of its own if it is empty).
RUNNEL_HOSTILE_TIME ?= 2h
RUNNEL_HOSTILE_SEED ?=
# How long make day goes on, and from which seed.
RUNNEL_DAY_TIME ?= 1h
RUNNEL_DAY_SEED ?=
# How many faults make fleet plays, how long it then holds a state against its contract while nodes die, and from which seed.
RUNNEL_FLEET_ROUNDS ?= 200
RUNNEL_FLEET_TIME ?= 1h
RUNNEL_FLEET_SEED ?=

.PHONY: help build demo cast man packages wine count test ci nightly check lint vuln race configs crash states soak streams hostile escapes fidelity fleet deploy fuzz fuzz-short hosts hosts-short browser browser-short programs pictures bench clean

.DEFAULT_GOAL = build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/runnel; without cgo, which would be there only to look up names and costs a tenth of the start
	CGO_ENABLED=0 go build -o bin/runnel .

demo: build ## this project's own go test -v as a task: its output as it comes, and what came of it
	bin/runnel call test packages=$(DEMO_PACKAGES) --summary --tool 'test=go test -v -p 1 -count=1 {{packages}}'

cast: build ## testdata/cast/session.svg, the picture in the README: two real sessions of Claude Code, recorded and drawn
	go -C testdata/hosts test -count=1 -run '^TestRecord$$' -record $(CURDIR)/bin/cast .
	go run ./internal/cmd/cast -o testdata/cast/session.svg 'without runnel=bin/cast/without.cast' 'with runnel=bin/cast/with.cast'

man: ## the man pages, in bin/man: commands in man1, the manual in man7
	go run ./internal/cmd/man bin/man

count: ## the rooms in figures (files, lines, names, references that run up), and what a request and a chunk pass; with the names: go run ./internal/cmd/count -v
	go run ./internal/cmd/count

test: ## three minutes, with Go alone: format, vet, and the tests that need no other program and no long wait
	@$(formatted)
	go vet ./...
	go test -short ./...

ci: check lint vuln race fuzz-short hosts-short browser-short programs ## all that a change must pass: lint, every test under the race detector, real hosts, a browser (needs npm, tmux, Chromium, jq, PHP, gnuplot, nginx, asciinema, redis-server, vim, gdb, sqlite3, too)

nightly: ci fuzz configs crash states soak streams fleet fidelity hostile day hosts browser deploy ## all of that at length: some eight hours

check: ## format, modules, vet, also for systems that the tests do not run on
	@$(formatted)
	go mod tidy -diff
	go vet ./... ./testdata/examples/...
	go vet -tags dynamodb ./internal/serve ./internal/cli
	go -C testdata/hosts vet ./...
	go -C testdata/browser vet ./...
	GOARCH=386 CGO_ENABLED=0 go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	for arch in amd64 arm64; do GOOS=windows GOARCH=$$arch go vet $$(go list ./... | grep -v /internal/e2e) || exit 1; done # whose tests are for Unix

lint:
	$(GOLANGCI_LINT) run ./... ./testdata/examples/...

vuln: ## known vulnerabilities; says so where it cannot know
	.ci/vuln

race: ## every test, under the race detector, which sleeps a second at each exit if it is let. -parallel: most tests wait for processes, and a machine has few CPUs
	GORACE="atexit_sleep_ms=100 $$GORACE" go test -race -parallel 4 -timeout 1h ./...
	go test -run TestMemoryOfALongAnswer ./rpc # which the detector's own memory would hide

configs: ## the tools of 200 random configs, and 10,000 calls of them: equal calls give equal results, the config stays as it is (make test makes 20 and 1,000)
	RUNNEL_TEST_CONFIGS=200 go test -race -count=1 -v -timeout 1h -run '^TestRandomConfigs$$' ./tools/command

crash: ## kill -9 of runnel 200 times, of supervisors 100 times, processes that share a state for a minute (make race does some of each)
	RUNNEL_TEST_CRASH_ROUNDS=200 RUNNEL_TEST_SHARED_TIME=1m go test -race -count=1 -v -timeout 1h -run 'AnyMoment$$|TestProcessesShareAState' ./internal/e2e

states: ## what every state must do, at length: 10,000 races for an end, 1 GiB of output, 100,000 tasks (make race does some of each)
	RUNNEL_TEST_STATE_LONG=1 go test -race -count=1 -v -timeout 2h -run 'TestState|TestShared' ./tasks/sqlite ./tasks/nats ./tasks/redis ./tasks/dynamodb

streams: ## a thousand clients whose calls stream all at once over HTTP: memory, fairness, nothing lost (make race has fifty)
	RUNNEL_TEST_STREAMS=1000 go test -count=1 -v -run '^TestManyStreams$$' ./rpc/http

soak: ## 100,000 short tasks and one that streams all the time: what the process holds and how large the state is (make race runs 3,000)
	RUNNEL_TEST_SOAK_TASKS=100000 go test -count=1 -v -timeout 2h -run TestSoak ./internal/e2e

hostile: ## on Linux, several runnels on one state for $(RUNNEL_HOSTILE_TIME), and all that can go wrong around them; .ci/run does three minutes of it
	RUNNEL_HOSTILE_TIME=$(RUNNEL_HOSTILE_TIME) RUNNEL_HOSTILE_SEED=$(RUNNEL_HOSTILE_SEED) go test -race -count=1 -v -timeout 24h -run '^TestHostileGround$$' ./internal/e2e

day: ## on Linux, several hosts work for $(RUNNEL_DAY_TIME) with every config and command of the documents; what they get is always what they got first (make ci takes 45 s)
	RUNNEL_DAY_TIME=$(RUNNEL_DAY_TIME) RUNNEL_DAY_SEED=$(RUNNEL_DAY_SEED) go test -race -count=1 -v -timeout 24h -run '^TestDay$$' ./internal/e2e

deploy: ## the compose file and the Kubernetes manifests, against the types of the programs that read them (from the Go proxy)
	go -C testdata/deploy test -count=1 .

fidelity: ## twenty servers answer through runnel wrap as they do directly, member by member (make race plays four)
	RUNNEL_TEST_FIDELITY=all go test -count=1 -v -timeout 1h -run '^TestFidelity$$' ./internal/e2e

fleet: ## on Linux, a fleet on three NATS servers: $(RUNNEL_FLEET_ROUNDS) times a worker, a front or a server is killed or cut off; the same of fronts behind a balancer; then what states must do while servers die, for $(RUNNEL_FLEET_TIME)
	RUNNEL_FLEET_ROUNDS=$(RUNNEL_FLEET_ROUNDS) RUNNEL_FLEET_SEED=$(RUNNEL_FLEET_SEED) go test -count=1 -v -timeout 24h -run '^Test(Fleet|Front)Rounds$$' ./internal/e2e
	RUNNEL_FLEET_TIME=$(RUNNEL_FLEET_TIME) RUNNEL_FLEET_SEED=$(RUNNEL_FLEET_SEED) go test -race -count=1 -v -timeout 24h -run '^TestStateWhileNodesDie$$' ./tasks/nats

fuzz: ## every fuzz target $(FUZZTIME), and $(RANDOM_SESSIONS) random sessions
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' internal partials rpc tasks tools); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$file); do \
			echo "./$${file%/*} $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s ./$${file%/*} || exit 1; \
		done; \
	done
	RUNNEL_TEST_RUNS=$(RANDOM_SESSIONS) go test -race -timeout 2h -run '^TestRandomSessions$$' ./internal/e2e

fuzz-short:
	$(MAKE) fuzz FUZZTIME=10000x RANDOM_SESSIONS=1

hosts: build ## real agent programs from npm, against scripted models: what a model reads (testdata/hosts/README.md); most of its time they wait
	go -C testdata/hosts test -count=1 -v -parallel 4 -timeout 2h .

hosts-short: build ## three of them, with a shorter build
	go -C testdata/hosts test -short -count=1 -timeout 10m .

escapes: ## attacks on the sandbox without one, in runnel's, in bubblewrap and in srt (npm i -g @anthropic-ai/sandbox-runtime; bubblewrap, socat, ripgrep; root): tools/sandbox/testdata/escapes.md
	RUNNEL_ESCAPES=1 go test -count=1 -v -timeout 20m -run '^TestCompare$$' ./tools/sandbox

browser: build ## the live view in a real Chromium (testdata/browser/README.md)
	go -C testdata/browser test -count=1 -v -timeout 30m .

browser-short: build ## the same without what takes long: a 100 MB log, every state of the page in axe
	go -C testdata/browser test -short -count=1 -timeout 10m .

programs: ## a model types into real programs: editors, debuggers, pagers, prompts (needs sqlite3, gdb, vim, less, procps, openssh-client, npm, git)
	RUNNEL_TEST_PROGRAMS=1 go test -count=1 -timeout 10m -run '^Test(InteractivePrograms|PasswordOfAKey)$$' ./internal/e2e

pictures: build ## those of the live view in the README, taken anew
	go -C testdata/browser test -count=1 -run TestPictures -pictures pictures .

bench: build ## Go benchmarks, then runnel beside other servers (a table; nothing passes or fails)
	go test -run '^$$' -bench . -benchmem ./...
	go -C testdata/bench run . -runnel ../../bin/runnel

packages: ## static programs for six systems and what they are installed by, in bin/packages, each checked and, where it can be, started
	.ci/packages/build

wine: ## the program for Windows under Wine: transcripts, and that nothing is left (.ci/wine says what Wine cannot show)
	.ci/wine

clean:
	rm -rf bin
