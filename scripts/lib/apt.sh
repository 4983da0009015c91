# shellcheck shell=bash
# Programs that Debian packages, to be sourced.

APT_MISSING=""  # why there is nothing, after apt_provide has failed

# apt_provide PACKAGE TEST...: succeeds when the command TEST does, after installing PACKAGE where that is needed, and possible
# without asking anybody.
apt_provide() {
    local package="$1"
    shift
    "$@" && return 0
    local -a as_root=()
    APT_MISSING="not installed, and it cannot be installed without root and apt-get"
    command -v apt-get >/dev/null || return 1
    if [[ "$(id -u)" -ne 0 ]]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    as_root+=(env DEBIAN_FRONTEND=noninteractive)
    echo "$package: not installed; asking apt-get for it"
    "${as_root[@]}" apt-get update -qq >/dev/null 2>&1 || true
    if ! "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 || ! "$@"; then
        # shellcheck disable=SC2034  # read by whoever sources this
        APT_MISSING="not installed, and apt-get install $package failed"
        return 1
    fi
}
