package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/inputs"
	"runnel/tools/process"
	"runnel/tools/schema"
	"runnel/tools/text"
)

// All makes the tools of a config that are commands, sorted by name. They run in the directory of the config
// file, with the environment vars ("NAME=value"; nil = runnel's own). The error joins those of all tools,
// each with its place in the file.
func All(c *config.Config, vars []string) ([]*Command, error) {
	env := config.Base{Dir: c.Dir(), Vars: vars, MaxResult: c.MaxResult(), Sandbox: c.Sandbox}
	var list []*Command
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if c.Tools[name].Model != nil || len(c.Tools[name].Steps) > 0 {
			continue // packages model and steps have it
		}
		tool, err := New(name, c.Tools[name], env)
		if err == nil {
			err = tool.checkUsed()
		}
		if err != nil {
			errs = append(errs, c.Locate(config.Join("tools", name), err))
			continue
		}
		list = append(list, tool)
	}
	return list, config.JoinErrors(errs)
}

// New checks a tool's configuration, except its schemas (see [CheckSchemas]) and unused inputs, and makes the
// tool. Mistakes are *config.Errors, joined.
func New(name string, conf config.Command, base config.Base) (*Command, error) {
	c := &Command{name: name, config: conf}
	if conf.MaxResult == nil && base.MaxResult > 0 {
		defer func() { c.config.MaxResult = &base.MaxResult }()
	}
	errs := []error{c.buildInputs(), c.config.Complete()}
	if errs[0] == nil { // the rest uses the inputs
		errs = append(errs, c.buildProgram(), c.buildTexts(), c.buildOutput())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	sandbox, err := base.SandboxOf(conf.Sandbox)
	if err != nil {
		return nil, err
	}
	c.config.Sandbox = sandbox
	if conf.MaxConcurrent > 0 {
		c.slots = make(chan struct{}, conf.MaxConcurrent)
	}
	dir, vars, err := base.Inherit(c.config.Dir, c.config.Env)
	c.dir = dir
	c.env = sync.OnceValue(func() []string { return c.environment(vars) }) // computed at the first call
	if err == nil {
		c.sandbox, err = c.config.Sandbox.Policy(dir, vars)
	}
	return c, err
}

// checkUsed refuses an input without a placeholder, since the command would never get it. In a script each
// input is a variable, which the programs that the script starts may read.
func (c *Command) checkUsed() error {
	for _, name := range c.in.Names {
		if c.config.Shell == "" && !c.in.Used[name] && len(c.argv) > 0 {
			return &config.Error{Key: c.in.Key([]string{"properties", name}),
				Problem: "the command does not use it", Allowed: "{{" + name + "}} in command or stdin"}
		}
	}
	return nil
}

// buildInputs checks the name and reads the inputs.
func (c *Command) buildInputs() (err error) {
	for key, object := range map[string]config.Object{"input": c.config.Input,
		"outputSchema": c.config.OutputSchema, "_meta": c.config.Meta} {
		// Possible if the config was made in Go.
		if len(object) > 0 && (object[0] != '{' || !json.Valid(object) || !utf8.Valid(object)) {
			return &config.Error{Key: key, Problem: "is not a JSON object",
				Allowed: "properties, or a JSON Schema of type object"}
		}
	}
	if tools.CheckName(c.name) != nil {
		return &config.Error{Problem: fmt.Sprintf("%q is not a name for a tool", c.name),
			Allowed: "1 to 128 letters, digits, _, - and ."}
	}
	c.in, err = inputs.Parse(c.config.Input, c.config.Required)
	return err
}

// buildProgram makes the argv, from "command" or from "shell".
func (c *Command) buildProgram() error {
	switch {
	case c.config.Shell != "":
		return c.buildShell()
	case len(c.config.Command) == 0 && c.config.Runs != "":
		return nil // the workers have it
	case len(c.config.Command) == 0:
		return &config.Error{Problem: "names nothing to run",
			Allowed: "command (a list of words) or shell (a script)"}
	case c.config.Command[0] == "":
		return &config.Error{Key: "command[0]", Problem: "is empty", Allowed: "a program's name or path"}
	}
	for i, name := range c.config.Options {
		if !slices.Contains(c.in.Names, name) {
			return &config.Error{Key: fmt.Sprintf("options[%d]", i),
				Problem: fmt.Sprintf("%q names no input", name), Allowed: c.in.Allowed()}
		}
		c.in.Options[name] = true
	}
	code := scripts(c.config.Command)
	ended := false // by the word before
	for i, element := range c.config.Command {
		t, err := c.in.Template(fmt.Sprintf("command[%d]", i), element)
		if err != nil {
			return err
		}
		if code[i] && len(t.Names) > 0 {
			name := t.Names[0]
			return &config.Error{
				Key:     fmt.Sprintf("command[%d]", i),
				Problem: "{{" + name + "}} is in a script, where its value would be code",
				Allowed: "the key shell, with " + inScript(name) + " in its script; {{" + name +
					"}} as an argument after the script; or, if a caller may run any code, " + anyCode(name),
			}
		}
		// Only directly after "--": in [sudo, --, ssh, "{{host}}"] it ends the options of sudo. find takes an
		// expression after it (find -- -delete).
		mayBeOption := ended || len(t.Names) == 0 || config.Placeholder().FindStringIndex(element)[0] > 0
		ended = element == "--" && !slices.ContainsFunc(c.config.Command[:i], isFind) ||
			element == "--end-of-options" || ended && len(t.Names) > 0
		c.argv = append(c.argv, word{*t, mayBeOption})
	}
	return nil
}

func isFind(word string) bool { return program(word) == "find" }

var variableName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
})

