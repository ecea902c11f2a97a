package cassandra

// The sink's own tables. They live beside the program's tables in one keyspace,
// hence the prefix.
const (
	ledgerTable    = "lockstep_ledger"
	stageTable     = "lockstep_stage"
	pipelinesTable = "lockstep_pipelines"
	tablesTable    = "lockstep_tables"
	stateTable     = "lockstep_state"
	deadTable      = "lockstep_dead"
)
