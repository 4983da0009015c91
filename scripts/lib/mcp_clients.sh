# shellcheck shell=bash
# The official clients of the Model Context Protocol for Python and TypeScript, to be sourced after packages.sh, in the versions
# that the examples pin.
# shellcheck disable=SC2034  # the reasons are read by whoever sources this

MCP_PYTHON_MISSING=""  # why there is none, after mcp_python_provide has failed
MCP_NODE_MISSING=""    # likewise

# Exports MCP_PYTHON: the one that is given, else one in an environment of its own.
mcp_python_provide() {
    if [[ -z "${MCP_PYTHON:-}" ]]; then
        if ! packages_python mcp/python examples/python/requirements.txt; then
            MCP_PYTHON_MISSING="$PACKAGES_MISSING"
            return 1
        fi
        MCP_PYTHON="$PACKAGES_AT"
    fi
    export MCP_PYTHON
    echo "Python client of MCP: $MCP_PYTHON"
}

# Exports MCP_NODE_DIR: the one that is given, else a folder of its own.
mcp_node_provide() {
    if ! command -v node >/dev/null; then
        MCP_NODE_MISSING="there is no node"
        return 1
    fi
    if [[ -z "${MCP_NODE_DIR:-}" ]]; then
        if ! packages_node mcp/node examples/typescript; then
            MCP_NODE_MISSING="$PACKAGES_MISSING"
            return 1
        fi
        MCP_NODE_DIR="$PACKAGES_AT"
    fi
    export MCP_NODE_DIR
    echo "TypeScript client of MCP: $MCP_NODE_DIR"
}
