package propose

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Words of names. A name is judged by its words: db:reset has db and reset.
var (
	// The user is asked where one of these stands anywhere,
	grave = set("deploy undeploy publish push upload ship delete destroy drop purge wipe nuke rollback uninstall reset prune teardown provision")
	// or one of these first or last.
	graveAtAnEnd = set("release clean distclean mrproper clear remove rm migrate tag down apply")
	// These go on until somebody stops them, or want a person.
	endless      = set("watch storybook shell repl console attach")
	endlessAtEnd = set("dev serve server start run up preview debug live open interactive")
	// A name that begins with one of these means that, whatever else it says: build-release is a build.
	harmless = set("build test tests check lint compile bench fmt format")
	// These say nothing.
	idle = set("help default list usage version prepare preinstall postinstall prepack postpack prepublish prepublishonly preversion version postversion force")

	quick    = set("lint fmt format vet typecheck types tsc style tidy spell")
	slow     = set("e2e integration bench benchmark benchmarks fuzz race acceptance conformance")
	sensible = set("all build compile test tests check lint fmt format vet bench docs doc generate coverage e2e integration dist bundle verify race typecheck unit")
)

// graveBody is what a script does that reaches beyond the directory, or cannot be undone there.
var graveBody = pattern(`\b(kubectl +(apply|delete|replace|scale|drain|rollout)|helm +(install|upgrade|uninstall)|(terraform|tofu) +(apply|destroy)|pulumi +(up|destroy)|cdk +destroy|` +
	`(npm|pnpm|yarn|bun|cargo|poetry|uv|hatch|flit) +publish|(npm|pnpm|yarn) +version|lerna +(publish|version)|changeset +(publish|version)|twine +upload|gem +push|nuget +push|` +
	`semantic-release|standard-version|release-it|gh-pages|gh +release|goreleaser +release|` +
	`git +(push|commit|merge|rebase|revert|cherry-pick|rm|clean|restore)|git +tag +(-[adfms]|v|["$])|git +branch +-[dD]|git +reset +--hard|git +checkout +(--|\.)|git +stash +(drop|clear|pop)|` +
	`docker +push|docker +buildx +build .*--push|docker +\w+ +(prune|rm)|docker +(rm|rmi|kill)|docker(-| +)compose\b[^\n;&|]* (down|rm|kill|push)|` +
	`fly(ctl)? +deploy|vercel .*--prod|aws +s3 +(sync|rm|cp|mv)|aws +[\w-]+ +(delete|terminate)-|gsutil .*\b(rm|rsync|cp|mv)|ansible-playbook|kamal +\w+|` +
	`(createdb|dropdb)\b|db:(drop|reset|migrate|rollback|setup)|migrate +(reset|deploy)|--force-reset|(?i:drop +(table|database|schema)|delete +from|truncate +table)|` +
	`rsync +.*\w+:|scp +.*\w+:|ssh +[^-\s]|sudo +\S|curl\b[^\n;&|]* (-X *|--request[ =])"?(POST|PUT|PATCH|DELETE)|find +.* -delete)` +
	`|(?m)(?:^|[\s/;&|(])deploy(\.\w+)?(?:\s|;|$)`)

var (
	// removing finds what a script deletes with all that is below it.
	removing = pattern(`\b(?:rm +(?:-\w+ +)*-\w*[rR]\w*|rm +(?:-\w+ +)*--recursive|rimraf|del-cli|rd +/s)((?:[ \t]+[^\s;&|)]+)*)`)
	// made are names that a build writes anew: to delete them first is a part of it.
	made = pattern(`^["']?(\./|packages/|apps/|\*/|\*\*/)*(dist|build|out|output|target|lib|es|esm|cjs|types|typings|coverage|htmlcov|tmp|temp|bin|obj|public|site|_site|_build|` +
		`node_modules|\.[\w-]*(cache|next|nuxt|turbo|output|vite|parcel|docusaurus|svelte-kit|nyc_output|tox)[\w-]*|__pycache__|[\w.*-]*\.(egg-info|tsbuildinfo|pyc|o|log|tmp)|(docs|doc)/(_?build|dist|api))(/[^.\s$~]*)?["']?$`)
)

