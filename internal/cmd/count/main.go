// Count prints the figures of the house that anybody can count again: of each room the files, lines, exported
// names, largest file and the references between its files, then what a request and a chunk pass in a runnel
// that runs.
//
//	go run ./internal/cmd/count        # from the top of the project
//	go run ./internal/cmd/count -v     # with the names of the functions and the places of the locks
//
// Neither tests nor what only tests import counts; files for other systems do, but for their references.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// room is a package.
type room struct {
	path  string
	files []*file
	pkg   *types.Package
	uses  map[*ast.Ident]types.Object

	exported, refs, up int
}

type file struct {
	name string // with its room's path
	ast  *ast.File
	code int // lines
}

var (
	fset    = token.NewFileSet()
	verbose = slices.Contains(os.Args, "-v")
)

func main() {
	rooms := readRooms()
	printRooms(rooms)
	dir := must(os.MkdirTemp("", "count"))
	defer func() { _ = os.RemoveAll(dir) }()
	output("go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o",
		filepath.Join(dir, "runnel"), ".")
	printWay(rooms, dir, "request", func(n int) []string {
		return slices.Repeat([]string{`"name":"echo","arguments":{"text":"x"}`}, n)
	})
	// Slow enough for each to have a notification of its own.
	printWay(rooms, dir, "chunk", func(n int) []string {
		return []string{fmt.Sprintf(`"name":"stream","arguments":{"count":%d,"intervalMs":2},"_meta":{"progressToken":1}`, n)}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal("count: ", err)
	}
	return v
}

// output runs a command.
func output(name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return string(must(cmd.Output()))
}

// readRooms reads the packages of which a runnel with all states is built.
func readRooms() (rooms []*room) {
	exports := map[string]string{} // compiled packages, in which the types of others stand
	library := importer.ForCompiler(fset, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for line := range strings.Lines(output("go", "list", "-deps", "-export", "-tags", "dynamodb", "-f",
		`{{.ImportPath}} {{.Export}} {{if .Module}}{{if .Module.Main}}{{.Dir}} {{join .GoFiles " "}} - {{join .IgnoredGoFiles " "}}{{end}}{{end}}`, ".")) {
		words := strings.Fields(line)
		if exports[words[0]] = words[min(1, len(words)-1)]; len(words) < 4 {
			continue // another module's
		}
		r := &room{path: words[0], uses: map[*ast.Ident]types.Object{}}
		var here []*ast.File // not those for other systems
		for _, name := range words[3:] {
			if strings.HasSuffix(name, "_test.go") || name == "-" {
				continue
			}
			path := filepath.Join(words[2], name)
			f := must(parser.ParseFile(fset, path, nil, parser.SkipObjectResolution))
			r.files = append(r.files, &file{r.path + "/" + name, f, codeLines(path)})
			if slices.Index(words, name) < slices.Index(words, "-") {
				here = append(here, f)
			}
		}
		r.pkg = must((&types.Config{Importer: library}).Check(r.path, fset, here, &types.Info{Uses: r.uses}))
		rooms = append(rooms, r)
	}
	return rooms
}

// codeLines counts the lines of a file that are neither blank nor comments.
func codeLines(name string) (n int) {
	for line := range strings.Lines(string(must(os.ReadFile(name)))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

func printRooms(rooms []*room) {
	const row = "%-24s %6v %6v %9v %6v %5v %4v  %v\n"
	fmt.Printf(row, "room", "files", "lines", "exported", "refs", "up", "%", "largest file")
	all := &room{path: "all"}
	for _, r := range append(rooms, all) {
		lines := 0
		for _, f := range r.files {
			lines += f.code
		}
		if r != all {
			r.exported = r.names()
			r.refs, r.up = r.references()
			all.files = append(all.files, r.files...)
			all.exported += r.exported
			all.refs += r.refs
			all.up += r.up
		}
		large := slices.MaxFunc(r.files, func(a, b *file) int { return a.code - b.code })
		fmt.Printf(row, r.path, len(r.files), lines, r.exported, r.refs, r.up, r.up*100/max(r.refs, 1),
			fmt.Sprintf("%s %d", large.name, large.code))
	}
}

// names counts the names that other packages can use: functions, types, variables, constants, and methods of
// such types.
func (r *room) names() (n int) {
	for _, name := range r.pkg.Scope().Names() {
		what := r.pkg.Scope().Lookup(name)
		if !what.Exported() {
			continue
		}
		n++
		if t, ok := what.Type().(*types.Named); ok && t.Obj() == what {
			for m := range t.Methods() {
				if m.Exported() {
					n++
				}
			}
		}
	}
	return n
}

// references counts what one file of a room declares and another one uses, once for each of the two, and what
// of it runs up when the files are laid out by who uses whom.
func (r *room) references() (all, up int) {
	number := map[string]int{}
	for i, f := range r.files {
		number[fset.File(f.ast.Pos()).Name()] = i
	}
	uses := make([][]int, len(r.files)) // uses[i][j]: how much of j is used in i
	for i := range uses {
		uses[i] = make([]int, len(uses))
	}
	seen := map[string]bool{}
	for id, what := range r.uses {
		if what.Pkg() != r.pkg || !what.Pos().IsValid() {
			continue
		}
		i, j := number[fset.File(id.Pos()).Name()], number[fset.File(what.Pos()).Name()]
		if use := fmt.Sprint(i, what.Pos()); i != j && !seen[use] {
			seen[use] = true
			uses[i][j]++
			all++
		}
	}
	order := layOut(uses)
	for at, i := range order {
		for _, j := range order[:at] {
			up += uses[i][j]
		}
	}
	return all, up
}

// layOut orders files so that little runs up: it moves one at a time to its best place, until no move helps.
func layOut(uses [][]int) (order []int) {
	for i := range uses {
		order = append(order, i)
	}
	for moved := true; moved; {
		moved = false
		for i := range uses {
			at := slices.Index(order, i)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			// costs are those of each place after the first: a file above may use i, and i may not use it.
			costs := make([]int, len(order))
			for place, j := range rest {
				costs[place+1] = costs[place] + uses[i][j] - uses[j][i]
			}
			if best := slices.Index(costs, slices.Min(costs)); costs[best] < costs[at] {
				order, moved = slices.Insert(rest, best, i), true
			}
		}
	}
	return order
}

// printWay prints what each of many calls or chunks passes: two sessions differ in nothing but their number.
func printWay(rooms []*room, dir, what string, calls func(n int) []string) {
	const few, many = 100, 300
	before, after := session(dir, calls(few)), session(dir, calls(many))
	var names, places []string
	locks, goroutines := 0.0, 0.0
	for _, r := range rooms {
		for _, f := range r.files {
			times := func(pos token.Pos) float64 {
				return float64(after.at(f.name, pos)-before.at(f.name, pos)) / (many - few)
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Body != nil && len(n.Body.List) > 0 && times(n.Body.List[0].Pos()) > 0.9 {
						names = append(names, f.name+" "+n.Name.Name)
					}
				case *ast.GoStmt:
					goroutines += times(n.Pos())
				case *ast.CallExpr:
					if s, ok := n.Fun.(*ast.SelectorExpr); ok &&
						(s.Sel.Name == "Lock" || s.Sel.Name == "RLock") {
						if t := times(n.Pos()); t > 0.01 {
							locks += t
							p := fset.Position(n.Pos())
							places = append(places, fmt.Sprintf("%s:%d takes %.2f locks", f.name, p.Line, t))
						}
					}
				}
				return true
			})
		}
	}
	fmt.Printf("\na %s passes %d functions, takes %.1f locks and starts %.1f goroutines\n", what, len(names),
		locks, goroutines)
	if verbose {
		fmt.Println("  " + strings.Join(append(names, places...), "\n  "))
	}
}

// counts says how often each piece of a file's code ran.
type counts map[string][]piece

type piece struct{ begin, end, ran int }

// place is a position in a file as one number.
func place(line, column int) int { return line<<16 | column }

// at returns how often the code at a position ran: that of the piece that begins last before it.
func (c counts) at(file string, pos token.Pos) int {
	p, last := fset.Position(pos), piece{}
	for _, q := range c[file] {
		if here := place(p.Line, p.Column); q.begin <= here && here < q.end && q.begin > last.begin {
			last = q
		}
	}
	return last.ran
}

// session makes calls of tools, each after the answer to the one before.
func session(dir string, calls []string) counts {
	covered := must(os.MkdirTemp(dir, ""))
	cmd := exec.Command(filepath.Join(dir, "runnel"), "--selftest", "--state", "memory", "--pace", "0",
		"--log-level", "error")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+covered, "XDG_CONFIG_HOME="+covered)
	in, out := must(cmd.StdinPipe()), bufio.NewReader(must(cmd.StdoutPipe()))
	must(0, cmd.Start())
	ask := func(method, params string) {
		must(fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`+"\n", method, params))
		for !strings.Contains(must(out.ReadString('\n')), `"result"`) {
		}
	}
	ask("initialize",
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"count","version":"1"}`)
	for _, call := range calls {
		ask("tools/call", call)
	}
	in.Close()
	must(io.Copy(io.Discard, out))
	must(0, cmd.Wait())
	output("go", "tool", "covdata", "textfmt", "-i", covered, "-o", covered+".txt")
	c := counts{}
	for line := range strings.Lines(string(must(os.ReadFile(covered + ".txt")))) {
		name, rest, _ := strings.Cut(line, ":")
		var line, column, endLine, endColumn, statements, ran int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &line, &column, &endLine, &endColumn, &statements,
			&ran); err == nil {
			c[name] = append(c[name], piece{place(line, column), place(endLine, endColumn), ran})
		}
	}
	return c
}
