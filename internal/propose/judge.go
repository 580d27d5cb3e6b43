package propose

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Words of names. A name is judged by its words: db:reset has db and reset.
var (
	// The user must confirm a tool if one of these words is anywhere in its name,
	grave = set("deploy undeploy publish push bump upload ship delete destroy drop purge wipe nuke rollback uninstall reset prune teardown provision")
	// or if one of these is the first or last word.
	graveAtAnEnd = set("release clean distclean mrproper clear remove rm migrate tag down apply")
	// These run until somebody stops them, or need a person.
	endless      = set("watch watcher w storybook shell repl console attach")
	endlessAtEnd = set("dev serve server start run up preview debug live open interactive")
	// If a name begins with one of these, the other words do not matter: build-release is a build.
	harmless = set("build test tests check lint compile bench fmt format")
	// These are of no use to a model.
	idle = set("help default list usage version prepare preinstall postinstall prepack postpack prepublish prepublishonly preversion version postversion force")

	quick    = set("lint fmt format vet typecheck types tsc style tidy spell")
	slow     = set("e2e integration bench benchmark benchmarks fuzz race acceptance conformance")
	sensible = set("all build compile test tests check lint fmt format vet bench docs doc generate coverage e2e integration dist bundle verify race typecheck unit")
)

// graveBody matches commands that reach beyond the directory, or that cannot be undone there.
var graveBody = pattern(`\b(kubectl +(apply|delete|replace|scale|drain|rollout)|helm +(install|upgrade|uninstall)|(terraform|tofu) +(apply|destroy)|pulumi +(up|destroy)|cdk +destroy|` +
	`(npm|pnpm|yarn|bun|cargo|poetry|uv|hatch|flit) +publish|(npm|pnpm|yarn) +version|lerna +(publish|version)|changeset +(publish|version)|twine +upload|gem +push|nuget +push|` +
	`(poetry|hatch|mvn|mvnw|pnpm +-r|pnpm +--recursive|yarn +workspaces +foreach|nx|cargo) +(release|version|set-version)\b|bump-?(my-?)?(2)?version\b|uv +version +--bump|(mvn|mvnw)\b[^\n;&|]* (deploy|release:)|` +
	`gradlew?\b[^\n;&|]* publish|mix +hex\.publish|rake +release|deno +publish|jsr +publish|composer +bump|` +
	`semantic-release|standard-version|release-it|gh-pages|gh +release|goreleaser +release|` +
	`git +(push|commit|merge|rebase|revert|cherry-pick|rm|clean|restore)|git +tag +(-[adfms]|v|["$])|git +branch +-[dD]|git +reset +--hard|git +checkout +(--|\.)|git +stash +(drop|clear|pop)|` +
	`docker +push|docker +buildx +build .*--push|docker +\w+ +(prune|rm)|docker +(rm|rmi|kill)|docker(-| +)compose\b[^\n;&|]* (down|rm|kill|push)|` +
	`fly(ctl)? +deploy|vercel .*--prod|aws +s3 +(sync|rm|cp|mv)|aws +[\w-]+ +(delete|terminate)-|gsutil .*\b(rm|rsync|cp|mv)|ansible-playbook|kamal +\w+|` +
	`(createdb|dropdb)\b|db:(drop|reset|migrate|rollback|setup)|migrate +(reset|deploy)|--force-reset|(?i:drop +(table|database|schema)|delete +from|truncate +table)|` +
	`rsync +.*\w+:|scp +.*\w+:|ssh +[^-\s]|sudo +\S|curl\b[^\n;&|]* (-X *|--request[ =])"?(POST|PUT|PATCH|DELETE)|find +.* -delete)` +
	`|(?m)(?:^|[\s/;&|(])deploy(\.\w+)?(?:\s|;|$)`)

var (
	// removing matches recursive deletions, with their operands.
	removing = pattern(`\b(?:rm +(?:-\w+ +)*-\w*[rR]\w*|rm +(?:-\w+ +)*--recursive|rimraf|del-cli|rd +/s)((?:[ \t]+[^\s;&|)]+)*)`)
	// made matches the names of what a build makes: deleting it first is a part of the build.
	made = pattern(`^["']?(\./|packages/|apps/|\*/|\*\*/)*(dist|build|out|output|target|lib|es|esm|cjs|types|typings|coverage|htmlcov|tmp|temp|bin|obj|public|site|_site|_build|` +
		`node_modules|\.[\w-]*(cache|next|nuxt|turbo|output|vite|parcel|docusaurus|svelte-kit|nyc_output|tox)[\w-]*|__pycache__|[\w.*-]*\.(egg-info|tsbuildinfo|pyc|o|log|tmp)|(docs|doc)/(_?build|dist|api))(/[^.\s$~]*)?["']?$`)
)

