package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The shapes that the decoder is compared on. Together they hold every rule of
// encoding/json that a decoder can get wrong.

// event is the example's record: about 120 bytes, five fields.
type event struct {
	ID     int64  `json:"id"`
	TS     int64  `json:"ts"`
	Source string `json:"source"`
	Client string `json:"client"`
	Health int    `json:"health"`
}

// small has three names which differ from their fields by case only.
type small struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

// order nests structs, slices and maps as business records do.
type order struct {
	ID    string            `json:"id"`
	At    time.Time         `json:"at"`
	Buyer *small            `json:"buyer"`
	Lines []line            `json:"lines"`
	Tags  map[string]string `json:"tags"`
}

type line struct {
	SKU   string  `json:"sku"`
	Count int     `json:"count"`
	Price float64 `json:"price"`
}

// shortKey is a map key that parses its text and refuses long ones.
type shortKey string

func (k *shortKey) UnmarshalText(b []byte) error {
	if len(b) > 3 {
		return errors.New("key too long")
	}
	*k = shortKey("key:" + string(b))
	return nil
}

// recorder keeps what its unmarshaler was given, and refuses one number.
type recorder struct{ Seen string }

func (r *recorder) UnmarshalJSON(b []byte) error {
	r.Seen += "<" + string(b) + ">"
	if string(b) == "13" {
		return errors.New("unlucky")
	}
	return nil
}

type base struct {
	E  int `json:"e"`
	ID int `json:"ID"`
}

type hidden struct{ H, X int }

type hiddenPointer struct{ Y int }

// everything has a field of each kind.
type everything struct {
	base
	hidden
	*hiddenPointer

	Int      int                       `json:"i"`
	Int8     int8                      `json:"i8"`
	Uint8    uint8                     `json:"u8"`
	Uint64   uint64                    `json:"u"`
	Float    float64                   `json:"f"`
	Float32  float32                   `json:"f32"`
	Bool     bool                      `json:"b"`
	String   string                    `json:"s"`
	Bytes    []byte                    `json:"by"`
	Pointer  *int                      `json:"p"`
	Text     *string                   `json:"ps"`
	List     []int                     `json:"l"`
	Array    [2]int                    `json:"a"`
	Map      map[string]int            `json:"m"`
	IntMap   map[int]string            `json:"mi"`
	KeyMap   map[shortKey]int          `json:"mk"`
	Any      any                       `json:"any"`
	Raw      json.RawMessage           `json:"r"`
	Number   json.Number               `json:"n"`
	Time     time.Time                 `json:"t"`
	Custom   recorder                  `json:"c"`
	CustomP  *recorder                 `json:"pc"`
	Self     *everything               `json:"sub"`
	Structs  []base                    `json:"ls"`
	Maps     []map[string]any          `json:"lm"`
	Lists    [][]string                `json:"la"`
	Folded   string                    `json:"Kk"`
	LongS    int                       `json:"sſk"`
	Ignored  int                       `json:"-"`
	Dash     int                       `json:"-,"`
	Duration time.Duration             `json:"d"`
	Pointers map[string]*base          `json:"mm"`
	Deep     map[string]map[string]int `json:"mmm"`
	Iface    fmt.Stringer              `json:"ifc"`
}

// quoted has fields with the "string" option: the one rule of encoding/json
// that the fast decoder is known to keep differently.
type quoted struct {
	Int      int           `json:"qi,string"`
	Uint8    uint8         `json:"qu,omitempty,string"`
	String   string        `json:"qs,string"`
	Bool     *bool         `json:"qb,string"`
	Float    float64       `json:"qf,string"`
	Number   json.Number   `json:"qn,string"`
	Duration time.Duration `json:"qd,string"`
	Pointer  **int         `json:"qp,string"`
	List     []int         `json:"ql,string"`
}

// quotedInside reaches a quoted field only through other types.
type quotedInside struct {
	Map map[string][]*quoted `json:"m"`
	Any any                  `json:"any"`
}
