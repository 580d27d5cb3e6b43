// Bench measures runnel side by side with other servers that offer the same tools, and prints a Markdown
// table.
//
//	go -C testdata/bench run . -runnel ../../bin/runnel
//
// The figures of one run stand beside each other because the servers take turns in it: machines differ, and
// the same one differs from minute to minute. Nothing here passes or fails.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// server is a program that is measured.
type server struct {
	name string
	argv []string
	task bool // its streams are tasks
}

// peers are the programs beside this one, in the order of the table.
var peers = []struct{ dir, name string }{
	{"floor", "floor"},
	{"jsonrpc2", "sourcegraph/jsonrpc2"},
	{"gosdk", "official Go SDK"},
	{"mcpgo", "mcp-go"},
}

func main() {
	runnel := flag.String("runnel", "../../bin/runnel", "the runnel to measure")
	rounds := flag.Int("rounds", 5, "how often each measurement is taken; the median is shown")
	before := flag.String("before", "",
		"another runnel to measure in turn with it, such as one from before a change")
	only := flag.String("only", "", "measure only what has this in its name")
	alone := flag.Bool("alone", false, "measure only runnel and the floor")
	side := flag.Bool("states", false,
		"measure states beside each other instead: SQLite, NATS, Redis, and a fleet of workers")
	fleet := flag.Bool("fleet", false, "measure calls by workers beside calls where they are made instead")
	flag.Parse()
	if *side || *fleet {
		take := func() error { return benchStates(*rounds, *only) }
		if *fleet {
			take = func() error { return benchFleet(*rounds, *only, *before) }
		}
		if err := take(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := bench(*runnel, *before, *rounds, *only, *alone); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(runnel, before string, rounds int, only string, alone bool) error {
	dir, err := os.MkdirTemp("", "runnel-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+"/", "./floor", "./httpfloor", "./jsonrpc2", "./gosdk",
		"./mcpgo", "./talker")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the peers: %w", err)
	}
	var servers []server
	for _, p := range peers {
		program := filepath.Join(dir, p.dir)
		if err := install(program, program); err != nil {
			return err
		}
		if !alone || p.dir == "floor" {
			servers = append(servers, server{name: p.name, argv: []string{program}})
		}
	}
	for _, own := range []struct{ name, program string }{{"runnel", runnel}, {"before", before}} {
		if own.program == "" {
			continue
		}
		program := filepath.Join(dir, own.name)
		if err := install(own.program, program); err != nil {
			return fmt.Errorf("no runnel to measure (make build): %w", err)
		}
		servers = append(servers, server{
			name: own.name,
			argv: []string{program, "--selftest", "--state", "memory", "--pace", "0", "--max-tasks", "2000",
				"--max-in-flight", "2000", "--log-level", "error"},
			task: true,
		})
	}
	t := newTable(servers)
	for _, m := range measurements {
		if !strings.Contains(m.name, only) {
			continue
		}
		for range rounds {
			for _, s := range servers {
				if m.only != "" && !s.task {
					continue
				}
				fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, s.name)
				values, err := m.take(dir, s)
				if errors.Is(err, errCannot) {
					continue
				}
				if err != nil {
					return fmt.Errorf("%s of %s: %w", m.name, s.name, err)
				}
				t.add(s.name, values)
			}
		}
	}
	t.print(os.Stdout)
	return nil
}

// install copies a program, as users get it: as the linker wrote it, its pages lie apart in the system's
// cache, and it starts an eighth later.
func install(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// errCannot is what a server that cannot do something at all is skipped for.
var errCannot = errors.New("cannot do this")

// value is one figure.
type value struct {
	row    string
	number float64
	unit   string
}

// table collects figures: rows of what was measured, a column for each server.
type table struct {
	servers []server
	rows    []string
	unit    map[string]string
	values  map[[2]string][]float64 // by row and server
}

func newTable(servers []server) *table {
	return &table{servers: servers, unit: map[string]string{}, values: map[[2]string][]float64{}}
}

func (t *table) add(server string, values []value) {
	for _, v := range values {
		if _, ok := t.unit[v.row]; !ok {
			t.rows = append(t.rows, v.row)
		}
		t.unit[v.row] = v.unit
		key := [2]string{v.row, server}
		t.values[key] = append(t.values[key], v.number)
	}
}

func (t *table) median(row, server string) (float64, bool) {
	v := slices.Sorted(slices.Values(t.values[[2]string{row, server}]))
	if len(v) == 0 {
		return 0, false
	}
	return v[len(v)/2], true
}

func (t *table) print(w *os.File) {
	fmt.Fprintf(w, "%s, %d processors, Linux %s, %s, %s\n\n", runtime.Version(), runtime.NumCPU(), kernel(),
		processor(), time.Now().UTC().Format(time.DateOnly))
	fmt.Fprint(w, "|")
	for _, s := range t.servers {
		fmt.Fprintf(w, " | %s", s.name)
	}
	fmt.Fprint(w, " | runnel ÷ floor |\n|---")
	for range t.servers {
		fmt.Fprint(w, "|---")
	}
	fmt.Fprint(w, "|---|\n")
	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s", row)
		for _, s := range t.servers {
			cell := "–"
			if v, ok := t.median(row, s.name); ok {
				cell = show(v, t.unit[row])
			}
			fmt.Fprintf(w, " | %s", cell)
		}
		ratio := "–"
		floor, ok := t.median(row, "floor")
		if own, measured := t.median(row, "runnel"); ok && measured && floor > 0 {
			ratio = fmt.Sprintf("%.2f", own/floor)
		}
		fmt.Fprintf(w, " | %s |\n", ratio)
	}
}

// show writes a figure with three digits.
func show(v float64, unit string) string {
	switch {
	case unit == "/s" && v >= 1e6:
		return fmt.Sprintf("%.2f M/s", v/1e6)
	case unit == "/s" && v >= 1e3:
		return fmt.Sprintf("%.0f k/s", v/1e3)
	case unit == "ns" && v >= 1e6:
		return fmt.Sprintf("%.2f ms", v/1e6)
	case unit == "ns" && v >= 1e3:
		return fmt.Sprintf("%.1f µs", v/1e3)
	case unit == "ns" && v < 10:
		return fmt.Sprintf("%.1f ns", v)
	case unit == "ns":
		return fmt.Sprintf("%.0f ns", v)
	}
	return strings.TrimSpace(fmt.Sprintf("%.1f %s", v, unit))
}

func kernel() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty where there is none
	return strings.TrimSpace(string(b))
}

func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}
