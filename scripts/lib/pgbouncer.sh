# shellcheck shell=bash
# PgBouncer, for the test of the service behind a pooler; to be sourced.

# shellcheck disable=SC2034  # read by whoever sources this
PGBOUNCER_MISSING=""  # why there is none, after pgbouncer_provide has failed

# Succeeds when there is one, installing it where that is possible without asking anybody.
pgbouncer_provide() {
    pgbouncer_is_there && return 0
    local -a as_root=()
    PGBOUNCER_MISSING="not installed, and it cannot be installed without root and apt-get"
    command -v apt-get >/dev/null || return 1
    if [[ "$(id -u)" -ne 0 ]]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    as_root+=(env DEBIAN_FRONTEND=noninteractive)
    echo "PgBouncer: not installed; asking apt-get for it"
    "${as_root[@]}" apt-get update -qq >/dev/null 2>&1 || true
    if ! "${as_root[@]}" apt-get install -y -qq pgbouncer >/dev/null 2>&1 || ! pgbouncer_is_there; then
        PGBOUNCER_MISSING="not installed, and apt-get install pgbouncer failed"
        return 1
    fi
}

pgbouncer_is_there() {
    command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer ]]
}
