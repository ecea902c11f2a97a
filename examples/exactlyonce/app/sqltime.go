package app

import (
	"fmt"
	"time"
)

// sqlTime scans a time: SQLite's are text.
type sqlTime time.Time

func (t *sqlTime) Scan(v any) error {
	switch v := v.(type) {
	case time.Time:
		*t = sqlTime(v.UTC())
		return nil
	case string:
		at, err := time.Parse("2006-01-02 15:04:05.999999999Z07:00", v)
		*t = sqlTime(at)
		return err
	default:
		return fmt.Errorf("a time is stored as %T, not as a time or text", v)
	}
}
