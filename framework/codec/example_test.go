package codec_test

import (
	"fmt"

	"github.com/lockstep-stream/lockstep/framework/codec"
)

func ExampleJSON() {
	type Event struct {
		ID     int64  `json:"id"`
		Source string `json:"source"`
	}
	events := codec.JSON[Event]()

	var e Event
	if err := events.Decode([]byte(`{"id":7,"source":"pump-3"}`), &e); err != nil {
		fmt.Println(err)
	}
	key, err := events.Append(nil, e)
	fmt.Println(e.Source, string(key), err)
	fmt.Println(events.Decode([]byte(`{"id":"seven"}`), &e))
	// Output:
	// pump-3 {"id":7,"source":"pump-3"} <nil>
	// json: cannot unmarshal string into Go struct field Event.id of type int64
}