// gravely reports whether a script reaches beyond the directory, or does what cannot be undone there.
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

// endlessBody is a script that serves or watches until somebody stops it.
var endlessBody = pattern(`\b(vite|vitepress|next|nuxt|astro|storybook|wrangler|webpack) +(dev|serve|preview)\b|\b(webpack-dev-server|nodemon|http-server|browser-sync|cargo +watch|manage\.py +runserver|flask +run|mkdocs +serve)\b| --watch( |$)`)

// set is made when it is first asked for, as patterns are: every runnel starts, and few propose.
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

// split makes words of a name.
func split(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_:./ ", r) })
}

// known reports whether a name is one of those that projects share.
func known(name string) bool {
	words := split(name)
	return len(words) > 0 && (sensible()[words[0]] || asks(words))
}

func asks(words []string) bool {
	first, last := words[0], words[len(words)-1]
	installs := len(words) == 1 && first == "install" // into the system; install-deps is for the project
	return installs || slices.ContainsFunc(words, func(w string) bool { return grave()[w] }) || graveAtAnEnd()[first] || graveAtAnEnd()[last] && !harmless()[first]
}

// ships reports whether a name says that what it runs reaches beyond the directory, or destroys something. Many builds begin with a clean.
func ships(name string) bool {
	words := split(name)
	return slices.ContainsFunc(words, func(w string) bool { return grave()[w] }) ||
		len(words) > 0 && !harmless()[words[0]] && (words[0] == "release" || words[len(words)-1] == "release")
}

// scripts are the targets, recipes, tasks or scripts of a file: what each runs. What has to be done before is there as a call: make x.
type scripts map[string]string

// runners finds what starts others of the file.
var runners = pattern(`(?m)(?:^|[\s;&|(])(?:make|\$\(MAKE\)|\$\{MAKE\}|just|task|(?:npm|pnpm|yarn|bun)(?: +run)?|npm-run-all|run-[sp])[ \t]+([^;&|)\n]*)`)

// calls are the names of those that a script starts, and other words.
func calls(body string) (names []string) {
	for _, m := range runners().FindAllStringSubmatch(body, -1) {
		names = append(names, strings.Fields(m[1])...)
	}
	return names
}

// reaching are those that deploy or delete, by themselves or because they start one that does.
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

// judge fills in what a name and what it runs say about a tool; ok is false if it is none for a model.
func judge(t Tool, name, body string) (judged Tool, ok bool) {
	words := split(name)
	if len(words) == 0 || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || strings.Contains(name, "{{") || idle()[strings.ToLower(name)] {
		return t, false
	}
	first, last := words[0], words[len(words)-1]
	has := func(list map[string]bool) bool {
		return slices.ContainsFunc(words, func(w string) bool { return list[w] })
	}
	if has(endless()) || endlessAtEnd()[first] || endlessAtEnd()[last] && !harmless()[first] || endlessBody().MatchString(body) {
		return t, false
	}
	if t.Progress == "" {
		t.Progress = progressOf(body)
	}
	t.Confirm = t.Confirm || asks(words) || gravely(body)
	switch {
	case has(slow()):
		t.Timeout = "1h"
	case has(quick()):
		t.Timeout = "10m"
	default:
		t.Timeout = "30m"
	}
	return t, true
}

// Patterns that read progress from what known programs print into a pipe. go test and npm say nothing of how far they are.
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

// progressOf is the pattern for what a script runs, "" if none is known.
func progressOf(body string) string {
	for _, p := range []struct{ runs, pattern string }{
		{`\bpytest\b`, pytestProgress}, {`\bninja\b`, ninjaProgress}, {`\bctest\b`, ctestProgress}, {`\bcmake +--build\b`, cmakeProgress},
		{`\bdocker +(buildx +)?build\b.*--progress[= ]plain`, dockerProgress},
	} {
		if pattern(p.runs)().MatchString(body) {
			return p.pattern
		}
	}
	return ""
}
