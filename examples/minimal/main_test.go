package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSpendingIsAddedUpAcrossARestart(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	file := filepath.Join(t.TempDir(), "spending.db")
	for round := range 2 {
		produce(t, broker.ListenAddrs(), `{"customer":"ann","cents":100}`, `{"customer":"bob","cents":5}`, `{"customer":"ann","cents":20}`)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- run(ctx, broker.ListenAddrs(), "sqlite://"+file) }()
		await(t, file, "ann", int64(120*(round+1)))
		await(t, file, "bob", int64(5*(round+1)))
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func produce(t *testing.T, brokers []string, values ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, v := range values {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// await reads the total as any program would, until it is want.
func await(t *testing.T, file, customer string, want int64) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var got int64
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		err = db.QueryRow(`SELECT COALESCE(SUM(cents), 0) FROM spent WHERE customer = ?`, customer).Scan(&got)
		if err == nil && got == want {
			return
		}
	}
	t.Fatalf("%s spent %d (%v), want %d", customer, got, err, want)
}
