# shellcheck shell=bash
# PgBouncer, for the test of the service behind a pooler; to be sourced after apt.sh.

# Succeeds when there is one; else APT_MISSING says why not.
pgbouncer_provide() {
    apt_provide pgbouncer pgbouncer_is_there
}

pgbouncer_is_there() {
    command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer ]]
}
