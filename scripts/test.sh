#!/usr/bin/env bash
# Runs every test that this machine can run, on SQLite and on PostgreSQL, and says which ones it could not.
#
#     scripts/test.sh [filter…]      arguments go to the test binaries, as after `cargo test --`
#
# TEST_DATABASE_URL: a PostgreSQL server to use, with the right to create databases. Unset: a throwaway cluster.
# STRIPE_MOCK_BIN:   a stripe-mock to use. Unset: the installed one, or one built with Go.
# LOCALSTRIPE_BIN:   a localstripe to use. Unset: one from PyPI, in target/.
# SDK_PYTHON, SDK_NODE_DIR: a Python, and a folder with node_modules, that have Stripe's SDK. Unset: installed here.
# MCP_PYTHON, MCP_NODE_DIR: likewise with the official clients of MCP. Unset: installed here.
# SCHEMATHESIS_PYTHON: a Python that has Schemathesis. Unset: installed here.
# CI=true:           whatever could not be run is an error.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/postgres.sh
source scripts/lib/postgres.sh
# shellcheck source=scripts/lib/apt.sh
source scripts/lib/apt.sh
# shellcheck source=scripts/lib/pgbouncer.sh
source scripts/lib/pgbouncer.sh
# shellcheck source=scripts/lib/promtool.sh
source scripts/lib/promtool.sh
# shellcheck source=scripts/lib/stripe_mock.sh
source scripts/lib/stripe_mock.sh
# shellcheck source=scripts/lib/localstripe.sh
source scripts/lib/localstripe.sh
# shellcheck source=scripts/lib/packages.sh
source scripts/lib/packages.sh
# shellcheck source=scripts/lib/sdks.sh
source scripts/lib/sdks.sh
# shellcheck source=scripts/lib/mcp_clients.sh
source scripts/lib/mcp_clients.sh
# shellcheck source=scripts/lib/schemathesis.sh
source scripts/lib/schemathesis.sh

cargo_job=""
output="$(mktemp)"

# shellcheck disable=SC2317,SC2329  # called by the traps
clean_up() {
    trap '' INT TERM
    if [[ -n "$cargo_job" ]]; then
        kill -TERM -- "-$cargo_job" 2>/dev/null || true
        wait "$cargo_job" 2>/dev/null || true
    fi
    postgres_stop
    rm -f -- "$output"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs cargo in a process group of its own, so that an interrupt is heard at once and ends all of it.
run_cargo_test() {
    set -m
    { cargo test --locked --no-fail-fast -- "$@" 2>&1 | tee -- "$output"; exit "${PIPESTATUS[0]}"; } </dev/null &
    cargo_job=$!
    set +m
    local code=0
    wait "$cargo_job" || code=$?
    cargo_job=""
    return "$code"
}

# Counts the lines `test a::b::c ... ok`. A test belongs to the database that is a component of its path.
summarize() {
    awk '
        function row(title, group) {
            printf "%-12s %5d passed %5d failed %5d skipped\n", title, n[group, "ok"], n[group, "failed"], n[group, "skipped"]
        }
        { gsub(/\033\[[0-9;]*m/, ""); sub(/\r$/, "") }
        /^test .* \.\.\. (ok|FAILED|ignored)/ {
            name = $0; sub(/^test /, "", name); sub(/ \.\.\. .*$/, "", name)
            path = "::" name "::"
            group = path ~ /::postgres::/ ? "postgres" : path ~ /::sqlite::/ ? "sqlite" : path ~ /::stripe_mock::/ ? "stripe_mock" : path ~ /::localstripe::/ ? "localstripe" : path ~ /the_(python|node)_sdk_/ ? "sdk" : path ~ /the_(python|typescript)_(client|example)_/ ? "mcp" : path ~ /::schemathesis_finds_/ ? "schemathesis" : "other"
            result = $0 ~ / \.\.\. ok/ ? "ok" : $0 ~ / \.\.\. FAILED/ ? "failed" : "skipped"
            n[group, result]++; n["all", result]++
        }
        END {
            row("SQLite", "sqlite"); row("PostgreSQL", "postgres"); row("stripe-mock", "stripe_mock"); row("localstripe", "localstripe"); row("Stripe SDKs", "sdk"); row("MCP clients", "mcp"); row("Schemathesis", "schemathesis"); row("others", "other"); row("total", "all")
            printf "%d passed, %d failed, %d skipped\n", n["all", "ok"], n["all", "failed"], n["all", "skipped"]
        }' "$output"
}

# Of each test that failed: its name, and how it says why, without the trace. The last thing to be read, wherever a log is cut.
tell_failures() {
    awk '
        { gsub(/\033\[[0-9;]*m/, ""); sub(/\r$/, "") }
        /^---- .* stdout ----$/ { name = $0; gsub(/^---- | stdout ----$/, "", name); print "FAILED: " name; left = 12; next }
        /^stack backtrace:/ || /^note: / || /^failures:/ { left = 0 }
        left > 0 && NF { print "    " substr($0, 1, 600); left-- }' "$output"
}

not_run=()
harness_args=("$@")
if ! stripe_mock_provide; then
    not_run+=("stripe-mock tests ($STRIPE_MOCK_MISSING)")
    harness_args+=(--skip peers::stripe_mock)
fi
if ! localstripe_provide; then
    not_run+=("localstripe tests ($LOCALSTRIPE_MISSING)")
    harness_args+=(--skip peers::localstripe)
fi
harness_args+=(--include-ignored)
if ! postgres_provide; then
    not_run+=("PostgreSQL tests ($POSTGRES_MISSING)")
    harness_args+=(--skip postgres:: --skip postgres_only)
fi
if ! pgbouncer_provide; then
    not_run+=("the service behind PgBouncer ($APT_MISSING)")
    harness_args+=(--skip ::pooler::)
fi
# Where it is missing, the tests that need it say so themselves.
promtool_provide || echo "promtool: $APT_MISSING"
if ! sdk_python_provide; then
    not_run+=("Python SDK test ($SDK_PYTHON_MISSING)")
    harness_args+=(--skip the_python_sdk_)
fi
if ! sdk_node_provide; then
    not_run+=("Node SDK test ($SDK_NODE_MISSING)")
    harness_args+=(--skip the_node_sdk_)
fi
if ! mcp_python_provide; then
    not_run+=("Python client of MCP and Python example ($MCP_PYTHON_MISSING)")
    harness_args+=(--skip the_python_client_ --skip the_python_example_)
fi
if ! mcp_node_provide; then
    not_run+=("TypeScript client of MCP and TypeScript example ($MCP_NODE_MISSING)")
    harness_args+=(--skip the_typescript_client_ --skip the_typescript_example_)
fi
if ! schemathesis_provide; then
    not_run+=("Schemathesis against the API's document ($SCHEMATHESIS_MISSING)")
    harness_args+=(--skip schemathesis_finds_)
fi

cargo_code=0
run_cargo_test ${harness_args[@]+"${harness_args[@]}"} || cargo_code=$?

while IFS= read -r line; do
    not_run+=("${line#NOT RUN: }")
done < <(grep '^NOT RUN: ' "$output" || true)

counts="$(summarize)"
code="$cargo_code"
echo
echo "What was tested"
sed '$d' <<<"$counts"
for what in ${not_run[@]+"${not_run[@]}"}; do
    echo "NOT RUN: $what"
    if [[ "${CI:-}" == true && "$code" -eq 0 ]]; then code=1; fi
done
if [[ "$cargo_code" -ne 0 ]]; then
    tell_failures
    echo "cargo test ended with code $cargo_code"
fi
tail -n 1 <<<"$counts"
exit "$code"
