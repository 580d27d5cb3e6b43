package tracker

import "fmt"

// Gap is output that did not come.
type Gap struct {
	From, To int64 // the first and the last sequence number that is missing; To < From: up to an end that is not known
	Bytes    int64 // text that came before it, in bytes
}

func (g Gap) String() string {
	switch {
	case g.To < g.From:
		return fmt.Sprintf("gap: the output from number %d on did not come (after %d bytes)", g.From, g.Bytes)
	case g.To == g.From:
		return fmt.Sprintf("gap: number %d of the output did not come (after %d bytes)", g.From, g.Bytes)
	}
	return fmt.Sprintf("gap: numbers %d to %d of the output did not come (after %d bytes)", g.From, g.To, g.Bytes)
}
