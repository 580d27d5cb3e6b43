package main

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

const (
	letterWidth, lineHeight, margin = 8.5, 19, 16 // pixels, at a font of 14
	bar                             = 28          // above the screen: the frame of a window
)

// styles are the looks that the programs of the script use.
var styles = map[string]string{
	"1": "font-weight:bold", "2": "fill:#8b949e", "31": "fill:#ff7b72", "32": "fill:#7ee787", "33": "fill:#e3b341", "36": "fill:#79c0ff",
}

// draw makes the picture: a text for each line of the screen, shown while it stood there, again and again.
// Where nothing moves (a viewer without animations, or a reader who wants none) it is the last screen.
func draw(r *recording) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	whole := time.Since(r.began)
	stretches := r.stretches
	for row := range r.current {
		if c := r.current[row]; len(c.line) > 0 {
			c.to = whole
			stretches = append(stretches, c)
		}
	}
	width, height := int(columns*letterWidth)+2*margin, rows*lineHeight+2*margin+bar

	var rules, texts strings.Builder
	percent := func(d time.Duration) string { return fmt.Sprintf("%.2f%%", 100*float64(d)/float64(whole)) }
	spans := map[string]string{} // the name of the rule for a span of time
	for _, s := range stretches {
		name, ok := spans[percent(s.from)+percent(s.to)]
		if !ok {
			name = fmt.Sprintf("t%d", len(spans))
			spans[percent(s.from)+percent(s.to)] = name
			fmt.Fprintf(&rules, "@keyframes %s{0%%{opacity:0}%s{opacity:1}%s{opacity:%d}}.%[1]s{animation-name:%[1]s}\n",
				name, percent(s.from), percent(s.to), last(s.to == whole))
		}
		fmt.Fprintf(&texts, `<text class="%s" y="%d" opacity="%d">%s</text>`+"\n", name, bar+margin+(s.row+1)*lineHeight-5, last(s.to == whole), spansOf(s.line))
	}

	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-label="A terminal session with runnel">
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre;animation-duration:%.1[3]fs;animation-timing-function:step-end;animation-iteration-count:infinite}
@media (prefers-reduced-motion:reduce){text{animation:none}}
%[4]s</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#0d1117"/>
<circle cx="20" cy="16" r="5" fill="#ff5f57"/><circle cx="38" cy="16" r="5" fill="#febc2e"/><circle cx="56" cy="16" r="5" fill="#28c840"/>
<g transform="translate(%[5]d 0)">
%[6]s</g>
</svg>
`, width, height, whole.Seconds(), rules.String(), margin, texts.String())
}

func last(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// spansOf is a line with its looks. Blanks at its beginning would be lost where white-space is not known.
func spansOf(line []cell) string {
	var b strings.Builder
	for len(line) > 0 {
		n := 0
		for n < len(line) && line[n].style == line[0].style {
			n++
		}
		var text strings.Builder
		_ = xml.EscapeText(&text, []byte(strings.ReplaceAll(plain(line[:n]), " ", "\u00a0")))
		if look := styles[line[0].style]; look != "" {
			fmt.Fprintf(&b, `<tspan style="%s">%s</tspan>`, look, text.String())
		} else {
			b.WriteString(text.String())
		}
		line = line[n:]
	}
	return b.String()
}
