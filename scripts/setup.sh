#!/bin/bash
# Sees to it that this machine has what a make target needs: Debian packages, the Rust toolchain, a C compiler, /dev/fuse.
#
# usage: scripts/setup.sh [demo|test|bench]...      (nothing named: all of them)
#
# As root it installs what is missing with apt-get. As another user it changes nothing and prints what is missing and the
# command that installs it. Nothing missing means nothing done, so it costs a fraction of a second on later runs.
# Exit status: 0 all is there, 1 something is missing (named on stderr), 2 wrong usage.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
uses=("$@")
[ ${#uses[@]} -gt 0 ] || uses=(demo test bench)

for use in "${uses[@]}"; do
    case $use in
        demo | test | bench) ;;
        *)
            echo "setup: unknown purpose '$use': expected demo, test or bench" >&2
            exit 2
            ;;
    esac
done

problems=0
problem() {
    problems=$((problems + 1))
    printf 'setup: %s\n' "$@" >&2
}

# Prints the packages of packages.txt that serve one of the purposes asked for.
wanted_packages() {
    local line package purposes use
    while IFS= read -r line; do
        line=${line%%#*}
        read -r package purposes <<<"$line"
        [ -n "$package" ] || continue
        for use in "${uses[@]}"; do
            case ",${purposes:-test}," in
                *",$use,"*)
                    echo "$package"
                    break
                    ;;
            esac
        done
    done <"$here/packages.txt"
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_packages() {
    local package
    for package in $(wanted_packages); do
        installed "$package" || echo "$package"
    done
}

# Packages with daemons want to run them. The tests start their own, with their own keys and ports, so what is installed here
# neither starts now (policy-rc.d is Debian's way to say so) nor when the machine boots.
readonly policy=/usr/sbin/policy-rc.d
readonly daemons='munge slurmctld slurmd'

apt_install() {
    local status=0 ours="" daemon
    local present=()
    for daemon in $daemons; do
        ! installed "$daemon" || present+=("$daemon")
    done
    if [ ! -e $policy ]; then
        ours=yes
        # shellcheck disable=SC2064 # the path is the one of now
        trap "rm -f $policy" EXIT
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod 0755 $policy
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends "$@" >/dev/null || status=$?
    if [ -n "$ours" ]; then
        rm -f $policy
        trap - EXIT
    fi
    for daemon in $daemons; do
        case " ${present[*]} " in *" $daemon "*) continue ;; esac
        ! installed "$daemon" || keep_down "$daemon"
    done
    return "$status"
}

# keep_down DAEMON: stops it, where something started it in spite of the policy, and leaves it out of the next boot.
keep_down() {
    [ ! -d /run/systemd/system ] || systemctl --quiet stop "$1.service" || true
    deb-systemd-helper disable "$1.service" >/dev/null 2>&1 || true
    update-rc.d "$1" disable >/dev/null 2>&1 || true
}

check_packages() {
    local missing
    if ! command -v dpkg-query >/dev/null; then
        echo "setup: this is not Debian or a relative of it, so packages are not checked; wanted are:" \
            "$(wanted_packages | tr '\n' ' ')" >&2
        return
    fi
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        problem "these packages are missing: ${missing[*]}" \
            "install them with: sudo apt-get install --no-install-recommends ${missing[*]}"
        return
    fi
    echo "setup: installing ${missing[*]}"
    # A package index may be absent or out of date on a fresh machine, a mirror may fail once: refresh, try, try again.
    local attempt
    for attempt in 1 2; do
        apt-get -qq update || echo "setup: attempt $attempt: apt-get update failed, trying with the index that is there" >&2
        apt_install "${missing[@]}" && break
    done
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -eq 0 ] || problem "apt-get could not install: ${missing[*]} (its messages are above)"
}

# version_at_least HAVE WANTED, both dotted numbers
version_at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

check_rust() {
    local channel have toolchain
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$root/rust-toolchain.toml")
    if command -v rustup >/dev/null; then
        toolchain=$("$here/toolchain.sh")
        if [ -z "$toolchain" ]; then
            echo "setup: installing the Rust toolchain $channel"
            rustup toolchain install "$channel" --profile minimal --component rustfmt --component clippy >&2 &&
                toolchain=$channel
        fi
        if [ -z "$toolchain" ]; then
            problem "rustup could not install Rust $channel, which rust-toolchain.toml asks for (its messages are above)"
            return
        fi
        export RUSTUP_TOOLCHAIN=$toolchain
    elif ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        problem "cargo and rustc were not found: install Rust $channel or newer (https://rustup.rs)"
        return
    fi
    have=$(rustc --version | sed 's/^rustc \([0-9.]*\).*/\1/')
    version_at_least "$have" "$channel" ||
        problem "rustc is version $have, wanted is $channel or newer: install it with rustup (https://rustup.rs)"
}

check_tools() {
    command -v cc >/dev/null || problem "no C compiler: install gcc (the bundled SQLite and the bench's I/O probe are C)"
    command -v git >/dev/null || problem "git was not found: install git"
    [ -x /usr/bin/python3 ] || problem "/usr/bin/python3 was not found: install python3"
}

# A missing /dev/fuse is a failure for what measures or tests the mounts; the demo also works without one, and says so.
check_fuse() {
    [ "$(id -u)" != 0 ] || [ -c /dev/fuse ] || modprobe fuse 2>/dev/null || true
    if [ -c /dev/fuse ]; then
        # udev gives it this mode by the rule of the package fuse3; where no udev runs (containers) nobody does.
        [ "$(id -u)" != 0 ] || chmod 0666 /dev/fuse
        return
    fi
    case " ${uses[*]} " in
        *" test "* | *" bench "*) problem "/dev/fuse is missing: load the kernel module with 'modprobe fuse' as root" ;;
        *) echo "setup: /dev/fuse is missing: only the serving ways without FUSE are possible" >&2 ;;
    esac
}

# fusermount3 looks a mount up in /etc/mtab before it takes it away. Every booted Debian has that file, as a link to the kernel's
# own table; a bare tree from debootstrap does not.
check_mount_table() {
    [ -e /etc/mtab ] && return
    if [ "$(id -u)" = 0 ]; then
        echo "setup: linking /etc/mtab to /proc/self/mounts, fusermount3 wants it"
        ln -sf ../proc/self/mounts /etc/mtab && return
    fi
    problem "/etc/mtab is missing, so fusermount3 cannot unmount" \
        "make it with: sudo ln -s ../proc/self/mounts /etc/mtab"
}

check_packages
check_rust
check_tools
check_fuse
check_mount_table
[ "$problems" = 0 ]
