package main

import (
	"encoding/json"
	"strconv"

	"github.com/lockstep-stream/lockstep/framework/codec"
)

// decoders turn values into what is shown, by the names of --values.
var decoders = map[string]func([]byte) ([]byte, error){
	"json": func(b []byte) ([]byte, error) { return b, nil },
	"int64": func(b []byte) ([]byte, error) {
		var n int64
		err := codec.Int64().Decode(b, &n)
		return strconv.AppendInt(nil, n, 10), err
	},
	"float64": func(b []byte) ([]byte, error) {
		var f float64
		if err := codec.Float64().Decode(b, &f); err != nil {
			return nil, err
		}
		return json.Marshal(f)
	},
}
