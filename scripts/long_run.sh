#!/usr/bin/env bash
# Charges many invoices through three replicas while everything breaks by chance: the payment provider fails in every way,
# replicas are killed, PostgreSQL is stopped at once and its connections are cut, callers repeat calls and reset connections.
# Checks afterwards that the books agree, that the audit finds nothing, and that every answer was true.
#
#     scripts/long_run.sh [seed [invoices]]        20,000 invoices unless told otherwise
#
# Starts a throwaway PostgreSQL, the replicas and `chargeonce mock-stripe`, and prints the counts. The same seed gives each
# caller the same plan, and the provider the same faults for the same order of requests. LONG_RUN_RELEASE=1: an optimised build.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
export LONG_RUN_SEED="${1:-$RANDOM}" LONG_RUN_INVOICES="${2:-20000}"
cargo test --locked ${LONG_RUN_RELEASE:+--release} --test process long_run -- --include-ignored --nocapture
