package text

import (
	"slices"
	"strings"
)

// Nearest returns the names that may have been meant by a misspelt one, at most three, the nearest first.
func Nearest(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, n := range names {
		a, b := strings.ToLower(name), strings.ToLower(n)
		distance := editDistance(a, b)
		switch {
		case distance <= max(1, min(len(a), len(b))/3): // two letters of six
		case len(a) >= 3 && (strings.HasPrefix(b, a) || strings.HasPrefix(a, b)):
		default:
			continue
		}
		near = append(near, candidate{n, distance})
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	const most = 3
	var list []string
	for _, c := range near[:min(len(near), most)] {
		list = append(list, c.name)
	}
	return list
}

// editDistance counts the bytes to insert, delete, replace or swap with their neighbour (optimal string
// alignment).
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := 1
			if a[i-1] == b[j-1] {
				replace = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
