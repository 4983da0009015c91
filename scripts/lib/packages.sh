# shellcheck shell=bash
# What tests take from PyPI and npm, to be sourced. It is installed under target/, in the versions that a file pins, and again
# only when the pins change.

PACKAGES_MISSING=""  # why there is nothing, after one of the functions has failed
PACKAGES_AT=""       # what one of them has provided

# packages_python FOLDER PINS: the Python of an environment in target/FOLDER that has what PINS (requirements.txt) names.
packages_python() {
    local home="${CARGO_TARGET_DIR:-target}/$1" pins="$2"
    if ! command -v python3 >/dev/null; then
        PACKAGES_MISSING="there is no python3"
        return 1
    fi
    if ! cmp -s "$pins" "$home/installed.txt" && ! {
        rm -rf -- "$home" && mkdir -p -- "$home" && python3 -m venv "$home" \
            && packages_bounded "$home/bin/python" -m pip install --quiet --requirement "$pins" \
            && cp -- "$pins" "$home/installed.txt"
    }; then
        PACKAGES_MISSING="pip could not install $pins"
        return 1
    fi
    PACKAGES_AT="$(cd -- "$home/bin" && pwd)/python"
}

# packages_node FOLDER SOURCE: target/FOLDER with the node_modules that package.json and package-lock.json in SOURCE name.
packages_node() {
    local home="${CARGO_TARGET_DIR:-target}/$1" pins="$2/package-lock.json"
    if ! command -v npm >/dev/null; then
        PACKAGES_MISSING="there is no npm"
        return 1
    fi
    if ! cmp -s "$pins" "$home/installed.json" && ! {
        rm -rf -- "$home" && mkdir -p -- "$home" \
            && cp -- "$2/package.json" "$pins" "$home/" \
            && packages_bounded npm ci --prefix "$home" --no-audit --no-fund --ignore-scripts --silent \
            && cp -- "$pins" "$home/installed.json"
    }; then
        # shellcheck disable=SC2034  # read by whoever sources this
        PACKAGES_MISSING="npm could not install $pins"
        return 1
    fi
    PACKAGES_AT="$(cd -- "$home" && pwd)"
}

# A registry that does not answer must not hold the tests up.
packages_bounded() {
    if command -v timeout >/dev/null; then timeout 300 "$@"; else "$@"; fi
}
