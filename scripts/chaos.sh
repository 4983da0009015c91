#!/usr/bin/env bash
# Charges many invoices through many callers while the payment provider fails in every way by chance, and checks afterwards
# that every invoice is paid or truthfully failed, that nobody was charged twice, and that every payment is recorded.
#
#     scripts/chaos.sh [seed [invoices]]        the same seed gives the same faults for the same order of requests
#
# Starts the service, `chargeonce mock-stripe` and a throwaway PostgreSQL (or takes TEST_DATABASE_URL), and prints the counts.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/postgres.sh
source scripts/lib/postgres.sh
trap postgres_stop EXIT
postgres_provide || { echo "NOT RUN: no PostgreSQL ($POSTGRES_MISSING)"; exit 1; }
export CHAOS_SEED="${1:-$RANDOM}" CHAOS_INVOICES="${2:-1000}"
cargo test --locked --test process chaos -- --include-ignored --nocapture
