package tracker

import "fmt"

// Gap is output that did not come.
// Options.Gap gets it; show it, since the output around it reads as if it were whole.
type Gap struct {
	From, To int64 // the first and the last missing number; To < From: up to an unknown end
	Bytes    int64 // bytes of the text before the gap
}

// String tells people which pieces are missing.
func (g Gap) String() string {
	switch {
	case g.To < g.From:
		return fmt.Sprintf("gap: the output from number %d on did not come (after %d bytes)", g.From, g.Bytes)
	case g.To == g.From:
		return fmt.Sprintf("gap: number %d of the output did not come (after %d bytes)", g.From, g.Bytes)
	}
	return fmt.Sprintf("gap: numbers %d to %d of the output did not come (after %d bytes)", g.From, g.To, g.Bytes)
}
