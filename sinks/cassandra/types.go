package cassandra

// cqlType is a column's type.
type cqlType struct{ text string }

// String returns the type as system_schema.columns spells it.
func (t *cqlType) String() string { return t.text }