// systemVariables are names that no input of a shell tool may have; one that ends with _ is a beginning. On
// Windows their case does not count.
var systemVariables = []string{
	"PATH", "HOME", "SHELL", "USER", "LOGNAME", "PWD", "OLDPWD", "TMPDIR", "TERM", "LANG", "LC_", "LD_",
	"DYLD_", "RUNNEL_",
	"IFS", "ENV", "BASH_", "SHELLOPTS", "BASHOPTS", "PS4", "CDPATH", "GLOBIGNORE", "PROMPT_COMMAND",
	"ZDOTDIR", "FPATH", "GCONV_PATH", "NLSPATH", "TZ",
	"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PERL5LIB", "PERL5OPT", "RUBYLIB", "RUBYOPT", "NODE_OPTIONS",
	"NODE_PATH", "GIT_", "EDITOR", "VISUAL", "PAGER",
	"TEMP", "TMP", "PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "USERPROFILE", "USERNAME",
	"APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PSMODULEPATH",
}

// buildShell checks a script. Its arguments are only environment variables, so that no value is ever read as
// part of the script.
func (c *Command) buildShell() error {
	if len(c.config.Command) > 0 {
		return &config.Error{Key: "shell", Problem: "cannot be combined with command",
			Allowed: "one of the two"}
	}
	for _, name := range c.in.Names {
		if !variableName().MatchString(name) {
			return &config.Error{Key: "input." + name,
				Problem: "is not a name for an environment variable, which shell makes of it",
				Allowed: "letters, digits and _, no digit first"}
		}
	}
	for _, name := range c.in.Names {
		for _, reserved := range systemVariables {
			if process.SameVariable(name, reserved) ||
				strings.HasSuffix(reserved, "_") && strings.HasPrefix(name, reserved) {
				return &config.Error{Key: "input." + name,
					Problem: "the system or the shell reads an environment variable of that name, and a " +
						"caller must not set it", Allowed: "another name, such as the_" + strings.ToLower(name)}
			}
		}
	}
	for _, m := range config.Placeholder().FindAllStringSubmatch(c.config.Shell, -1) {
		if slices.Contains(c.in.Names, m[1]) {
			return &config.Error{Key: "shell", Problem: m[0] + " is not filled in a script",
				Allowed: inScript(m[1])}
		}
	}
	if err := checkScript(c.config.Shell, c.in.Names); err != nil {
		return err
	}
	for _, text := range process.Shell(c.config.Shell) {
		c.argv = append(c.argv, word{Template: inputs.Template{Text: text}})
	}
	return nil
}

// buildTexts parses the other templates and checks the patterns.
func (c *Command) buildTexts() error {
	var stdin, confirm error
	if c.config.Stdin != "" && c.config.Stdin != config.StdinOpen {
		c.stdin, stdin = c.in.Template("stdin", c.config.Stdin)
	}
	if c.config.Confirm != "" {
		c.asks, confirm = c.in.Template("confirm", c.config.Confirm)
	}
	return errors.Join(stdin, confirm, checkProgress(c.config.Progress), checkWatch(&c.config))
}

// environment returns the command's environment: vars and the additions of its config.
func (c *Command) environment(vars []string) []string {
	var drop []string
	if c.config.Shell != "" {
		drop = c.in.Names // runnel's own variables must not look like arguments of the call
	}
	env := process.Environ(c.config.Sandbox.Variables(vars), c.dir, c.config.Env, drop...)
	switch _, ok := process.LookupEnv(env, "TERM"); {
	case c.config.Interactive && c.config.Env["TERM"] == "": // runnel is the terminal, whatever its own is
		env = append(env, "TERM=xterm-256color")
	case c.config.Pty && !ok:
		env = append(env, "TERM=xterm-256color")
	}
	return env
}

// buildOutput checks the keys about the output and structuredContent.
func (c *Command) buildOutput() error {
	if _, err := text.NewDecoder(c.config.Encoding, 0); err != nil {
		return &config.Error{Key: "encoding", Problem: err.Error(),
			Allowed: "auto, utf-8, utf-16le, gbk, shift_jis, windows-1252, cp850 and other names of the " +
				"WHATWG Encoding Standard"}
	}
	if c.config.Structured == config.StructuredSummary {
		c.outputSchema = summarySchema
	}
	source := c.config.OutputSchema
	if len(source) == 0 {
		return nil
	}
	if c.config.Structured != config.StructuredJSON {
		if string(source) == "{}" {
			return nil
		}
		return &config.Error{Key: "outputSchema",
			Problem: "describes what the command prints, which is not in the result as JSON",
			Allowed: "structured: json beside it"}
	}
	switch kind := string(rawjson.Member(source, "type")); kind {
	case `"object"`:
	case "": // it is required (server/tools, "Output Schema", before 2026-07-28)
		source = rawjson.WithMember(source, "type", "object")
	default:
		return &config.Error{Key: "outputSchema.type", Problem: kind + ": what a tool returns is an object",
			Allowed: "object"}
	}
	c.outputSchema = source
	c.outputs = schema.New(source, "member")
	return nil
}

// Make makes the command in a supervisor. maxConcurrent counts the calls of all supervisors of the owner on
// the state.
func (r *Recipe) Make(stateDir, owner string) (*Command, error) {
	conf := r.Config
	for _, element := range r.Command {
		conf.Command = append(conf.Command, string(element))
	}
	c, err := New(r.Tool, conf, config.Base{Dir: string(r.Dir), Vars: strings.Split(string(r.Env), "\x00")})
	if n := conf.MaxConcurrent; err == nil && n > 0 {
		c.queue = process.NewSlots(stateDir, owner+"\x00"+string(r.Dir)+"\x00"+r.Tool, n)
	}
	return c, err
}

// Detach makes all calls of the command detached, as the config key detach does.
func (c *Command) Detach() error {
	c.config.Detach = config.DetachAlways
	return c.config.Complete()
}

// FromLine makes a command tool from NAME=COMMAND, the value of the flag --tool. The command is split into
// words as a shell would split it, but no shell runs. Each {{name}} is a required string argument.
func FromLine(spec string, env config.Base) (*Command, error) {
	name, line, ok := strings.Cut(spec, "=")
	if !ok {
		return nil, config.Wrong("NAME=COMMAND, such as 'search=grep -rn {{pattern}} .'",
			"%q is not a tool", spec)
	}
	words, err := config.SplitWords(line)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	for _, sign := range []string{"|", "||", "&&", "&", ">", ">>", "<", "2>&1"} {
		if slices.Contains(words, sign) && slices.Contains(strings.Fields(line), sign) { // without quotes
			return nil, config.Wrong("'"+name+`=sh -c "..."', or the sign in quotes`,
				"tool %q: no shell reads the command, and %s would be an argument", name, sign)
		}
	}
	var names []string
	for _, word := range words {
		for _, name := range inputs.ParseTemplate(word).Names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var properties []string
	for _, n := range names {
		properties = append(properties, `"`+n+`":{"type":"string"}`)
	}
	c, err := New(name, config.Command{
		Description: "Run " + commandLine(&config.Command{Command: words}),
		Command:     words,
		Input:       config.Object("{" + strings.Join(properties, ",") + "}"),
		Required:    names,
	}, env)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	return c, nil
}

// Recipe describes a command to the supervisor of a detached call, as JSON. Arguments and variables are byte
// slices, which JSON has in base64: in a JSON string, bytes that are not UTF-8 would become U+FFFD.
type Recipe struct {
	Tool    string
	Config  config.Command // except Command
	Command [][]byte
	Dir     []byte
	Env     []byte // variables, separated by NUL
}

// CheckSchemas returns the mistakes in the JSON Schemas of commands, each with its place in the config.
func CheckSchemas(c *config.Config, commands []*Command) error {
	var errs []error
	for _, command := range commands {
		if err := command.in.CheckSchemas(command.outputs); err != nil {
			errs = append(errs, c.Locate(config.Join("tools", command.name), err))
		}
	}
	return config.JoinErrors(errs)
}
