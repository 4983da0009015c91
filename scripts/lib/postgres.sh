# shellcheck shell=bash
# A throwaway PostgreSQL cluster, to be sourced:
#
#     source scripts/lib/postgres.sh
#     trap postgres_stop EXIT
#     if postgres_provide; then … "$TEST_DATABASE_URL" …; else echo "$POSTGRES_MISSING"; fi
#
# The cluster lives in a temporary directory, listens on 127.0.0.1 only, trusts every local user and runs with
# fsync off: fast, and good for nothing but tests. A cluster that already exists on the machine is never touched.

# shellcheck disable=SC2034  # read by whoever sources this
POSTGRES_MISSING=""     # why there is none, after postgres_provide has failed
POSTGRES_DIR=""         # the temporary directory, once it exists
POSTGRES_BIN=""         # where initdb, pg_ctl and postgres are
POSTGRES_USER=""        # who runs the server when we are root, as PostgreSQL refuses root; else empty

# Exports TEST_DATABASE_URL: the one that is given, else that of a new cluster. Fails with POSTGRES_MISSING set.
postgres_provide() {
    if [[ -n "${TEST_DATABASE_URL:-}" ]]; then
        echo "PostgreSQL: the server that TEST_DATABASE_URL names"
        return 0
    fi
    if ! postgres_find_binaries; then
        postgres_install || return 1
        postgres_find_binaries || { POSTGRES_MISSING="installed, but initdb is not to be found"; return 1; }
    fi
    postgres_choose_user || return 1
    postgres_start
}

# Stops the cluster of this shell, if there is one, and removes it. May be called at any time and twice.
postgres_stop() {
    [[ -n "$POSTGRES_DIR" ]] || return 0
    local dir="$POSTGRES_DIR"
    POSTGRES_DIR=""
    if [[ -f "$dir/data/postmaster.pid" ]]; then
        postgres_as "$dir" "$POSTGRES_BIN/pg_ctl" stop -D "$dir/data" -m immediate -w -t 20 >/dev/null 2>&1 || true
    fi
    rm -rf -- "$dir"
}

# Sets POSTGRES_BIN to the newest installation that can make a cluster.
postgres_find_binaries() {
    local candidate
    while IFS= read -r candidate; do
        if [[ -x "$candidate/initdb" && -x "$candidate/pg_ctl" && -x "$candidate/postgres" ]]; then
            POSTGRES_BIN="$candidate"
            return 0
        fi
    done < <(
        printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV
        pg_config --bindir 2>/dev/null || true
        dirname -- "$(command -v initdb || true)"
    )
    return 1
}

# Installs PostgreSQL where that is possible without asking anybody.
postgres_install() {
    local -a as_root=()
    POSTGRES_MISSING="no PostgreSQL binaries here, and they cannot be installed without root and apt-get"
    command -v apt-get >/dev/null || return 1
    if [[ "$(id -u)" -ne 0 ]]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    as_root+=(env DEBIAN_FRONTEND=noninteractive)

    local clusters_before
    clusters_before="$(pg_lsclusters -h 2>/dev/null || true)"
    echo "PostgreSQL: not installed; asking apt-get for it"
    "${as_root[@]}" apt-get update -qq >/dev/null 2>&1 || true
    if ! "${as_root[@]}" apt-get install -y -qq postgresql >/dev/null 2>&1; then
        POSTGRES_MISSING="no PostgreSQL binaries here, and apt-get install postgresql failed"
        return 1
    fi

    # The package may have made and started a cluster of its own, which nobody asked for.
    local version name
    if [[ -z "$clusters_before" ]]; then
        while read -r version name _; do
            "${as_root[@]}" pg_ctlcluster "$version" "$name" stop >/dev/null 2>&1 || true
        done < <(pg_lsclusters -h 2>/dev/null || true)
    fi
    POSTGRES_MISSING=""
}

postgres_choose_user() {
    POSTGRES_USER=""
    [[ "$(id -u)" -eq 0 ]] || return 0
    for POSTGRES_USER in postgres nobody; do
        if id -u "$POSTGRES_USER" >/dev/null 2>&1; then return 0; fi
    done
    POSTGRES_MISSING="PostgreSQL refuses to run as root, and there is no user postgres or nobody"
    return 1
}

# Runs a command in a directory, as the unprivileged user when we are root.
postgres_as() (
    cd -- "$1" || exit 1
    shift
    if [[ -z "$POSTGRES_USER" ]]; then
        exec "$@"
    elif command -v runuser >/dev/null; then
        exec runuser -u "$POSTGRES_USER" -- "$@"
    else
        local quoted
        printf -v quoted '%q ' "$@"
        exec su -s /bin/bash "$POSTGRES_USER" -c "$quoted"
    fi
)

postgres_start() {
    local base="${TMPDIR:-/tmp}"
    # A socket's path may have some hundred bytes only.
    if [[ "${#base}" -gt 60 ]]; then base=/tmp; fi
    if ! POSTGRES_DIR="$(mktemp -d -- "$base/chargeonce-pg.XXXXXX")"; then
        POSTGRES_MISSING="no temporary directory can be made in $base"
        return 1
    fi
    if [[ -n "$POSTGRES_USER" ]]; then chown -- "$POSTGRES_USER" "$POSTGRES_DIR"; fi

    local data="$POSTGRES_DIR/data" log="$POSTGRES_DIR/log"
    if ! postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/initdb" -D "$data" --username=postgres --auth=trust \
        --encoding=UTF8 --no-locale --no-sync >"$log" 2>&1; then
        postgres_give_up "initdb failed" "$log"
        return 1
    fi
    local socket_dir="${POSTGRES_DIR//\'/\'\'}"
    cat >>"$data/postgresql.conf" <<SETTINGS
listen_addresses = '127.0.0.1'
unix_socket_directories = '"$socket_dir"'
max_connections = 300
timezone = 'UTC'
# Tests only: a crash of the machine may lose this cluster.
fsync = off
synchronous_commit = off
full_page_writes = off
SETTINGS

    # Somebody may take the port between the look and the start, so a few are tried.
    local port
    for _ in 1 2 3 4 5; do
        port="$(postgres_free_port)"
        if postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/pg_ctl" start -D "$data" -l "$POSTGRES_DIR/server.log" \
            -o "-p $port" -w -t 60 >>"$log" 2>&1; then
            export TEST_DATABASE_URL="postgres://postgres@127.0.0.1:$port/postgres"
            echo "PostgreSQL: $("$POSTGRES_BIN/postgres" --version), throwaway cluster on port $port, fsync off"
            return 0
        fi
    done
    postgres_give_up "the server did not start" "$log" "$POSTGRES_DIR/server.log"
    return 1
}

# Says why, shows the ends of the logs while they exist, and tidies up.
postgres_give_up() {
    # shellcheck disable=SC2034  # read by whoever sources this
    POSTGRES_MISSING="$1"
    shift
    local log
    for log in "$@"; do tail -n 20 -- "$log" >&2 2>/dev/null || true; done
    postgres_stop
}

# A port below the range that the kernel gives to outgoing connections.
postgres_free_port() {
    local port
    while true; do
        port=$((20000 + RANDOM % 12000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return 0
        fi
    done
}
