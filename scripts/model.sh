#!/usr/bin/env bash
# Explores the model of the charge flow (tests/model/) in its long form: every scene to its last reachable state, with wider
# bounds than in `make test`. Prints how many states that were, and how each missing protection charges twice.
#
#     scripts/model.sh [filter…]        arguments go to the test binary, as after `cargo test --`
#
# MODEL_CALLERS:  callers of the invoice besides the reconciler (2)
# MODEL_WORKERS:  workers that may live at the same time (2)
# MODEL_ATTEMPTS: attempts an invoice may have (2)
# MODEL_REPEATS:  automatic repeats within one send (0, or 1 where they matter)
# MODEL_WAITS:    short waits, of one lease each, on top of any number of long ones (2)
# MODEL_LEASE:    the lease in short waits (1); 2 lets a lease outlive its key's window
# MODEL_THREADS:  threads (all cores)
# A bound that is set but empty is that of `make test`.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
export MODEL_CALLERS="${MODEL_CALLERS-2}" MODEL_WORKERS="${MODEL_WORKERS-2}" MODEL_ATTEMPTS="${MODEL_ATTEMPTS-2}"
export MODEL_REPEATS="${MODEL_REPEATS-}" MODEL_WAITS="${MODEL_WAITS-2}" MODEL_LEASE="${MODEL_LEASE-1}"
export MODEL_THREADS="${MODEL_THREADS-$(nproc)}"

# One scene after the other, each with all threads.
explore() {
    cargo test --locked --release --test model -- --nocapture --test-threads 1 "$@"
}

if [[ $# -gt 0 ]]; then
    explore "$@"
    exit
fi
explore --skip everything_at_once
# With every kind of trouble at once a second attempt is too much for a coffee break.
MODEL_ATTEMPTS=1 explore everything_at_once