// gravely reports whether a script reaches beyond the directory, or does something there that cannot be
// undone.
func gravely(body string) bool {
	if graveBody().MatchString(body) {
		return true
	}
	for _, m := range removing().FindAllStringSubmatch(body, -1) {
		for operand := range strings.FieldsSeq(m[1]) {
			if !strings.HasPrefix(operand, "-") && !made().MatchString(operand) {
				return true
			}
		}
	}
	return false
}

// endlessBody matches scripts that serve or watch until somebody stops them.
var endlessBody = pattern(`\b(tsc|rollup|webpack|sass|esbuild|babel|postcss|tailwindcss|mocha|ava|tsup|swc)\b[^\n;&|]* -w\b|\btsx +watch\b|` +
	`(?:^|[;&|"] *|(?:^| )(?:npx|exec|run|-m|--) +)(live-server|servez?|chokidar|watchexec|onchange|modd|reflex|rackup|puma|uvicorn|gunicorn|http\.server)\b|` +
	`\b(ng +serve|gatsby +develop|expo +start|react-scripts +start|php +-S|artisan +serve|rails +s(erver)?|jekyll +serve|hugo +serve(r)?|mix +phx\.server|bootRun|spring-boot:run|quarkus:dev|jetty:run)\b|` +
	`--watch(All)?(=[^f ]\S*)?( |$)|\b(npm|pnpm|yarn|bun|deno)\b( +-\S+)* +(run|task)( +-\S+)* +(dev|start|serve|watch)( *$| *&&| *;)|` +
	`\b(vite|vitepress|next|nuxt|astro|storybook|wrangler|webpack) +(dev|serve|preview)\b|` +
	`\b(webpack-dev-server|nodemon|http-server|browser-sync|cargo +watch|manage\.py +runserver|flask +run|mkdocs +serve)\b`)

// set makes a set of words when it is first used, as pattern does: every runnel starts, and few propose.
func set(words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		all := map[string]bool{}
		for word := range strings.FieldsSeq(words) {
			all[word] = true
		}
		return all
	})
}

func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// split splits a name into words.
func split(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name),
		func(r rune) bool { return strings.ContainsRune("-_:./ ", r) })
}

// known reports whether a name is common in projects.
func known(name string) bool {
	words := split(name)
	return len(words) > 0 && (sensible()[words[0]] || asks(words))
}

func asks(words []string) bool {
	first, last := words[0], words[len(words)-1]
	installs := len(words) == 1 && first == "install" // into the system; install-deps is for the project
	bumps := len(words) > 1 && first == "version"     // version:patch
	return installs || bumps || slices.ContainsFunc(words, func(w string) bool { return grave()[w] }) ||
		graveAtAnEnd()[first] || graveAtAnEnd()[last] && !harmless()[first]
}

// ships reports whether a name suggests a script that reaches beyond the directory, or destroys something.
// clean is not among those names: many builds begin with it.
func ships(name string) bool {
	words := split(name)
	return slices.ContainsFunc(words, func(w string) bool { return grave()[w] }) ||
		len(words) > 0 && !harmless()[words[0]] && (words[0] == "release" || words[len(words)-1] == "release")
}

// scripts holds what each target, recipe, task or script of a file runs. Its prerequisites are there as
// calls, such as "make x".
type scripts map[string]string

// runners matches calls of other scripts of the file.
var runners = pattern(`(?m)(?:^|[\s;&|(])(?:make|\$\(MAKE\)|\$\{MAKE\}|just|task|(?:npm|pnpm|yarn|bun)(?: +run)?|npm-run-all|run-[sp])[ \t]+([^;&|)\n]*)`)

// calls returns the names of the scripts that a script starts, among other words.
func calls(body string) (names []string) {
	for _, m := range runners().FindAllStringSubmatch(body, -1) {
		names = append(names, strings.Fields(m[1])...)
	}
	return names
}

// reaching returns the scripts that deploy or delete, themselves or by starting another one.
func (s scripts) reaching() map[string]bool {
	callers, found := map[string][]string{}, map[string]bool{}
	var next []string
	add := func(names ...string) {
		for _, name := range names {
			if !found[name] {
				found[name] = true
				next = append(next, name)
			}
		}
	}
	for name, body := range s {
		called := calls(body)
		if gravely(body) || slices.ContainsFunc(called, ships) {
			add(name)
		}
		for _, other := range called {
			callers[other] = append(callers[other], name)
		}
	}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		add(callers[name]...)
	}
	return found
}

