# shellcheck shell=bash
# Stripe's official SDKs for Python and Node, to be sourced after packages.sh, in the versions that tests/sdk pins.
# shellcheck disable=SC2034  # the reasons are read by whoever sources this

SDK_PYTHON_MISSING=""  # why there is none, after sdk_python_provide has failed
SDK_NODE_MISSING=""    # likewise

# Exports SDK_PYTHON: the one that is given, else one in an environment of its own.
sdk_python_provide() {
    if [[ -z "${SDK_PYTHON:-}" ]]; then
        if ! packages_python sdk/python tests/sdk/python/requirements.txt; then
            SDK_PYTHON_MISSING="$PACKAGES_MISSING"
            return 1
        fi
        SDK_PYTHON="$PACKAGES_AT"
    fi
    export SDK_PYTHON
    echo "Python SDK: $SDK_PYTHON"
}

# Exports SDK_NODE_DIR: the one that is given, else a folder of its own.
sdk_node_provide() {
    if ! command -v node >/dev/null; then
        SDK_NODE_MISSING="there is no node"
        return 1
    fi
    if [[ -z "${SDK_NODE_DIR:-}" ]]; then
        if ! packages_node sdk/node tests/sdk/node; then
            SDK_NODE_MISSING="$PACKAGES_MISSING"
            return 1
        fi
        SDK_NODE_DIR="$PACKAGES_AT"
    fi
    export SDK_NODE_DIR
    echo "Node SDK: $SDK_NODE_DIR"
}
