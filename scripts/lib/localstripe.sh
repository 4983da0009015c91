# shellcheck shell=bash
# localstripe, a stand-in for Stripe from PyPI, in a virtual environment under target/; to be sourced.

LOCALSTRIPE_VERSION="1.15.10"
# shellcheck disable=SC2034  # read by whoever sources this
LOCALSTRIPE_MISSING=""  # why there is none, after localstripe_provide has failed

# Exports LOCALSTRIPE_BIN: the one that is given, else one in target/. Fails with LOCALSTRIPE_MISSING set.
localstripe_provide() {
    [[ -z "${LOCALSTRIPE_BIN:-}" ]] || return 0
    local folder="$PWD/target/localstripe-$LOCALSTRIPE_VERSION"
    if [[ ! -x "$folder/bin/localstripe" ]]; then
        if ! command -v python3 >/dev/null; then
            LOCALSTRIPE_MISSING="python3 is not installed"
            return 1
        fi
        rm -rf -- "$folder"
        if ! { python3 -m venv "$folder" &&
            timeout 300 "$folder/bin/pip" install --quiet --disable-pip-version-check "localstripe==$LOCALSTRIPE_VERSION"; }; then
            rm -rf -- "$folder"
            LOCALSTRIPE_MISSING="it could not be installed from PyPI"
            return 1
        fi
    fi
    export LOCALSTRIPE_BIN="$folder/bin/localstripe"
    echo "localstripe $LOCALSTRIPE_VERSION: $LOCALSTRIPE_BIN"
}
