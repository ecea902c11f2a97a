package main

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/examples/service/app"
)

// Both programs are stopped again and again while orders pour in. Afterwards
// each order is there once, and the totals are right.
func TestStopsUnderLoadLoseNothingAndDoubleNothing(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			broker := newBroker(t)
			file := filepath.Join(t.TempDir(), "service.db")
			args := []string{"--brokers", strings.Join(broker.ListenAddrs(), ","), "--db", file}
			produced := &model{orders: map[at]app.Order{}}
			stopLoad := produced.load(newProducer(t, broker))
			db := open(t, file)
			for range 4 {
				p := start(t, program, args...)
				p.await("it is ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
				before := count(db)
				p.await("it has saved more", func() bool { return count(db) > before+100 })
				if code := p.terminate(); code != 0 {
					p.fatalf("exit code %d after SIGTERM, want 0", code)
				}
			}
			if err := stopLoad(); err != nil {
				t.Fatal(err)
			}
			p := start(t, program, args...)
			p.await("all orders are saved", func() bool { return count(db) == produced.len() })
			for customer, cents := range produced.spent() {
				p.await(customer+" has the right total", func() bool { return p.spent(customer) == cents })
			}
			if code := p.terminate(); code != 0 {
				p.fatalf("exit code %d after SIGTERM, want 0", code)
			}
			produced.compare(t, saved(t, db))
			t.Logf("%d orders", produced.len())
		})
	}
}

func (p *process) spent(customer string) int64 {
	p.t.Helper()
	_, body := p.get("/spent/" + customer)
	var answer struct{ Cents int64 }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		p.fatalf("%s: %v in %q", customer, err, body)
	}
	return answer.Cents
}

// Without a broker the process lives, is not ready, and stops when it is asked to.
func TestNotReadyBeforePartitionsAreClaimed(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			p := start(t, program, "--brokers", nobody(t), "--db", filepath.Join(t.TempDir(), "service.db"))
			if code, body := p.get("/healthz"); code != http.StatusOK {
				t.Errorf("/healthz: %d %s", code, body)
			}
			if code, body := p.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "has not told yet which partitions") {
				t.Errorf("/readyz: %d %s", code, body)
			}
			if code := p.terminate(); code != 0 {
				p.fatalf("exit code %d after SIGTERM, want 0", code)
			}
		})
	}
}

func TestAPipelineThatFailsForGoodEndsTheProcess(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			broker := newBroker(t)
			cl := newProducer(t, broker)
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord("no order")).FirstErr(); err != nil {
				t.Fatal(err)
			}
			p := start(t, program, "--brokers", strings.Join(broker.ListenAddrs(), ","), "--db", filepath.Join(t.TempDir(), "service.db"))
			if code := p.exitCode(); code != 1 || !strings.Contains(p.log.String(), "decode failed") {
				p.fatalf("exit code %d, want 1 and the reason", code)
			}
		})
	}
}

func TestMistakesEndTheProcessBeforeItStarts(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			p := start(t, program, "--brokers", "kafka", "--db", filepath.Join(t.TempDir(), "service.db"))
			if code := p.exitCode(); code != 1 || !strings.Contains(p.log.String(), "--brokers") || strings.Contains(p.log.String(), "listening") {
				p.fatalf("exit code %d, want 1 and the flag named", code)
			}
		})
	}
}

func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// count returns how many orders are saved, 0 while there is no database.
func count(db *sql.DB) (n int) {
	_ = db.QueryRow(`SELECT count(*) FROM orders`).Scan(&n) // n stays 0
	return n
}

func saved(t *testing.T, db *sql.DB) map[at]app.Order {
	t.Helper()
	rows, err := db.Query(`SELECT partition, record_offset, id, customer, cents FROM orders`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[at]app.Order{}
	for rows.Next() {
		var where at
		var o app.Order
		if err := rows.Scan(&where.partition, &where.offset, &o.ID, &o.Customer, &o.Cents); err != nil {
			t.Fatal(err)
		}
		all[where] = o
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
