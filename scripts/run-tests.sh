#!/bin/bash
# Runs every test of the workspace and ends with one line of totals.
#
# Some tests mount XFS images on loop devices and FUSE file systems for other users, so the whole run wants root; without it
# nothing is run, because a suite that leaves out its hardest part would look like a pass.
# Arguments are given to `cargo test`. Exit status: cargo's own (0 only when all passed), 1 without root.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

if [ "$(id -u)" != 0 ]; then
    echo "make test needs root: some tests make loop devices, mount XFS and act as other users." >&2
    echo "run it as root (sudo make test), or run what needs no root: make check" >&2
    exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

"${CARGO:-cargo}" test --workspace --locked --no-fail-fast "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

awk '
    /^test result:/ {
        programs++
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failed += $(i - 1)
            if ($i == "ignored;") ignored += $(i - 1)
        }
    }
    END { printf "\ntotal of %d test programs: %d passed, %d failed, %d ignored\n", programs, passed, failed, ignored }
' "$log"

# What failed, once more and briefly: whoever sees only the end of a long log has the reason.
awk '
    /^---- .* stdout ----$/ { shown = 0; failures++ }
    /^test result:/ { failures = 0 }
    failures && /^stack backtrace:/ { shown = LINES }
    failures && shown < LINES { print; shown++ }
' LINES=25 "$log"

exit "$status"
