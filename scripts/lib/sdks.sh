# shellcheck shell=bash
# Stripe's official SDKs for Python and Node, to be sourced. They are installed under target/, in the versions that
# tests/sdk pins, and again only when the pins change.

SDK_PYTHON_MISSING=""  # why there is none, after sdk_python_provide has failed
SDK_NODE_MISSING=""    # likewise

# Exports SDK_PYTHON: the one that is given, else one in an environment of its own.
sdk_python_provide() {
    local pins="tests/sdk/python/requirements.txt"
    local home="${CARGO_TARGET_DIR:-target}/sdk/python"
    if [[ -z "${SDK_PYTHON:-}" ]]; then
        if ! command -v python3 >/dev/null; then
            SDK_PYTHON_MISSING="there is no python3"
            return 1
        fi
        if ! cmp -s "$pins" "$home/installed.txt" && ! {
            rm -rf -- "$home" && mkdir -p -- "$home" && python3 -m venv "$home" \
                && sdk_bounded "$home/bin/python" -m pip install --quiet --requirement "$pins" \
                && cp -- "$pins" "$home/installed.txt"
        }; then
            # shellcheck disable=SC2034  # read by whoever sources this
            SDK_PYTHON_MISSING="pip could not install $pins"
            return 1
        fi
        SDK_PYTHON="$(cd -- "$home/bin" && pwd)/python"
    fi
    export SDK_PYTHON
    echo "Python SDK: $SDK_PYTHON"
}

# Exports SDK_NODE_DIR: the one that is given, else a folder of its own.
sdk_node_provide() {
    local pins="tests/sdk/node/package-lock.json"
    local home="${CARGO_TARGET_DIR:-target}/sdk/node"
    if ! command -v node >/dev/null; then
        SDK_NODE_MISSING="there is no node"
        return 1
    fi
    if [[ -z "${SDK_NODE_DIR:-}" ]]; then
        if ! command -v npm >/dev/null; then
            SDK_NODE_MISSING="there is no npm"
            return 1
        fi
        if ! cmp -s "$pins" "$home/installed.json" && ! {
            rm -rf -- "$home" && mkdir -p -- "$home" \
                && cp -- tests/sdk/node/package.json "$pins" "$home/" \
                && sdk_bounded npm ci --prefix "$home" --no-audit --no-fund --ignore-scripts --silent \
                && cp -- "$pins" "$home/installed.json"
        }; then
            # shellcheck disable=SC2034  # read by whoever sources this
            SDK_NODE_MISSING="npm could not install $pins"
            return 1
        fi
        SDK_NODE_DIR="$(cd -- "$home" && pwd)"
    fi
    export SDK_NODE_DIR
    echo "Node SDK: $SDK_NODE_DIR"
}

# A registry that does not answer must not hold the tests up.
sdk_bounded() {
    if command -v timeout >/dev/null; then timeout 300 "$@"; else "$@"; fi
}
