# The README's commands. Each first installs what the build lacks, so a fresh clone needs no other step.
.DEFAULT_GOAL := help
.PHONY: help demo test check planted-faults fuzz soak stress bench bench-check build install image

# The prefix and the program of `make install`.
PREFIX ?= /usr/local
DESTDIR ?=
CARGO_TARGET_DIR ?= target
PROGRAM ?= $(CARGO_TARGET_DIR)/release/diglot
VERSION := $(shell sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -n 1)

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

demo: ## start a gateway with embedded agents on this machine; options in ARGS="..."
	@.githooks/setup
	@echo "Building diglot; the first build takes two to ten minutes."
	@cargo build --locked
	@cargo run --locked --quiet -- demo $(ARGS)

test: ## run every check: format, lints, the core alone, tests, docs, real clients
	@.githooks/setup tests
	@.githooks/check

check: test ## the same as test

planted-faults: ## plant ten faults, one after another, and require that a test fails for each
	@python3 tests/planted_faults.py

# The targets; no name stands for all.
TARGET ?=

fuzz: ## fuzz each target for SECONDS=60, or one with TARGET=name; MINIMISE=1 makes the corpus small instead
	@.githooks/setup fuzz
	@tests/fuzz/run --seconds $(or $(SECONDS),60) $(if $(MINIMISE),--minimise) $(TARGET)

soak: ## judge a mixed load for SECONDS=600 with the release binary; SEED=… repeats the plans of a report
	@.githooks/setup tests
	cargo build --release --locked
	SOAK_SECONDS=$(or $(SECONDS),600) SOAK_SEED=$(SEED) DIGLOT_BIN=$(abspath $(PROGRAM)) cargo test --locked --test it -- soak:: --ignored --nocapture

stress: ## push all bounds at once in the release binary, in a process with the bounds of 256 MiB
	@.githooks/setup tests
	cargo build --release --locked
	DIGLOT_BIN=$(abspath $(PROGRAM)) cargo test --locked --test it -- limits::all_bounds --ignored --nocapture

bench: ## compare the gateway with nginx; ROUNDS=3 SECONDS=5 SCENARIOS=live,runs; the table is in target/bench
	@.githooks/setup bench
	cargo build --release --locked
	cargo build --release --locked --package diglot-bench
	@PATH="$$PATH:/usr/sbin" DIGLOT_BIN=$(abspath $(PROGRAM)) OUT=$(abspath $(CARGO_TARGET_DIR))/bench \
		ROUNDS=$(ROUNDS) SECONDS=$(SECONDS) SCENARIOS=$(SCENARIOS) $(CARGO_TARGET_DIR)/release/diglot-bench

bench-check: ## count the instructions of BASE=<commit> and of the working tree; fails if an event or a run costs 2 % more
	@.githooks/setup bench-check
	@python3 tests/bench/check.py $(or $(BASE),main)

build: ## build the release binary, target/release/diglot
	@.githooks/setup
	cargo build --release --locked
	@ls -l $(PROGRAM) | awk '{ printf "%s: %.1f MB\n", $$NF, $$5 / 1e6 }'

install: ## install the release binary, dialect files, its systemd unit and shell completions below PREFIX (/usr/local)
	@test -x $(PROGRAM) || { echo "$(PROGRAM) does not exist; run 'make build' first" >&2; exit 1; }
	install -D -m 0755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/diglot
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local/|$(PREFIX)/|' deploy/systemd/diglot.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/diglot.service
	install -d $(DESTDIR)$(PREFIX)/share/diglot/dialects
	install -m 0644 config/dialects/*.yaml $(DESTDIR)$(PREFIX)/share/diglot/dialects
	install -D -m 0644 deploy/systemd.md $(DESTDIR)$(PREFIX)/share/doc/diglot/systemd.md
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	install -d $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(PROGRAM) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/diglot
	$(PROGRAM) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_diglot
	$(PROGRAM) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/diglot.fish

image: ## build the image diglot:<version> with docker
	docker build --file deploy/Dockerfile --tag diglot:$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) .
