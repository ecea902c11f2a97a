package cassandra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

// The limits for gc_grace_seconds of a table that is written to. After that time
// Cassandra forgets deletions, and a save applied later would bring back what
// they removed; the lease of an apply is far below an hour.
const (
	minGCGrace  = time.Hour
	warnGCGrace = 24 * time.Hour
)

// catalog knows the real tables of the sink's keyspace: which targets were
// checked against them, and their identities. It may be used concurrently.
type catalog struct {
	session  *gocql.Session
	keyspace string
	log      *slog.Logger

	mu     sync.RWMutex
	tables map[*target]*boundTarget
}

func newCatalog(s *gocql.Session, cfg *Config) *catalog {
	return &catalog{session: s, keyspace: cfg.Keyspace, log: cfg.Logger, tables: map[*target]*boundTarget{}}
}

// bound returns the checked form of t.
func (c *catalog) bound(t *target) (*boundTarget, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, ok := c.tables[t]
	return b, ok
}

// check compares targets with the real tables and binds them. The error lists
// every difference; it wraps framework.ErrConfig, or framework.ErrUnavailable if
// the schema could not be read.
func (c *catalog) check(ctx context.Context, targets ...*target) error {
	var errs []error
	for _, t := range targets {
		real, err := c.read(ctx, t.name)
		if err != nil {
			return err
		}
		faults := real.compare(t)
		if len(faults) == 0 {
			faults = real.unsafe()
		}
		if len(faults) > 0 {
			errs = append(errs, &SchemaError{Keyspace: c.keyspace, Table: t.name, Missing: !real.exists, Faults: faults})
			continue
		}
		if real.gcGrace < warnGCGrace {
			c.log.Warn("cassandra: gc_grace_seconds is short; deletions may be undone when a node was down for longer",
				"table", t.name, "gc_grace", real.gcGrace, "recommended", warnGCGrace)
		}
		b := t.bind(c.keyspace, real.id)
		b.limits = real.limitsFor(t)
		c.put(t, b)
	}
	return errors.Join(errs...)
}

func (c *catalog) put(t *target, b *boundTarget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tables[t] = b
}

// verify reads the identities of all bound tables anew; a table that was dropped
// or made again since check is an error that wraps framework.ErrConfig.
func (c *catalog) verify(ctx context.Context) error {
	c.mu.RLock()
	targets := make([]*boundTarget, 0, len(c.tables))
	for _, b := range c.tables {
		targets = append(targets, b)
	}
	c.mu.RUnlock()
	for _, b := range targets {
		real := realTable{name: b.name}
		if err := c.readTable(ctx, &real); err != nil {
			return err
		}
		if fault := real.identityFault(b.id); fault != "" {
			return &SchemaError{Keyspace: c.keyspace, Table: b.name, Missing: !real.exists, Faults: []string{fault}}
		}
	}
	return nil
}

// resolve implements resolver against the real schema, read anew: a blob may have
// been written by another version of the program, for tables or columns that
// this one does not name.
func (c *catalog) resolve(ctx context.Context, t *target, id tableID) (*boundTarget, error) {
	real, err := c.read(ctx, t.name)
	if err != nil {
		return nil, err
	}
	var faults []string
	if fault := real.identityFault(id); fault != "" {
		faults = append(faults, fault)
	} else {
		faults = real.compare(t)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("a save that is committed but not applied writes to a table that has changed since; restore the table, or move the position by a Reset (`lockstep reset`), to where it is or elsewhere, which takes a table that was made again as it is: %w",
			&SchemaError{Keyspace: c.keyspace, Table: t.name, Missing: !real.exists, Faults: faults})
	}
	return t.bind(c.keyspace, real.id), nil
}

// SchemaError says how a real table differs from what the program declares. It
// matches framework.ErrConfig.
type SchemaError struct {
	Keyspace, Table string
	Missing         bool     // the table does not exist
	Faults          []string // each names the column, what is expected and what was found
}

// Error lists the faults.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("cassandra: table %s.%s: %s", e.Keyspace, e.Table, strings.Join(e.Faults, "; "))
}

// Is reports whether target is framework.ErrConfig.
func (e *SchemaError) Is(target error) bool { return target == framework.ErrConfig }

// realTable is a table as system_schema describes it.
type realTable struct {
	name       string
	exists     bool
	id         tableID
	defaultTTL time.Duration
	gcGrace    time.Duration
	columns    map[string]realColumn
	types      map[string]userType // by the name as a type spells it
	indexed    map[string]int      // the limit of an indexed column's values, in bytes
}

type realColumn struct{ typ, kind string }

type userType struct{ names, types []string }

// read reads a table with its columns and indexes, and the user types of the
// keyspace.
func (c *catalog) read(ctx context.Context, table string) (*realTable, error) {
	t := &realTable{name: table, columns: map[string]realColumn{}}
	err := errors.Join(c.readTable(ctx, t), c.readColumns(ctx, t), c.readTypes(ctx, t), c.readIndexes(ctx, t))
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (c *catalog) query(ctx context.Context, cql string, args ...any) *gocql.Query {
	return c.session.Query(cql, args...).WithContext(ctx).Consistency(gocql.One) // a local table of each node
}

func (c *catalog) readTable(ctx context.Context, t *realTable) error {
	var ttl, grace int
	var id gocql.UUID
	err := c.query(ctx, "SELECT id, default_time_to_live, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?",
		c.keyspace, t.name).Scan(&id, &ttl, &grace)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil
	}
	t.exists, t.id = true, tableID(id)
	t.defaultTTL, t.gcGrace = time.Duration(ttl)*time.Second, time.Duration(grace)*time.Second
	return c.readError(t.name, err)
}

