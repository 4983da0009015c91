#!/usr/bin/env bash
# Measures what a charge costs apart from the provider and the network (benches/charging.rs): the pure decisions, and the
# statements on SQLite and PostgreSQL.
#
#     scripts/bench.sh [filter…]        arguments go to Criterion, as after `cargo bench --`
#
# TEST_DATABASE_URL: a PostgreSQL server to use, with the right to create databases. Unset: a throwaway cluster, which does not
#                    wait for its disk, so that its commits are faster than those of a server for production.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/postgres.sh
source scripts/lib/postgres.sh
trap postgres_stop EXIT
postgres_provide || echo "PostgreSQL is not measured: $POSTGRES_MISSING"
cargo bench --locked --bench charging -- "$@"
