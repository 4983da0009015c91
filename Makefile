.DEFAULT_GOAL := help
.PHONY: help run test bench check check-format check-lints check-docs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

run: ## Start the service (settings: environment or .env)
	cargo run --locked

test: ## Run every test, on SQLite and on a throwaway PostgreSQL
	@scripts/test.sh

bench: ## Measure what a charge costs apart from the provider and the network
	@scripts/bench.sh

check: check-format check-lints check-docs ## Check format, lints and documentation

check-format: ## Check that the code is formatted
	cargo fmt --check

check-lints: ## Run clippy, warnings are errors
	cargo clippy --locked --all-targets -- -D warnings

check-docs: ## Build the documentation, warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps
