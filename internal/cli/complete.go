package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc/mcp"
)

// fixCompletion gives cobra's command for completions examples and better errors.
func fixCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, _ := root.Find([]string{"completion"})
	cmd.Use = "completion SHELL"
	cmd.Short = "Write the script that lets a shell complete runnel's commands"
	cmd.Long = "The script completes commands, flags, tools, their arguments and the ids of tasks. It " +
		"starts no other server and runs no tool."
	cmd.Example = "  source <(runnel completion bash)"
	cmd.Args = noArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return misuse(cmd, "runnel completion: for which shell? bash, fish, powershell or zsh")
	}
	examples := map[string]string{
		"bash":       "  source <(runnel completion bash)",
		"fish":       "  runnel completion fish | source",
		"powershell": "  runnel completion powershell | Out-String | Invoke-Expression",
		"zsh":        `  runnel completion zsh > "${fpath[1]}/_runnel"`,
	}
	for _, shell := range cmd.Commands() {
		if shell.Name() == "bash" {
			shell.RunE = func(cmd *cobra.Command,
				_ []string) error {
				return bashCompletion(cmd.Root(), cmd.OutOrStdout())
			}
		}
		shell.Short = "Write the completion script for " + shell.Name()
		shell.Example, shell.Args = examples[shell.Name()], noArguments
	}
}

// bashCompletion writes cobra's script for bash. It takes the words of the line from a function of the
// package bash-completion, which many machines do not have: without it, from one that does the same.
func bashCompletion(root *cobra.Command, out io.Writer) error {
	var script strings.Builder
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	const theirs = `_get_comp_words_by_ref "$@" cur prev words cword`
	_, err := io.WriteString(out, bashWords+strings.ReplaceAll(script.String(), theirs, "__runnel_words"))
	return err
}

// bashWords is the function that joins what readline has split at = and : inside of a word.
const bashWords = `__runnel_words()
{
    local i line="$COMP_LINE" rest
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        rest="${line#"${line%%[![:blank:]]*}"}"
        if ((i > 0)) && [[ "$rest" == "$line" ]]; then
            words[${#words[@]}-1]+="${COMP_WORDS[i]}"
        else
            words+=("${COMP_WORDS[i]}")
        fi
        line="${rest#"${COMP_WORDS[i]}"}"
        if ((i == COMP_CWORD)); then
            cword=$((${#words[@]} - 1))
        fi
    done
    cur="${words[cword]}" prev=""
    if ((cword > 0)); then
        prev="${words[cword - 1]}"
    fi
}

`

// completionTime is how long a shell waits for a server.
const completionTime = 3 * time.Second

// completeCall completes the name of a tool that runnel itself serves, then its arguments.
func (i *invocation) completeCall(cmd *cobra.Command, args []string,
	toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const silent = cobra.ShellCompDirectiveNoFileComp
	i.Stderr = io.Discard
	if i.readEnvironment(cmd, false) != nil {
		return nil, silent
	}
	// cobra adds a "--" itself, so cmd.ArgsLenAtDash does not help.
	if i.target.url != "" || slices.Contains(i.args[:len(i.args)-1], "--") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	i.NoUpstreams = true
	// cobra has read the flags twice.
	i.Options.Tools = slices.Compact(slices.Sorted(slices.Values(i.Options.Tools)))
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	cmd.SetContext(ctx)
	list, err := i.listTools(cmd, "")
	if err != nil {
		return nil, silent
	}
	if len(args) == 0 {
		var names []cobra.Completion
		for _, tool := range list {
			first, _, _ := strings.Cut(tool.Description, "\n")
			names = append(names, cobra.CompletionWithDesc(term.Printable(tool.Name), term.Printable(first)))
		}
		return names, silent
	}
	tool, err := i.findTool(list, args[0])
	if err != nil {
		return nil, silent
	}
	return completeArgument(tool, args[1:], toComplete)
}

// completeTool completes the name of a tool that runnel itself serves.
func (i *invocation) completeTool(cmd *cobra.Command, args []string,
	toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	words, directive := i.completeCall(cmd, nil, toComplete)
	if len(args) > 0 && directive != cobra.ShellCompDirectiveDefault {
		words = nil
	}
	return words, directive
}

// completeArgument completes key= and, if the values are listed, the value.
func completeArgument(tool *mcp.Tool, given []string,
	toComplete string) (words []cobra.Completion, d cobra.ShellCompDirective) {
	s := term.ReadForm(tool.InputSchema)
	if key, _, ok := strings.Cut(toComplete, "="); ok {
		p := s.Find(key)
		values := p.Words()
		if slices.Contains(p.AllTypes(), "boolean") {
			values = append(values, "true", "false")
		}
		for _, v := range values {
			words = append(words, term.Printable(key+"="+v))
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	has := map[string]bool{}
	for _, word := range given {
		key, _, _ := strings.Cut(word, "=")
		has[key] = true
	}
	for _, p := range s {
		if !has[p.Name] {
			words = append(words, cobra.CompletionWithDesc(term.Printable(p.Name+"="),
				term.Printable(p.Description)))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeFlags completes the values of flags that are a Choice.
func completeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(*serve.Choice); ok {
			words := slices.DeleteFunc(slices.Clone(v.Words), func(word string) bool { return word == "" })
			// It fails only for a flag that is registered already: serve shares those of root.
			_ = cmd.RegisterFlagCompletionFunc(f.Name,
				cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}
