package command

import (
	"fmt"
	"strings"
	"testing"

	"runnel/tools/config"
)

// How long does a config of 50 tools take, before a client has its answer?
func BenchmarkConfig(b *testing.B) {
	var file strings.Builder
	file.WriteString("tools:\n")
	for i := range 50 {
		fmt.Fprintf(&file, `  tool%d:
    title: Tool %d
    description: Runs the program number %d on some files, and says what it did
    command: [echo, "-n={{count}}", "{{files}}"]
    input:
      files: {type: array, items: {type: string}, default: ["./..."]}
      count: {type: integer, minimum: 1, description: how many}
    required: [files]
    timeout: 10m
    progress: '\[(\d+)/(\d+)\]'
`, i, i, i)
	}
	text := []byte(file.String())
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := config.Parse("bench.yaml", text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("make", func(b *testing.B) {
		c, err := config.Parse("bench.yaml", text)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := All(c, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
