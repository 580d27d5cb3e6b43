package jsonschema

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// decimal is a number as JSON writes it, exactly: ± digits × 10^exponent. digits begin and end with no 0, so that equal
// numbers are equal decimals; 0 has none. 1e999999999 takes no more room than 1.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func numberOf(v any) (string, bool) {
	n, ok := v.(json.Number)
	return string(n), ok
}

// parseDecimal reads a JSON number.
func parseDecimal(text string) decimal {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	const farthest = math.MaxInt / 4 // beyond it exponents are taken as equal
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		d.exponent, _ = strconv.Atoi(strings.TrimPrefix(text[i+1:], "+")) // the nearest int if it is out of range
		d.exponent = max(-farthest, min(farthest, d.exponent))
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	d.exponent -= len(fraction)
	digits := whole + fraction
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits)
	if d.digits = strings.TrimLeft(d.digits, "0"); d.digits == "" {
		return decimal{}
	}
	return d
}

func (d decimal) isInteger() bool { return d.exponent >= 0 }

// int is an integer that is not negative as an int, the greatest one if it is greater.
func (d decimal) int() int {
	if len(d.digits)+d.exponent > 18 {
		return math.MaxInt
	}
	n, _ := strconv.Atoi(d.digits + strings.Repeat("0", max(d.exponent, 0)))
	return n
}

// compare returns -1, 0 or 1.
func (d decimal) compare(with decimal) int {
	if d == with {
		return 0
	}
	sign := 1
	switch {
	case d.sign() < with.sign():
		return -1
	case d.sign() > with.sign():
		return 1
	case d.negative:
		sign = -1
	}
	if a, b := len(d.digits)+d.exponent, len(with.digits)+with.exponent; a != b { // the places before the point
		if a < b {
			return -sign
		}
		return sign
	}
	return sign * strings.Compare(d.digits, with.digits) // none ends with a 0
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// multipleOf tells whether d is n times m for an integer n. m is greater than 0.
func (d decimal) multipleOf(m decimal) bool {
	if d.digits == "" {
		return true
	}
	a, _ := new(big.Int).SetString(d.digits, 10)
	b, _ := new(big.Int).SetString(m.digits, 10)
	ten, shift := big.NewInt(10), d.exponent-m.exponent
	switch {
	case shift >= 0: // b divides a × 10^shift
		a.Mul(a, ten.Exp(ten, big.NewInt(int64(shift)), b))
	case -shift >= len(d.digits): // a is less than 10^-shift
		return false
	default:
		b.Mul(b, ten.Exp(ten, big.NewInt(int64(-shift)), nil))
	}
	return a.Mod(a, b).Sign() == 0
}
