#!/bin/bash
# A cluster in a box: control node, storage nodes and compute nodes as namespaces of this machine, with MUNGE, Slurm and Forebay.
#
# usage: scripts/cluster.sh up [OPTION]...          start it, with options of forebay-site (--compute-nodes 4 ...), and open a shell
#        scripts/cluster.sh shell [[USER@]HOST]     another shell; default alice@control
#        scripts/cluster.sh run [USER@]HOST COMMAND...
#        scripts/cluster.sh hosts                   its hosts
#        scripts/cluster.sh down                    end it; nothing is left
#
# The programs are those of target/release, or of the directory that FOREBAY_PROGRAMS names. Users are alice, bob and root; hosts are
# control, server0, client0 and so on. Needs root. Exit status: 0 done, 1 failed, 2 wrong usage; of `run`, the command's own.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
programs=${FOREBAY_PROGRAMS:-$target/release}
state=$target/cluster
# Seconds until it must be up or gone, also on a busy machine.
readonly patience=60

fail() {
    echo "cluster: $*" >&2
    exit 1
}

# The process that keeps the cluster; empty when there is none. A number that another program has now does not count.
keeper() {
    local pid
    pid=$(cat "$state/pid" 2>/dev/null) || return 0
    [[ "$(readlink "/proc/$pid/exe" 2>/dev/null)" == */forebay-site* ]] || return 0
    echo "$pid"
}

# await DESCRIPTION COMMAND...: looks at it ten times a second.
await() {
    local what=$1 tries
    shift
    for ((tries = 0; tries < patience * 10; tries++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    fail "$what did not happen within $patience s; see $state/log"
}

is_up_or_failed() { [ -e "$state/hosts" ] || ! kill -0 "$1" 2>/dev/null; }
is_gone() { [ -z "$(keeper)" ]; }

up() {
    [ -z "$(keeper)" ] || fail "it runs already: 'make cluster-down' ends it, 'scripts/cluster.sh shell' enters it"
    mkdir -p "$state"
    rm -f "$state/hosts"
    setsid "$programs/forebay-site" --hosts "$state/hosts" --programs "$programs" "$@" </dev/null >"$state/log" 2>&1 &
    echo $! >"$state/pid"
    await "the start" is_up_or_failed $!
    [ -e "$state/hosts" ] || {
        cat "$state/log" >&2
        fail "it did not start"
    }
    echo "the cluster is up: $(cut -d' ' -f1 "$state/hosts" | tr '\n' ' ')"
    echo "enter it with 'scripts/cluster.sh shell alice@control', end it with 'make cluster-down'"
    if [ -t 0 ]; then
        shell
        echo "the cluster goes on: 'scripts/cluster.sh shell' enters it again, 'make cluster-down' ends it"
    fi
}

# enter [USER@]HOST COMMAND...
enter() {
    local user host=${1#*@} pid
    user=${1%"$host"}
    user=${user%@}
    shift
    pid=$(awk -v host="$host" '$1 == host { print $2 }' "$state/hosts" 2>/dev/null) || true
    [ -n "$pid" ] || fail "there is no host '$host'; hosts are: $(cut -d' ' -f1 "$state/hosts" 2>/dev/null | tr '\n' ' ')"
    # shellcheck disable=SC2016 # expanded in the host
    exec nsenter --target "$pid" --mount --net --uts --ipc --pid -- bash -c '
        user=$1 bin=$2 pid=$3
        shift 3
        home=$(getent passwd "$user" | cut -d: -f6)
        [ -n "$home" ] || { echo "cluster: there is no user \"$user\"" >&2; exit 1; }
        cd "$home" && exec setpriv --reuid="$user" --regid="$user" --init-groups env -i HOME="$home" USER="$user" LOGNAME="$user" \
            SHELL=/bin/bash TERM="${TERM:-dumb}" LC_ALL=C.UTF-8 \
            PATH="$bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
    ' cluster "${user:-alice}" "$(readlink "/proc/$pid/cwd" | xargs dirname)/bin" "$pid" "$@"
}

shell() {
    (enter "${1:-alice@control}" env PS1='\u@\h:\w\$ ' bash --norc) || true
}

down() {
    local pid
    pid=$(keeper)
    if [ -n "$pid" ]; then
        kill -TERM "$pid"
        await "the end" is_gone
    fi
    rm -rf "$state"
}

[ "$(id -u)" = 0 ] || fail "it needs root: namespaces, mounts and other users"
verb=${1:-}
[ $# = 0 ] || shift
case $verb in
    up) up "$@" ;;
    down) down ;;
    shell) shell "$@" ;;
    run)
        [ $# -ge 2 ] || fail "run needs a host and a command"
        enter "$@"
        ;;
    hosts) cat "$state/hosts" 2>/dev/null || fail "there is no cluster" ;;
    *)
        sed -n '4,8s/^# //p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac
