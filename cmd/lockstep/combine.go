package main

import (
	"bytes"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// combiners join two parts of a total.
var combiners = map[string]func(a, b *big.Rat) *big.Rat{
	"sum": func(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) },
	"min": func(a, b *big.Rat) *big.Rat {
		if a.Cmp(b) <= 0 {
			return a
		}
		return b
	},
	"max": func(a, b *big.Rat) *big.Rat {
		if a.Cmp(b) >= 0 {
			return a
		}
		return b
	},
}

// combine joins the parts of each key, which stand side by side.
func combine(parts []framework.StoredState, join func(a, b *big.Rat) *big.Rat) ([]framework.StoredState, error) {
	var totals []framework.StoredState
	var total *big.Rat
	for _, p := range parts {
		n, err := number(p)
		if err != nil {
			return nil, err
		}
		last := len(totals) - 1
		if last < 0 || !sameKey(totals[last], p) {
			totals, total = append(totals, p), n
			last++
		} else {
			total = join(total, n)
		}
		totals[last].Value = []byte(decimal(total))
	}
	return totals, nil
}

func sameKey(a, b framework.StoredState) bool {
	return a.Operator == b.Operator && a.Window == b.Window && bytes.Equal(a.Key, b.Key)
}

// number reads a part exactly.
func number(p framework.StoredState) (*big.Rat, error) {
	n, ok := parseNumber(string(p.Value))
	if !ok {
		return nil, fmt.Errorf("operator %q, key %s: %s is no number, and only numbers can be combined; leave out --combine", p.Operator, keyText(p.Key), cut(shown(p.Value), mostError))
	}
	return n, nil
}

// mostExponent keeps a number from taking a gigabyte; that of a float64 is less.
const mostExponent = 400

func parseNumber(text string) (*big.Rat, bool) {
	if text == "" || strings.Trim(text, "-+.eE0123456789") != "" {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok {
		n, err := strconv.Atoi(exponent)
		if err != nil || max(n, -n) > mostExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// mostDecimals is how exact a sum of fractions is written.
const mostDecimals = 20

func decimal(n *big.Rat) string {
	text := n.FloatString(mostDecimals)
	if strings.Trim(text, "-0.") == "" && n.Sign() != 0 {
		f, _ := n.Float64() // as good as what it was made of
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