// confirm completes the tools of the scripts: each is known by what it runs, and asks before it reaches
// beyond the directory.
func (s scripts) confirm(tools []Tool) {
	reaching := s.reaching()
	for n := range tools {
		if t := &tools[n]; t.script != "" {
			t.body = s[t.script]
			t.Confirm = t.Confirm || reaching[t.script]
		}
	}
}

// readyOf returns the pattern of the line by which a server that a script starts says where it listens; "" if
// it is none that is known. Such a tool is for a model: its call is answered then.
func readyOf(body string) string {
	for _, p := range []struct{ runs, pattern string }{
		{`\b(next|nuxt|nuxi|astro|vite|vitepress) +(dev|preview)\b|(?m:^|[;&|] *|\bnpx +|\bbunx +|" *)vite( +--?\S+( +[^-\s;&|]\S*)?)* *(?m:$|[;&|"])|\bng +serve\b`, `Local:? +(https?://\S+)`},
		{`\bwebpack-dev-server\b|\bwebpack +serve\b`, `Loopback: +(https?://[^\s,]+)`},
		{`\bmanage\.py +runserver\b`, `Starting development server at (https?://\S+)`},
		{`\brails +s(erver)?\b|\brackup\b|\bpuma\b`, `[Ll]istening on (\S+)`},
		{`\bflask +run\b|\buvicorn\b|\bhypercorn\b`, `[Rr]unning on (https?://\S+)`},
		{`\bphp +-S\b`, `Development Server \((https?://\S+)\) started`},
		{`\bjekyll +serve\b`, `Server address: (https?://\S+)`},
		{`\bhugo +serve(r)?\b`, `Web Server is available at (https?://\S+)`},
		{`\bmkdocs +serve\b`, `Serving on (https?://\S+)`},
	} {
		if pattern(p.runs)().MatchString(body) {
			return p.pattern
		}
	}
	return ""
}

// neverEnds is why a tool is left out that a call would wait for in vain.
const neverEnds = "they serve or watch until they are stopped"

// judge completes a tool from its name and its script; ok is false if the tool is not for a model, and is not
// worth a word either.
func judge(t Tool, name, body string) (judged Tool, ok bool) {
	t.script, t.body = name, body
	words := split(name)
	if len(words) == 0 || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") ||
		strings.Contains(name, "{{") || idle()[strings.ToLower(name)] {
		return t, false
	}
	first, last := words[0], words[len(words)-1]
	has := func(list map[string]bool) bool {
		return slices.ContainsFunc(words, func(w string) bool { return list[w] })
	}
	if has(endless()) || endlessAtEnd()[first] || endlessAtEnd()[last] && !harmless()[first] ||
		endlessBody().MatchString(body) {
		if t.Ready = readyOf(body); t.Ready == "" {
			t.leftOut = neverEnds
		}
	}
	if t.Progress == "" {
		t.Progress = progressOf(body)
	}
	t.Confirm = t.Confirm || asks(words) || gravely(body)
	switch {
	case t.Ready != "":
	case has(slow()):
		t.Timeout = "1h"
	case has(quick()):
		t.Timeout = "10m"
	default:
		t.Timeout = "30m"
	}
	return t, true
}

// Patterns for the progress that known programs print into a pipe. go test and npm do not print any.
const (
	pytestProgress = `\[ *(\d+)%\]`
	ninjaProgress  = `^\[(\d+)/(\d+)\]`
	cmakeProgress  = `^\[ *(\d+)%\]`
	ctestProgress  = `^ *(\d+)/(\d+) Test`
	dockerProgress = `^#\d+ \[(?:[^\]]* )?(\d+)/(\d+)\]`
	cargoProgress  = `\] (\d+)/(\d+)`
)

// cargoEnv makes cargo draw its bar into a pipe.
var cargoEnv = []string{"CARGO_TERM_PROGRESS_WHEN=always", "CARGO_TERM_PROGRESS_WIDTH=80"}

// progressOf returns the progress pattern for the programs that a script runs, "" if there is none.
func progressOf(body string) string {
	for _, p := range []struct{ runs, pattern string }{
		{`\bpytest\b`, pytestProgress}, {`\bninja\b`, ninjaProgress}, {`\bctest\b`, ctestProgress},
		{`\bcmake +--build\b`, cmakeProgress},
		{`\bdocker +(buildx +)?build\b.*--progress[= ]plain`, dockerProgress},
	} {
		if pattern(p.runs)().MatchString(body) {
			return p.pattern
		}
	}
	return ""
}
