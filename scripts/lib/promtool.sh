# shellcheck shell=bash
# Prometheus's promtool, which checks metrics and alert rules; to be sourced after apt.sh.

# Succeeds when there is one; else APT_MISSING says why not.
promtool_provide() {
    apt_provide prometheus promtool_is_there
}

promtool_is_there() {
    command -v promtool >/dev/null
}
