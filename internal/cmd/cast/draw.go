package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	letterWidth, lineHeight, margin = 8.5, 19, 16 // pixels, at a font of 14
	bar                             = 28          // above a screen: the frame of a window
	gap                             = 12          // between two windows
)

// forever is the end of what a session shows last.
var forever = math.Inf(1)

// draw makes the picture: a text for each line of a screen, shown while it stood there, again and again.
// Where nothing moves (a viewer without animations, or a reader who wants none) it is the last screens.
func draw(sessions []session, length time.Duration) string {
	whole, rows := 0.0, 0
	for _, s := range sessions {
		whole = max(whole, s.seconds)
		rows = max(rows, s.rows)
	}
	percent := func(second float64) string { return fmt.Sprintf("%.4g%%", 100*min(second/whole, 1)) }

	var rules, windows strings.Builder
	spans := map[string]string{} // the name of the rule for a span of time
	left, height := 0, rows*lineHeight+2*margin+bar
	var titles []string
	for _, s := range sessions {
		width := int(float64(s.columns)*letterWidth) + 2*margin
		fmt.Fprintf(&windows, `<g transform="translate(%d)"><rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+
			`<text class="title" x="%[4]d" y="23">%s</text>`+"\n", left, width, height, margin,
			escaped(s.title))
		for _, c := range s.stretches {
			span := percent(c.from) + percent(c.to)
			if spans[span] == "" {
				spans[span] = fmt.Sprintf("t%d", len(spans))
				fmt.Fprintf(&rules, "@keyframes %s{0%%{opacity:0}%s{opacity:1}%s{opacity:%d}}.%[1]s{animation-name:%[1]s}\n",
					spans[span], percent(c.from), percent(c.to), last(c))
			}
			fmt.Fprintf(&windows, `<text class="%s" x="%d" y="%d" opacity="%d">%s</text>`+"\n",
				spans[span], margin, bar+margin+(c.row+1)*lineHeight-5, last(c), spansOf(c.line))
		}
		windows.WriteString("</g>\n")
		titles = append(titles, s.title)
		left += width + gap
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-label="Terminals: %[3]s">
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre;animation:%.1[4]fs step-end infinite}
.title{font-weight:bold;fill:#8b949e}
@media (prefers-reduced-motion:reduce){text{animation:none}}
%[5]s</style>
%[6]s</svg>
`, left-gap, height, escaped(strings.Join(titles, ", ")), length.Seconds(), rules.String(), windows.String())
}

// last is 1 for what is shown last.
func last(c stretch) int {
	if c.to == forever {
		return 1
	}
	return 0
}

// spansOf is a line with its looks. Blanks at its beginning would be lost where white-space is not known.
func spansOf(line []cell) string {
	var b strings.Builder
	for len(line) > 0 {
		n := 0
		for n < len(line) && (line[n].look == line[0].look || line[n].char == ' ') {
			n++
		}
		var text strings.Builder
		for _, c := range line[:n] {
			text.WriteRune(c.char)
		}
		words, attributes := escaped(strings.ReplaceAll(text.String(), " ", "\u00a0")), ""
		if line[0].dim && line[0].color == "" {
			line[0].color = "#8b949e"
		}
		if line[0].color != "" {
			attributes += fmt.Sprintf(` fill="%s"`, line[0].color)
		}
		if line[0].bold {
			attributes += ` font-weight="bold"`
		}
		if attributes != "" {
			words = "<tspan" + attributes + ">" + words + "</tspan>"
		}
		b.WriteString(words)
		line = line[n:]
	}
	return b.String()
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
