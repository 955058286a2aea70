#!/bin/bash
# Debian packages: forebay-client (the programs), forebay-controller and forebay-node (services and their configuration), and
# forebay-dev (development files: the REST interface; there is no C interface yet).
#
# usage: scripts/deb.sh [--programs DIRECTORY] [--output DIRECTORY]
#
# Takes the four programs from --programs (default target/release) and writes one .deb for each package to --output (default
# target/deb), without root. The version is that of Cargo.toml; packages of the same sources and programs are the same, byte for
# byte.
#
# Whoever gives packages to others names himself in FOREBAY_MAINTAINER ('Name <address>'); without it they are nobody's.
#
# dpkg-deb has to be there. dpkg-shlibdeps (package dpkg-dev, or what FOREBAY_SHLIBDEPS names) finds out which libraries the
# programs need; without it they are listed by hand, as new as on this machine.
# Exit status: 0 done, 1 failed (nothing half-made is left in the output), 2 wrong usage.
set -euo pipefail
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
programs=$target/release
output=$target/deb
shlibdeps=${FOREBAY_SHLIBDEPS:-dpkg-shlibdeps}
readonly maintainer=${FOREBAY_MAINTAINER:-Forebay developers <forebay@localhost>}
readonly names='forebay dwstat dwcli dw_wlm_cli'

fail() {
    echo "deb: $*" >&2
    exit 1
}

usage() {
    sed -n '5s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
        --programs) programs=$2 ;;
        --output) output=$2 ;;
        *) usage ;;
    esac
    shift 2
done

command -v dpkg-deb >/dev/null || fail "dpkg-deb was not found: packages are built on Debian and its relatives"
command -v strip >/dev/null || fail "strip was not found: install binutils"
[[ $maintainer =~ ^[^\<\>@/\&]+\ \<[^\<\>@\ /\&]+@[^\<\>@\ /\&]+\>$ ]] ||
    fail "FOREBAY_MAINTAINER is '$maintainer': write Name <address>"
for name in $names; do
    [ -f "$programs/$name" ] || fail "$programs/$name is not there: run 'make build' first"
done

# Debian sorts 1.0~rc.1 before 1.0.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1 | tr - '~')
[ -n "$version" ] || fail "Cargo.toml has no version"
architecture=$(dpkg --print-architecture)

# Newest time of a file in the packages; dpkg-deb itself sees to it.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/Cargo.toml")
fi
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# put MODE SOURCE TARGET: a file of the package in hand.
put() { install -D -m "$1" "$2" "$tree$3"; }

# link TARGET NAME: a symbolic link of the package in hand.
link() {
    mkdir -p "$(dirname "$tree$2")"
    ln -s "$1" "$tree$2"
}

# begin PACKAGE: an empty tree with the package's own documents.
begin() {
    package=$1
    tree=$work/$package
    mkdir -p "$tree/DEBIAN"
    put 0644 "$root/LICENSE" "/usr/share/doc/$package/copyright"
    gzip -9nc "$root/CHANGELOG.md" >"$tree/usr/share/doc/$package/changelog.gz"
}

# library_dependencies PROGRAM...
library_dependencies() {
    local found
    if ! command -v "$shlibdeps" >/dev/null; then
        echo "deb: $shlibdeps was not found, so the libraries are listed by hand" >&2
        echo "libc6 (>= $(getconf GNU_LIBC_VERSION | cut -d' ' -f2)), libgcc-s1"
        return
    fi
    mkdir -p "$work/shlibdeps/debian"
    printf 'Source: forebay\n\nPackage: forebay-client\nArchitecture: any\n' >"$work/shlibdeps/debian/control"
    found=$(cd "$work/shlibdeps" && "$shlibdeps" -O "$@") || fail "$shlibdeps could not tell which libraries the programs need"
    sed -n 's/^shlibs:Depends=//p' <<<"$found"
}

