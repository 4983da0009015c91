# shellcheck shell=bash
# Schemathesis, a tester of APIs by their documents, to be sourced after packages.sh, in the version that tests/schemathesis pins.

# shellcheck disable=SC2034  # read by whoever sources this
SCHEMATHESIS_MISSING=""  # why there is none, after schemathesis_provide has failed

# Exports SCHEMATHESIS_PYTHON: the one that is given, else one in an environment of its own.
schemathesis_provide() {
    if [[ -z "${SCHEMATHESIS_PYTHON:-}" ]]; then
        if ! packages_python schemathesis tests/schemathesis/requirements.txt; then
            SCHEMATHESIS_MISSING="$PACKAGES_MISSING"
            return 1
        fi
        SCHEMATHESIS_PYTHON="$PACKAGES_AT"
    fi
    export SCHEMATHESIS_PYTHON
    echo "Schemathesis: $SCHEMATHESIS_PYTHON"
}
