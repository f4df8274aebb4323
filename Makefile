# One set of build flags everywhere, or Go compiles Kubernetes' libraries again.
export CGO_ENABLED := 0
export GOFLAGS := -buildvcs=false -trimpath
export GOTOOLCHAIN := local
# What runs here is told by its own flags, not by the caller's cluster.
unexport KUBECONFIG

DATA ?= /var/lib/muster
IMAGES ?= bin/images
FOCUS ?= .

MODULE := muster.dev/muster
KUBERNETES := $(shell sed -n 's|^require k8s.io/kubernetes v||p' go.mod)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
K8SVERSION := k8s.io/component-base/version
LDFLAGS := -s -w -X muster.dev/muster/internal/cli.version=$(VERSION) \
	-X $(K8SVERSION).gitVersion=v$(KUBERNETES) -X $(K8SVERSION).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES))) \
	-X $(K8SVERSION).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))

STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOTESTSUM := go run gotest.tools/gotestsum@v1.13.0 --format pkgname-and-test-fails --hide-summary=skipped --
# Kubernetes' libraries are large: vetting them for facts takes longer than the
# tests, so go test leaves vet to `make vet`.
GOTEST := $(GOTESTSUM) -vet=off -count=1

# Packages whose tests hold the API server are slow to link and never run under
# -race; all the others but the end-to-end tests are light.
HEAVY = $(shell go list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./... | grep -F ' k8s.io/kubernetes/' | cut -d' ' -f1 | sort -u)
LIGHT = $(filter-out $(HEAVY) $(MODULE)/test/e2e $(MODULE)/test/bench,$(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...))

.DEFAULT_GOAL := help

.PHONY: help
help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install what muster runs on, from Debian's packages (needs root)
	@test/deps.sh

.PHONY: test-deps
test-deps: # what the tests need besides
	@test/deps.sh tests

.PHONY: build
build: ## bin/muster, static and stripped, and bin/kubectl, a link to it
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/muster ./cmd/muster
	@ln -sf muster bin/kubectl
	@echo "build: bin/muster, $$(du -m bin/muster | cut -f1) MB"

.PHONY: images
images: deps ## the images of the examples and tests, made here without a registry
	go run ./test/images $(IMAGES)

.PHONY: up
up: deps build images ## a one-machine cluster with a log agent on it, and its coverage
	bin/muster up --detach --data-dir $(DATA)
	bin/muster images import --data-dir $(DATA) $(IMAGES)/*.tar
	bin/kubectl --kubeconfig $(DATA)/kubeconfig apply -f examples/log-agent.yaml
	bin/kubectl --kubeconfig $(DATA)/kubeconfig rollout status ds/log-agent --timeout=120s
	bin/muster coverage --kubeconfig $(DATA)/kubeconfig

.PHONY: down
down: ## stop the cluster of `make up` and remove all it made
	bin/muster down --purge --data-dir $(DATA)

.PHONY: fmt vet lint
fmt: ## gofmt over everything; fails when a file is not formatted
	@files=$$(gofmt -l cmd internal test *.go); if [ -n "$$files" ]; then echo "not formatted: $$files"; exit 1; fi

vet: ## go vet over everything
	go vet ./...

lint: ## staticcheck over everything
	$(STATICCHECK) ./...

.PHONY: check
check: ## format, vet, lint and the tests that need neither root nor a server
	@$(MAKE) --no-print-directory fmt vet lint && $(GOTEST) $(LIGHT) \
		&& echo "check: passed" || { echo "check: FAILED"; exit 1; }

.PHONY: race
race: ## the same tests under the race detector
	CGO_ENABLED=1 $(GOTEST) -race $(LIGHT)

.PHONY: servers
servers: ## the tests that start an API server
	$(GOTEST) $(HEAVY)

.PHONY: e2e
e2e: deps build images ## real containers: muster up, kubectl and kills (needs root); FOCUS=regexp picks tests
	MUSTER_E2E=1 $(GOTEST) -timeout 30m -run '$(FOCUS)' ./test/e2e

.PHONY: bench
bench: deps build images ## measure starts, Pods, memory and writes beside a peer (needs root, three minutes)
	@go run ./test/bench

.PHONY: test
test: ## everything: check, race, servers, e2e
	@$(MAKE) --no-print-directory test-deps check race servers e2e && echo "test: passed" || { echo "test: FAILED"; exit 1; }

UPSTREAM := $(CURDIR)/bin/upstream

.PHONY: upstream
upstream: deps build ## Kubernetes' own suite, the specs in scope (needs root); FOCUS=regexp picks specs
	@for p in busybox curl nc.openbsd; do command -v $$p >/dev/null || \
		{ apt-get install -y -qq --no-install-recommends busybox-static curl netcat-openbsd >/dev/null; break; }; done
	@mkdir -p $(UPSTREAM) && ln -sf ../muster ../kubectl $(UPSTREAM)
	cd test/upstream && go vet ./... && go test -vet=off ./...
	cd test/upstream && go test -c -vet=off -ldflags '-s -w' -o $(UPSTREAM)/e2e.test k8s.io/kubernetes/test/e2e
	cd test/upstream && go build -ldflags '-s -w' -o $(UPSTREAM)/ginkgo github.com/onsi/ginkgo/v2/ginkgo
	cd test/upstream && go run ./images $(UPSTREAM)/images.tar
	@cd test/upstream && go run ./run -bin $(UPSTREAM) -report $(UPSTREAM)/report -focus '$(FOCUS)'
