//go:build integration

package cassandra

import (
	"strings"
	"sync"
	"testing"

	faults "github.com/lockstep-stream/lockstep/integration/proxy"
)

// proxy stands between the driver and the server, and decides what becomes of
// requests that name the ledger.
type proxy struct {
	*faults.Proxy
	mu     sync.Mutex
	commit faults.Action // of the next commit
	armed  bool
	after  faults.Action // of all that follow an armed commit
	fired  int           // armed commits that came
	later  bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p, err := faults.CQL(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	made := &proxy{Proxy: p}
	p.On(made.decide)
	return made
}

// arm gives the next commit a fate, and another to what is asked of the ledger
// afterwards.
func (p *proxy) arm(commit, after faults.Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.commit, p.after, p.later = true, commit, after, false
}

// heal lets everything pass again.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.later = false, false
}

// hits returns how many armed commits came.
func (p *proxy) hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired
}

func (p *proxy) decide(r faults.Request) faults.Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Kind != "EXECUTE" || !strings.Contains(r.Statement, ledgerTable):
		return faults.Pass
	case p.later:
		return p.after
	case p.armed && strings.Contains(r.Statement, " SET seq = ?"):
		p.armed, p.later = false, true
		p.fired++
		return p.commit
	default:
		return faults.Pass
	}
}