# control [LIBRARIES]: the fields, from the package's file.
control() {
    local size
    size=$(du -k -s --apparent-size --exclude=DEBIAN "$tree" | cut -f 1)
    sed -e "s/@VERSION@/$version/g" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@MAINTAINER@/$maintainer/" -e "s/@SIZE@/$size/" \
        -e "s/@SHARED_LIBRARIES@/${1:-}/" "$root/packaging/$package/control" >"$tree/DEBIAN/control"
    ! grep -n '@[A-Z_]*@\|^Depends: *$' "$tree/DEBIAN/control" >&2 || fail "control of $package is not complete"
}

# settings: those of the kernel, where the package has some; without a name otherwise.
settings() {
    [ ! -f "$root/packaging/$package/sysctl.conf" ] || echo "/usr/lib/sysctl.d/50-$package.conf"
}

# scripts UNIT STATE: what dpkg runs for a package with a service.
scripts() {
    local script
    for script in postinst prerm postrm; do
        sed -e "s|@UNIT@|$1|" -e "s|@STATE@|$2|" -e "s|@PACKAGE@|$package|" -e "s|@SETTINGS@|$(settings)|" \
            "$root/packaging/service/$script" >"$tree/DEBIAN/$script"
        chmod 0755 "$tree/DEBIAN/$script"
    done
}

# finish: sums and the package itself, which gets its name when it is whole.
finish() {
    (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) \
        >"$tree/DEBIAN/md5sums"
    local file
    file=${package}_${version}_$(sed -n 's/^Architecture: //p' "$tree/DEBIAN/control").deb
    dpkg-deb -Zxz --root-owner-group --build "$tree" "$work/$file" >/dev/null
    mv "$work/$file" "$output/$file"
    echo "$output/$file"
}

client() {
    local name page stripped=()
    begin forebay-client
    for name in $names; do
        put 0755 "$programs/$name" "/usr/bin/$name"
        # Names of functions stay, for the text of a panic.
        strip --strip-debug "$tree/usr/bin/$name"
        stripped+=("$tree/usr/bin/$name")
    done
    # Where Slurm's plugin, and scripts written for DataWarp, look for them.
    link /usr/bin/dw_wlm_cli /opt/cray/dw_wlm/default/bin/dw_wlm_cli
    link /usr/bin/dwstat /opt/cray/dws/default/bin/dwstat
    link /usr/bin/dwcli /opt/cray/dws/default/bin/dwcli
    for page in "$root"/README.md "$root"/docs/*.md "$root"/docs/openapi.json; do
        put 0644 "$page" "/usr/share/doc/forebay-client/$(basename "$page")"
    done
    put 0644 "$root/packaging/forebay-client/client.toml" /usr/share/doc/forebay-client/examples/client.toml
    control "$(library_dependencies "${stripped[@]}")"
    finish
}

development() {
    begin forebay-dev
    put 0644 "$root/docs/openapi.json" /usr/share/forebay/openapi.json
    for page in SEMANTICS.md dw_wlm_cli.md dwcli.md dwstat.md glossary.md; do
        put 0644 "$root/docs/$page" "/usr/share/doc/forebay-dev/$page"
    done
    control
    finish
}

# service PACKAGE UNIT STATE CONFIGURATION...
service() {
    local unit=$2 state=$3 file
    begin "$1"
    shift 3
    put 0644 "$root/packaging/systemd/$unit" "/usr/lib/systemd/system/$unit"
    for file in "$@"; do
        put 0644 "$root/packaging/$package/$file" "/etc/forebay/$file"
        echo "/etc/forebay/$file" >>"$tree/DEBIAN/conffiles"
    done
    [ -z "$(settings)" ] || put 0644 "$root/packaging/$package/sysctl.conf" "$(settings)"
    mkdir -p "$tree/var/lib/forebay"
    mkdir -m 0700 "$tree$state"
    scripts "$unit" "$state"
    control
    finish
}

mkdir -p "$output"
output=$(cd "$output" && pwd)
programs=$(cd "$programs" && pwd)
client
service forebay-controller forebay-controller.service /var/lib/forebay/controller controller.toml client.toml
service forebay-node forebay-agent.service /var/lib/forebay/agent agent.toml
development
