package cli

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/sandbox"
)

// cacheTime is how long a program may take to say where its cache is; npm takes a second on a busy machine.
const cacheTime = 10 * time.Second

// cacheCommands are what programs with caches are asked, by their names.
var cacheCommands = map[string][]string{
	"go":     {"go", "env", "GOCACHE"},
	"npm":    {"npm", "config", "get", "cache"},
	"pnpm":   {"pnpm", "store", "path"},
	"yarn":   {"yarn", "cache", "dir"},
	"uv":     {"uv", "cache", "dir"},
	"poetry": {"poetry", "config", "cache-dir"},
}

// caches returns where programs keep their caches, as they say it; nil where tools can have no sandbox.
// Paths in the home begin with ~.
func (i *invocation) caches(ctx context.Context) func(program string) []string {
	self, err := process.ThisProgram()
	if err != nil || (&sandbox.Policy{}).Check(self) != nil {
		return nil
	}
	home := i.Getenv(config.HomeVariable)
	known := map[string][]string{}
	return func(program string) []string {
		if list, ok := known[program]; ok {
			return list
		}
		var list []string
		switch program {
		case "cargo":
			base := i.Getenv("CARGO_HOME")
			if base == "" {
				base = filepath.Join(home, ".cargo")
			}
			list = []string{filepath.Join(base, "registry"), filepath.Join(base, "git")}
		case "mvn":
			list = []string{filepath.Join(home, ".m2", "repository")}
		case "gradle":
			base := i.Getenv("GRADLE_USER_HOME")
			if base == "" {
				base = filepath.Join(home, ".gradle")
			}
			list = []string{base}
		case "golangci-lint":
			base := i.Getenv("XDG_CACHE_HOME")
			if base == "" {
				base = filepath.Join(home, ".cache")
			}
			list = []string{filepath.Join(base, "golangci-lint")}
		default:
			list = []string{i.askCache(ctx, home, cacheCommands[program])}
		}
		var written []string
		for _, path := range list {
			if below, ok := strings.CutPrefix(path, home+"/"); ok && home != "" {
				path = "~/" + below
			}
			if filepath.IsAbs(path) || strings.HasPrefix(path, "~/") {
				written = append(written, path)
			}
		}
		known[program] = written
		return written
	}
}

// askCache returns what a program prints, which runs in the home: the project's own settings are not for it
// to read. "" if it is not there or says nothing.
func (i *invocation) askCache(ctx context.Context, home string, argv []string) string {
	if len(argv) == 0 || !filepath.IsAbs(home) {
		return ""
	}
	program, err := process.FindProgram(argv[0], home, i.Getenv("PATH"))
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, cacheTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Dir = home
	cmd.Env = append(i.Env, "GOTOOLCHAIN=local", "COREPACK_ENABLE_DOWNLOAD_PROMPT=0")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
