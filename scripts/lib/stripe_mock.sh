# shellcheck shell=bash
# Stripe's own stripe-mock, to be sourced. It knows no state and no idempotency; it checks that our requests have the
# parameters that Stripe's API description allows.

STRIPE_MOCK_VERSION="v0.197.0"
STRIPE_MOCK_MISSING=""  # why there is none, after stripe_mock_provide has failed

# Exports STRIPE_MOCK_BIN: the one that is given, one that is installed, else one built with Go.
stripe_mock_provide() {
    if [[ -n "${STRIPE_MOCK_BIN:-}" && -x "$STRIPE_MOCK_BIN" ]] || stripe_mock_find; then
        export STRIPE_MOCK_BIN
        echo "stripe-mock: $STRIPE_MOCK_BIN"
        return 0
    fi
    unset STRIPE_MOCK_BIN
    if ! command -v go >/dev/null; then
        STRIPE_MOCK_MISSING="stripe-mock is not installed, and there is no Go to build it with"
        return 1
    fi
    echo "stripe-mock: not installed; building $STRIPE_MOCK_VERSION, at most five minutes"
    local -a bounded=()
    if command -v timeout >/dev/null; then bounded=(timeout 300); fi
    if ! ${bounded[@]+"${bounded[@]}"} go install "github.com/stripe/stripe-mock@$STRIPE_MOCK_VERSION" || ! stripe_mock_find; then
        # shellcheck disable=SC2034  # read by whoever sources this
        STRIPE_MOCK_MISSING="go install github.com/stripe/stripe-mock@$STRIPE_MOCK_VERSION failed or took too long"
        return 1
    fi
    export STRIPE_MOCK_BIN
    echo "stripe-mock: $STRIPE_MOCK_BIN"
}

stripe_mock_find() {
    local candidate go_path=""
    if command -v go >/dev/null; then go_path="$(go env GOPATH)"; fi
    for candidate in \
        "$(command -v stripe-mock || true)" \
        "$(command -v go >/dev/null && go env GOBIN)/stripe-mock" \
        "${go_path%%:*}/bin/stripe-mock"; do
        if [[ -f "$candidate" && -x "$candidate" ]]; then
            STRIPE_MOCK_BIN="$candidate"
            return 0
        fi
    done
    return 1
}
