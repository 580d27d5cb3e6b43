package manual

import (
	"fmt"
	"strings"
)

// Roff returns the page as a man page of section 7, in the language of man(7).
func (t Topic) Roff(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH RUNNEL-%s 7 \"\" \"runnel %s\"\n.SH NAME\nrunnel-%s \\- %s\n.SH DESCRIPTION\n",
		strings.ToUpper(t.Name), Escape(version), t.Name,
		strings.TrimSuffix(Escape(t.About), "."))
	all := blocks(t.page)[2:]
	for _, block := range all {
		text := spell(block.text, Escape, strong)
		switch block.kind {
		case heading:
			fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(Escape(spell(block.text, as, as))))
		case paragraph:
			fmt.Fprintf(&b, "%s\n%s\n", []string{".PP", ".IP"}[block.level], text)
		case item:
			fmt.Fprintf(&b, ".IP \\(bu 2\n%s\n", text)
		case code:
			fmt.Fprintf(&b, ".PP\n.RS 4\n.nf\n%s\n.fi\n.RE\n", Escape(block.text))
		case table:
			for _, row := range block.rows {
				var rest []string
				for n, cell := range row[1:] {
					if cell == "" || cell == "–" {
						continue
					}
					if name := block.header[n+1]; len(row) > 2 && name != "meaning" {
						cell = name + ": " + cell
					}
					rest = append(rest, spell(cell, Escape, strong))
				}
				fmt.Fprintf(&b, ".TP\n%s\n%s\n", spell(row[0], Escape, strong), strings.Join(rest, "\n.br\n"))
			}
		}
	}
	return b.String()
}

func strong(text string) string { return `\fB` + Escape(strings.Trim(text, "`")) + `\fR` }

// Escape escapes text for man(7).
func Escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(strings.TrimRight(text, "\n"))
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[n] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
