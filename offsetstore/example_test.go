package offsetstore_test

import (
	"fmt"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// What operators type is parsed strictly, and errors say what to type instead.
func ExampleParseStartRules() {
	rules, err := offsetstore.ParseStartRules("--start", "latest, orders=earliest, orders/3=2024-05-01T00:00:00Z, clicks=-2")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(rules.For(offsetstore.TopicPartition{Topic: "orders", Partition: 3}))
	fmt.Println(rules.For(offsetstore.TopicPartition{Topic: "orders", Partition: 4}))
	fmt.Println(rules.For(offsetstore.TopicPartition{Topic: "payments"}))

	_, err = offsetstore.ParseStartRules("--start", "orders=smallest")
	fmt.Println(err)
	// Output:
	// since 2024-05-01T00:00:00Z
	// earliest
	// latest
	// --start "orders=smallest": entry "orders=smallest": give "earliest" (-2), "latest" (-1), a time as milliseconds since 1970 or as 2024-05-01T00:00:00Z, or "offset:n"
}
