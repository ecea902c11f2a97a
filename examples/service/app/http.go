package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Handler answers what a customer has spent, and two questions of whoever
// supervises the process: restart it (/healthz), send it requests (/readyz)?
func Handler(db *Database, live, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer(live))
	mux.HandleFunc("GET /readyz", answer(ready))
	mux.HandleFunc("GET /spent/{customer}", func(w http.ResponseWriter, r *http.Request) {
		cents, err := db.Spent(r.Context(), r.PathValue("customer"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]int64{"cents": cents}) // the client may be gone
	})
	return mux
}

func answer(ask func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := ask(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// Serve answers requests until ctx ends, and then lets those in flight finish
// within 5 s.
func Serve(ctx context.Context, address string, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	slog.Info("listening", "address", listener.Addr().String())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
