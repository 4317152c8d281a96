# The README's commands. Each installs what the build lacks first, so a fresh clone needs no other step.
.DEFAULT_GOAL := help
.PHONY: help demo test check build

help: ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

demo: ## gateway and embedded agents on this machine; options in ARGS="..."
	@.githooks/setup
	@echo "Building diglot; the first build takes two to three minutes."
	@cargo run --locked --quiet -- demo $(ARGS)

test: ## every check: format, lints, the core alone, tests, docs, real clients
	@.githooks/setup tests
	@.githooks/check

check: test ## the same as test

build: ## the release binary, target/release/diglot
	@.githooks/setup
	cargo build --release --locked