func (c *catalog) readError(table string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cassandra: reading the schema of %s.%s: %w: %w", c.keyspace, table, framework.ErrUnavailable, err)
}

func (c *catalog) readColumns(ctx context.Context, t *realTable) error {
	iter := c.query(ctx, "SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?",
		c.keyspace, t.name).Iter()
	var name string
	var col realColumn
	for iter.Scan(&name, &col.typ, &col.kind) {
		t.columns[name] = col
	}
	return c.readError(t.name, iter.Close())
}

func (c *catalog) readTypes(ctx context.Context, t *realTable) error {
	iter := c.query(ctx, "SELECT type_name, field_names, field_types FROM system_schema.types WHERE keyspace_name = ?", c.keyspace).Iter()
	t.types = map[string]userType{}
	for {
		// The driver would otherwise fill the same slices again.
		var name string
		var u userType
		if !iter.Scan(&name, &u.names, &u.types) {
			break
		}
		t.types[userTypeName(name)] = u
	}
	return c.readError(t.name, iter.Close())
}

// identityFault says why the table is not the one with id, if so.
func (t *realTable) identityFault(id tableID) string {
	switch {
	case !t.exists:
		return fmt.Sprintf("it does not exist any more (expected id %s)", gocql.UUID(id))
	case id != anyTable && t.id != id:
		return fmt.Sprintf("it was dropped and created again: expected id %s, found %s", gocql.UUID(id), gocql.UUID(t.id))
	}
	return ""
}

// compare returns how the table differs from what a target declares.
func (t *realTable) compare(want *target) []string {
	if !t.exists {
		return []string{"it does not exist; create it, or name its statement in Config.Schema and run Migrate"}
	}
	var faults []string
	declared := map[string]bool{}
	for _, c := range want.columns {
		declared[c.name] = true
		faults = append(faults, t.compareColumn(c)...)
	}
	for name, real := range t.columns {
		if !declared[name] && (real.kind == "partition_key" || real.kind == "clustering") {
			faults = append(faults, fmt.Sprintf("column %s: expected a field for this part of the primary key (%s), found none", name, real.kind))
		}
	}
	return faults
}

func (t *realTable) compareColumn(c column) []string {
	real, ok := t.columns[c.name]
	if !ok {
		return []string{fmt.Sprintf("column %s: expected %s, found no such column", c.name, c.typ)}
	}
	var faults []string
	if typ, err := parseType(real.typ); err != nil || typ.String() != c.typ.String() {
		faults = append(faults, fmt.Sprintf("column %s: expected type %s, found %s", c.name, c.typ, real.typ))
	} else {
		faults = t.compareFields(c.name, c.typ)
	}
	if real.kind != c.role.String() {
		faults = append(faults, fmt.Sprintf("column %s: expected key role %s, found %s", c.name, c.role, real.kind))
	}
	return faults
}

// compareFields compares the user types within a type with the real ones. A real
// one may have further fields at its end, which are then null.
func (t *realTable) compareFields(column string, typ *cqlType) []string {
	var faults []string
	real := t.types[typ.name]
	for i, name := range typ.fields {
		switch {
		case i >= len(real.names):
			faults = append(faults, fmt.Sprintf("column %s: type %s: expected field %d to be %s, found %d fields", column, typ.name, i+1, name, len(real.names)))
		case real.names[i] != name:
			faults = append(faults, fmt.Sprintf("column %s: type %s: expected field %d to be %s, found %s", column, typ.name, i+1, name, real.names[i]))
		case !sameType(real.types[i], typ.elems[i]):
			faults = append(faults, fmt.Sprintf("column %s: type %s: field %s: expected %s, found %s", column, typ.name, name, typ.elems[i], real.types[i]))
		}
	}
	for _, e := range typ.elems {
		faults = append(faults, t.compareFields(column, e)...)
	}
	return faults
}

// sameType compares a field's real type with a declared one. Fields are spelled
// with frozen or without, as the type was created, which makes no difference in
// binary form.
func sameType(real string, want *cqlType) bool {
	typ, err := parseType(real)
	if err != nil {
		return false
	}
	thawed, wanted := *typ, *want
	thawed.frozen, wanted.frozen = false, false
	return thawed.String() == wanted.String()
}

// unsafe returns the settings of the table that make writing to it unsafe.
func (t *realTable) unsafe() []string {
	var faults []string
	if t.defaultTTL > 0 {
		faults = append(faults, fmt.Sprintf("expected no default_time_to_live, found %d: it would begin anew whenever a save is applied again; set it to 0 and give NewTable the option WithTTL",
			int(t.defaultTTL.Seconds())))
	}
	if t.gcGrace < minGCGrace {
		faults = append(faults, fmt.Sprintf("expected gc_grace_seconds of at least %d, found %d: deleted rows could come back",
			int(minGCGrace.Seconds()), int(t.gcGrace.Seconds())))
	}
	return faults
}
