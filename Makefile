# The only list of commands: people, the README and CI all call these. `make help` prints it.

CARGO ?= cargo

# Tools that are not part of the Rust toolchain are built here once, at these versions, and thrown away with the
# rest of target/. `make check test` needs none of them.
TOOLS := $(CURDIR)/target/tools
CARGO_DENY_VERSION := 0.20.2
CARGO_FUZZ_VERSION := 0.13.2

# The chores, built together with everything else: built by itself, with only the features that it needs, it would
# compile most of the dependencies a second time.
XTASK := $(CURDIR)/target/debug/xtask

# The provider that `make conformance` examines, and how many seconds `make fuzz` runs.
PROVIDER ?= fake
TIME ?= 600

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What must hold before a change is merged.

.PHONY: test
test: ## Run all tests, doc tests included; the first run builds a Kubernetes API server with Go
	$(CARGO) test --workspace --locked

.PHONY: check
check: check-format check-lints check-rooms check-generated check-words check-docs ## Run every check that is not a test of behaviour

.PHONY: check-format
check-format:
	$(CARGO) fmt --all --check

.PHONY: check-lints
check-lints:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

.PHONY: check-rooms
check-rooms:
	$(CARGO) test --workspace --locked --test rooms

.PHONY: check-generated
check-generated: xtask
	$(XTASK) coverage --check
	$(XTASK) reference --check

.PHONY: check-words
check-words: xtask
	$(XTASK) check-words

.PHONY: check-docs
check-docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

.PHONY: xtask
xtask:
	$(CARGO) test --workspace --locked --no-run --test rooms

# For the work at hand.

.PHONY: gen
gen: xtask ## Write the generated pages of docs/reference
	$(XTASK) coverage
	$(XTASK) reference

.PHONY: demo
demo: ## Show the manager at work on a live cluster; ARGS=--once runs the same as a check and ends
	$(CARGO) run --locked --package demo -- $(ARGS)

.PHONY: conformance
conformance: ## Run the conformance suite of one provider: PROVIDER=fake
	@test -f providers/$(PROVIDER)/tests/conformance.rs || { \
		echo "make $@: providers/$(PROVIDER)/tests/conformance.rs does not exist yet" >&2; exit 1; }
	$(CARGO) test --locked --package provider-$(PROVIDER) --test conformance -- --nocapture

.PHONY: kube
kube: ## Build the Kubernetes programs that tests start, ahead of the tests
	$(CARGO) run --locked --package control-plane -- fetch

.PHONY: test-kube
test-kube: ## Run the tests on a real API server of one release: KUBE=1.37.1
	@test -n "$(KUBE)" || { echo "make $@: say which release, as in make $@ KUBE=1.37.1 (see hack/kube)" >&2; exit 1; }
	NEPHOS_KUBE=$(KUBE) $(CARGO) test --locked --package control-plane --package testkit --package controller-kit --package nephos

# Wider, slower, or in need of the network.

.PHONY: soak
soak: ## Run the wide and slow forms of the tests
	@found=$$(NEPHOS_SOAK=1 $(CARGO) test --workspace --locked -- --ignored --list soak) || exit 1; \
	echo "$$found" | grep -q ': test$$' || { echo "make $@: no ignored test has soak in its name yet" >&2; exit 1; }
	NEPHOS_SOAK=1 $(CARGO) test --workspace --locked -- --ignored soak

.PHONY: fuzz
fuzz: $(TOOLS)/bin/cargo-fuzz ## Fuzz the cloud.conf parser with nightly Rust: TIME=600 seconds
	@test -f fuzz/fuzz_targets/gcfg.rs || { echo "make $@: fuzz/fuzz_targets/gcfg.rs does not exist yet" >&2; exit 1; }
	PATH="$(TOOLS)/bin:$$PATH" $(CARGO) +nightly fuzz run gcfg -- -max_total_time=$(TIME)

.PHONY: bench
bench: ## Measure what is promised in figures; fails when a bound is passed
	$(CARGO) test --locked --package controller-kit --bench node_cache_memory
	$(CARGO) build --locked --profile dist --package nephos
	NEPHOS_DIST=$(CURDIR)/target/dist/nephos \
		$(CARGO) test --locked --package nephos --test nephos -- --ignored --nocapture --test-threads 1 bench
	$(CARGO) test --locked --package nephos --bench services
	$(CARGO) bench --locked --package provider-local --bench proxy
	$(CARGO) test --locked --package provider-local --test nft_scale -- --ignored --nocapture bench

.PHONY: e2e
e2e: ## Run the end-to-end tests on a whole cluster (not there yet)
	$(call nothing-yet,the end-to-end suite)

.PHONY: audit
audit: $(TOOLS)/bin/cargo-deny ## Examine the dependencies: bans, licences, sources, advisories (OFFLINE=1 leaves these out)
	$(TOOLS)/bin/cargo-deny --locked --all-features check --hide-inclusion-graph bans licenses sources
ifdef OFFLINE
	@echo "make $@: advisories were NOT examined, because OFFLINE is set"
else
	@$(TOOLS)/bin/cargo-deny --all-features fetch db || { echo "make $@: the advisory database cannot be reached," \
		"so advisories were NOT examined; OFFLINE=1 accepts that" >&2; exit 1; }
	$(TOOLS)/bin/cargo-deny --locked --all-features check --hide-inclusion-graph --disable-fetch advisories
endif

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install --locked --root $(TOOLS) --version $(CARGO_DENY_VERSION) cargo-deny

$(TOOLS)/bin/cargo-fuzz:
	$(CARGO) install --locked --root $(TOOLS) --version $(CARGO_FUZZ_VERSION) cargo-fuzz

# A target with nothing behind it says so and fails: a green light must mean something.
define nothing-yet
	@echo "make $@: $(1) is not built yet" >&2; exit 1
endef
