# shellcheck shell=bash
# The official clients of the Model Context Protocol for Python and TypeScript, to be sourced. They are installed under target/, in
# the versions that the examples pin, and again only when the pins change. Needs `sdk_bounded` of sdks.sh.

MCP_PYTHON_MISSING=""  # why there is none, after mcp_python_provide has failed
MCP_NODE_MISSING=""    # likewise

# Exports MCP_PYTHON: the one that is given, else one in an environment of its own.
mcp_python_provide() {
    local pins="examples/python/requirements.txt"
    local home="${CARGO_TARGET_DIR:-target}/mcp/python"
    if [[ -z "${MCP_PYTHON:-}" ]]; then
        if ! command -v python3 >/dev/null; then
            MCP_PYTHON_MISSING="there is no python3"
            return 1
        fi
        if ! cmp -s "$pins" "$home/installed.txt" && ! {
            rm -rf -- "$home" && mkdir -p -- "$home" && python3 -m venv "$home" \
                && sdk_bounded "$home/bin/python" -m pip install --quiet --requirement "$pins" \
                && cp -- "$pins" "$home/installed.txt"
        }; then
            # shellcheck disable=SC2034  # read by whoever sources this
            MCP_PYTHON_MISSING="pip could not install $pins"
            return 1
        fi
        MCP_PYTHON="$(cd -- "$home/bin" && pwd)/python"
    fi
    export MCP_PYTHON
    echo "Python client of MCP: $MCP_PYTHON"
}

# Exports MCP_NODE_DIR: the one that is given, else a folder of its own.
mcp_node_provide() {
    local pins="examples/typescript/package-lock.json"
    local home="${CARGO_TARGET_DIR:-target}/mcp/node"
    if ! command -v node >/dev/null; then
        MCP_NODE_MISSING="there is no node"
        return 1
    fi
    if [[ -z "${MCP_NODE_DIR:-}" ]]; then
        if ! command -v npm >/dev/null; then
            MCP_NODE_MISSING="there is no npm"
            return 1
        fi
        if ! cmp -s "$pins" "$home/installed.json" && ! {
            rm -rf -- "$home" && mkdir -p -- "$home" \
                && cp -- examples/typescript/package.json "$pins" "$home/" \
                && sdk_bounded npm ci --prefix "$home" --no-audit --no-fund --ignore-scripts --silent \
                && cp -- "$pins" "$home/installed.json"
        }; then
            # shellcheck disable=SC2034  # read by whoever sources this
            MCP_NODE_MISSING="npm could not install $pins"
            return 1
        fi
        MCP_NODE_DIR="$(cd -- "$home" && pwd)"
    fi
    export MCP_NODE_DIR
    echo "TypeScript client of MCP: $MCP_NODE_DIR"
}
