# `make help` lists the targets.

GO         ?= go
GOLANGCI   ?= $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
SERVERS    ?= $(GO) run ./integration/servers/cmd/withservers
PACKAGES   ?= ./...
TIMEOUT    ?= 20m
TESTFLAGS  ?=
# The race detector needs cgo, and cgo a C compiler.
RACE       ?= $(shell [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v $(firstword $(shell $(GO) env CC)) >/dev/null && echo -race)
BENCHFLAGS ?=
FUZZTIME   ?= 1m
# Servers from packages also speak TLS and check logins; the containers of docker-compose.yml do not.
TESTTAGS   ?= integration$(shell docker info >/dev/null 2>&1 || echo ,tls)
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 12

.PHONY: unit
unit: ## Test without any server, in two or three minutes; under the race detector where a C compiler is found
	@[ -n "$(RACE)" ] || echo 'no C compiler was found: testing without the race detector'
	$(GO) test $(RACE) $(TESTFLAGS) $(PACKAGES)

.PHONY: test
test: ## Test everything, with real Kafka, Cassandra and PostgreSQL, under the race detector
	$(SERVERS) -fast-start -kafka -cassandra -cassandra-auth -postgres -tls -- \
		$(GO) test -race -tags $(TESTTAGS) -timeout $(TIMEOUT) $(TESTFLAGS) $(PACKAGES)

.PHONY: torture
torture: ## Kill processes fifty times, and nodes of a Cassandra of three; takes ten minutes and 6 GiB (Linux only)
	$(SERVERS) -fast-start -kafka -cassandra -- \
		$(GO) test $(RACE) -tags integration,torture -timeout 60m -run 'TestProcessesAreKilledFiftyTimes|TestNodesAreKilledUnderLoad' -v ./integration $(TESTFLAGS)

.PHONY: fuzz
fuzz: ## Fuzz parsers, decoders and the arithmetic of offsets, each for FUZZTIME
	@$(GO) test -list '^Fuzz' $(PACKAGES) | awk '/^Fuzz/ {f[n++] = $$1} /^ok/ {while (n > 0) print $$2, f[--n]}' | while read package target; do \
		$(GO) test $$package -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) || exit 1; \
	done

.PHONY: bench
bench: ## Measure, with real Kafka, Cassandra and PostgreSQL (BENCHFLAGS are passed on)
	$(SERVERS) -kafka -cassandra -postgres -- $(GO) run ./integration/bench $(BENCHFLAGS)

.PHONY: lint
lint: gofmt vet golangci ## Check format, run go vet and golangci-lint

.PHONY: gofmt
gofmt: ## Check that every file is formatted
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet: ## Run go vet, integration tests included
	$(GO) vet -tags integration,tls,torture $(PACKAGES)

.PHONY: golangci
golangci: ## Run the golangci-lint of this project; the first time it is built, which takes a minute or two
	$(GOLANGCI) run

.PHONY: up
up: ## Start Kafka on port 9092 and Cassandra on port 9042 (docker compose)
	docker compose up --detach --wait

.PHONY: down
down: ## Stop what `make up` started; the data stays
	docker compose down
