package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A cell is a character of the screen and how it looks.
type cell struct {
	char rune
	look
}

type look struct {
	color    string // "" = the terminal's
	bold     bool
	dim      bool
	reversed bool
}

var sequence = regexp.MustCompile(`^\x1b\[([0-9;]*)m`)

// parse reads the lines of a screen. A look goes on in the next line. Backgrounds are not drawn.
func parse(screen string) (lines [][]cell) {
	var now look
	for text := range strings.Lines(screen) {
		text = strings.TrimRight(text, "\n")
		var line []cell
		for text != "" {
			if m := sequence.FindStringSubmatch(text); m != nil {
				now = now.apply(strings.Split(m[1], ";"))
				text = text[len(m[0]):]
				continue
			}
			char := []rune(text)[0]
			text = text[len(string(char)):]
			c := cell{char, now}
			if c.char == ' ' && c.reversed { // a cursor
				c.char = '█'
			}
			line = append(line, c)
		}
		for len(line) > 0 && line[len(line)-1].char == ' ' {
			line = line[:len(line)-1]
		}
		lines = append(lines, line)
	}
	return lines
}

// apply returns the look after the parameters of an SGR sequence.
func (l look) apply(parameters []string) look {
	for i := 0; i < len(parameters); i++ {
		n, _ := strconv.Atoi(parameters[i])
		switch {
		case n == 0:
			l = look{}
		case n == 1:
			l.bold = true
		case n == 2:
			l.dim = true
		case n == 7:
			l.reversed = true
		case n == 22:
			l.bold, l.dim = false, false
		case n == 27:
			l.reversed = false
		case n >= 30 && n < 38:
			l.color = palette(n - 30)
		case n == 39:
			l.color = ""
		case n >= 90 && n < 98:
			l.color = palette(n - 90 + 8)
		case (n == 38 || n == 48) && i+2 < len(parameters) && parameters[i+1] == "5":
			if index, _ := strconv.Atoi(parameters[i+2]); n == 38 {
				l.color = palette(index)
			}
			i += 2
		}
	}
	return l
}

// palette is a colour of the 256 that terminals have.
func palette(n int) string {
	switch {
	case n < 16:
		return [...]string{
			"#484f58", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#e6edf3",
		}[n%8]
	case n >= 232:
		grey := 8 + 10*(n-232)
		return fmt.Sprintf("#%02x%02[1]x%02[1]x", grey)
	}
	level := func(n int) int {
		if n == 0 {
			return 0
		}
		return 55 + 40*n
	}
	n -= 16
	return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
}
