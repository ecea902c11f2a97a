package app

import "time"

// Topic is where the events are unless a flag says otherwise, and Partitions
// how many partitions it is created with.
const (
	Topic      = "exactlyonce.events"
	Partitions = 3
)

// LowHealth is the health below which an event counts as an alert.
const LowHealth = 10

// Event is the value of a record, as JSON.
type Event struct {
	ID     int64  `json:"id"`
	TS     int64  `json:"ts"` // milliseconds since 1970
	Source string `json:"source"`
	Client string `json:"client"`
	Health int32  `json:"health"` // 0 to 100
}

// SourceMinute is what alerts are counted by.
type SourceMinute struct {
	Source string `json:"source"`
	Minute int64  `json:"minute"` // its first millisecond since 1970
}

// Time returns the start of the minute.
func (m SourceMinute) Time() time.Time { return time.UnixMilli(m.Minute).UTC() }
