package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shown is bytes that are to be read by people: as they are if they are text, else
// in hexadecimal.
func shown(b []byte) string {
	switch {
	case b == nil:
		return "(none)"
	case !isText(b):
		return fmt.Sprintf("0x%x", b)
	default:
		return string(b)
	}
}

// isText reports whether bytes can be written to a terminal without harm.
func isText(b []byte) bool {
	return utf8.Valid(b) && strings.IndexFunc(string(b), func(r rune) bool {
		return !unicode.IsGraphic(r) && r != '\n' && r != '\t'
	}) < 0
}

// cut makes a text short enough for a table.
func cut(s string, most int) string {
	s = oneLine(s)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// printable keeps a text of any origin from doing something to a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || r == '\n' || r == '\t' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// octets are bytes in JSON: null, {"text": …} if they are UTF-8, or {"base64": …}.
type octets []byte

// MarshalJSON implements json.Marshaler.
func (o octets) MarshalJSON() ([]byte, error) {
	switch {
	case o == nil:
		return []byte("null"), nil
	case utf8.Valid(o):
		return json.Marshal(map[string]string{"text": string(o)})
	default:
		return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(o)})
	}
}
