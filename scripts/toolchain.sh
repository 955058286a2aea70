#!/bin/bash
# Prints the name of the Rust toolchain to use, for RUSTUP_TOOLCHAIN; nothing where rustup has none that will do, or is not used.
#
# The pinned one of rust-toolchain.toml if it is installed; else an installed one of the very same version under another name (a
# machine without a network may have it as `stable`); else an installed one that is newer. Installs nothing, so it may run at any
# time. RUSTUP_TOOLCHAIN in the environment is the user's own choice and is repeated.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$root/rust-toolchain.toml")

if [ -n "${RUSTUP_TOOLCHAIN:-}" ]; then
    echo "$RUSTUP_TOOLCHAIN"
    exit
fi
command -v rustup >/dev/null || exit 0

# Prints the version of a toolchain, nothing if it does not work. Never lets rustup fetch one.
version() {
    RUSTUP_AUTO_INSTALL=0 rustup run "$1" rustc --version 2>/dev/null | sed -n 's/^rustc \([^ ]*\) .*/\1/p' || true
}

installed=$(cd / && rustup toolchain list 2>/dev/null | sed -n 's/^\([0-9a-z][^ ]*\).*/\1/p')
newer=
for toolchain in $(grep "^$pinned-" <<<"$installed") $installed; do
    have=$(version "$toolchain")
    case $have in
        "$pinned")
            echo "$toolchain"
            exit
            ;;
        '' | *-*) ;;
        *)
            if [ "$(printf '%s\n%s\n' "$pinned" "$have" | sort -V | head -n 1)" = "$pinned" ]; then
                newer=$toolchain
            fi
            ;;
    esac
done
echo "$newer"
