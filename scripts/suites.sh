#!/bin/bash
# Public file system suites, by others: pjdfstest (POSIX calls, as several users) and fsx (random operations on one file, mapped
# too), on a local XFS, which shows that the suites are right here, and on every way a burst buffer is served.
#
# usage: scripts/suites.sh [GROUND]...      local, one, four, user, network; nothing named: all of them
#
# SEEDS (default 8) says with how many seeds fsx runs. The programs are built once, below target/suites, and are no part of this
# repository. Needs root and target/release/forebay. All of it happens in namespaces of its own, which end with this script:
# mounts, processes, loop devices and ports. Exit status: 0 all passed, 1 something failed (named), 2 wrong usage.
set -euo pipefail

readonly PJDFSTEST=0.2.2 FSX=0.3.2
# Operations of a seed of fsx.
readonly OPERATIONS=3000
# Seconds that a suite may take on a ground.
readonly PATIENCE=900
# A user who is no root; the suites take the second one beside it.
readonly USER_NAME=daemon

self=$(readlink -f "${BASH_SOURCE[0]}")
root=$(dirname "$(dirname "$self")")
target=${CARGO_TARGET_DIR:-$root/target}
seeds=${SEEDS:-8}
# Where the grounds are mounted; a private tmpfs. pjdfstest 0.2.2 counts wrong below a directory whose path has 9 bytes.
readonly place=/mnt/grounds
# The directory of this run, by a short name: a socket's path has 107 bytes at most.
readonly short=/mnt/w

fail() {
    echo "suites: $*" >&2
    exit 1
}

# Tests of pjdfstest that cannot pass in a user's own job: they make sockets at paths of more than 107 bytes.
readonly user_cannot='unlink::update_mtime_ctime_success_folder::socket
rename::eexist_enotempty_to_non_empty::socket'

# Both suites in directory $2, of ground $1. What they said is kept; a line tells how it went.
look() {
    local name=$1 directory=$2 result=passed
    local posix random
    posix=$(posix "$name" "$directory") || result=FAILED
    random=$(random "$name" "$directory") || result=FAILED
    echo "$name: pjdfstest $posix; fsx $random: $result"
    [ "$result" = passed ]
}

posix() {
    local log=$SUITES_LOGS/$1.pjdfstest cannot='' failed
    timeout "$PATIENCE" "$SUITES_PROGRAMS/pjdfstest" -c "$SUITES_WORK/pjdfstest.toml" -p "$2" -s "$place/second" >"$log" 2>&1 || true
    [ "$1" != user ] || cannot=$user_cannot
    failed=$(sed -n 's/ *FAILED$//p' "$log" | grep -vxF "$cannot" || true)
    # Without a summary it did not come to its end.
    sed -n 's/^Summary: //p' "$log" | grep ', [1-9][0-9]* passed' && [ -z "$failed" ]
}

random() {
    local log=$SUITES_LOGS/$1.fsx failed=0 seed
    for seed in $(seq "$seeds"); do
        timeout "$PATIENCE" "$SUITES_PROGRAMS/fsx" -q -f "$SUITES_WORK/fsx.toml" -N "$OPERATIONS" -S "$seed" -P "$SUITES_LOGS" \
            "$2/fsx.$seed" >>"$log" 2>&1 || failed=$((failed + 1))
    done
    echo "$seeds seeds, $failed failed"
    [ "$failed" = 0 ]
}

# A job of `forebay run` as the user whose name is $2 over $3 nodes looks at its own space.
job() {
    local name=$1 user=$2 nodes=$3 home=$short/$1
    mkdir "$home"
    chown "$user:" "$home"
    cat >"$home/job.sh" <<JOB
#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=1GiB
exec "$SUITES_PROGRAMS/suites.sh" in-job $name
JOB
    local options=(--reuid "$user" --regid "$(id -g "$user")" --init-groups)
    (cd "$home" && XDG_STATE_HOME=$home setpriv "${options[@]}" "$SUITES_PROGRAMS/forebay" run --nodes "$nodes" job.sh) \
        >"$SUITES_LOGS/$name.job" 2>&1 || return 1
}

# Inside that job. Its directory is closed to other users; root shows it to those whom the suite becomes.
in_job() {
    local name=$1 directory=$DW_JOB_STRIPED
    if [ "$(id -u)" = 0 ]; then
        mount --bind "$DW_JOB_STRIPED" "$place/$name"
        directory=$place/$name
    fi
    local result=0
    look "$name" "$directory" >"$SUITES_LOGS/$name.line" || result=1
    [ "$directory" = "$DW_JOB_STRIPED" ] || umount "$directory"
    return "$result"
}

# An XFS on a loop device at $1.
local_disk() {
    truncate --size 10G "$1.img"
    mkfs.xfs -q "$1.img"
    mkdir -p "$1"
    mount -o loop "$1.img" "$1"
}

# Four servers and two mounts over TCP, on the loopback interface of this network namespace.
network() {
    local work=$SUITES_WORK/network number servers=""
    mkdir "$work"
    local_disk "$work/disk"
    (umask 077; for secret in token seal; do head -c 32 /dev/urandom | base64 >"$work/$secret"; done)
    for number in 0 1 2 3; do
        servers+=$'\n'"[[instance.server]]"$'\n'"address = \"127.0.0.1:707$number\""$'\n'
    done
    for number in 0 1 2 3; do
        mkdir "$work/disk/$number" "$work/state$number"
        cat >"$work/server$number.toml" <<SERVER
listen = ["127.0.0.1:707$number"]
state = "$work/state$number"
[[instance]]
id = 17
name = "suites"
fragment = "$work/disk/$number"
space = "2GiB"
position = $number
token_file = "$work/token"
seal_file = "$work/seal"
$servers
[[instance.namespace]]
name = "c1"
home = 0
stripe_size = "64KiB"
SERVER
        "$SUITES_PROGRAMS/forebay" --config "$work/server$number.toml" serve >"$SUITES_LOGS/server$number" 2>&1 &
    done
    printf 'id = 17\nname = "suites"\nnamespace = "c1"\nhome = 0\ntoken_file = "%s"\n%s' \
        "$work/token" "${servers//instance.server/server}" >"$work/client.toml"
    for number in 0 1; do
        mkdir "$place/client$number"
        "$SUITES_PROGRAMS/forebay" mount --background --log "$SUITES_LOGS/client$number" \
            --instance "$work/client.toml" "$place/client$number" >/dev/null
        mkdir "$place/client$number/of$number"
    done
    # Both at once, so that each is disturbed by what the other does.
    local result=0
    look network1 "$place/client1/of1" &
    look network0 "$place/client0/of0" || result=1
    wait $! || result=1
    return "$result"
}

ground() {
    case $1 in
        local) local_disk "$SUITES_WORK/local" && look local "$SUITES_WORK/local" ;;
        one) mkdir "$place/one" && job one root 1; tell one ;;
        four) mkdir "$place/four" && job four root 4; tell four ;;
        user) job user "$USER_NAME" 4; tell user ;;
        network) network ;;
    esac
}

# What a job said of its ground, or of itself if it came to nothing.
tell() {
    cat "$SUITES_LOGS/$1.line" 2>/dev/null || { cat "$SUITES_LOGS/$1.job" >&2; return 1; }
    grep -q ': passed$' "$SUITES_LOGS/$1.line"
}

# In the namespaces.
inside() {
    mount -t tmpfs none /mnt
    mkdir "$place" "$place/second" "$short"
    mount --bind "$SUITES_WORK" "$short"
    mount -t tmpfs -o mode=1777 none "$place/second"
    ip link set lo up
    cat >"$SUITES_WORK/pjdfstest.toml" <<TOML
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["$USER_NAME", "$USER_NAME"]]
TOML
    cat >"$SUITES_WORK/fsx.toml" <<TOML
flen = 1048576
[opsize]
max = 131072
min = 1
align = 1
[weights]
close_open = 0.3
invalidate = 0.3
mapread = 1
mapwrite = 1
read = 1
write = 1
truncate = 0.5
fsync = 0.1
fdatasync = 0.1
posix_fallocate = 0.3
punch_hole = 0.5
sendfile = 0.3
posix_fadvise = 0.2
copy_file_range = 0.5
TOML
    local one failed=()
    for one in "$@"; do
        (ground "$one") || failed+=("$one")
    done
    [ ${#failed[@]} = 0 ] || fail "failed on: ${failed[*]}"
}

build() {
    [ -x "$target/release/forebay" ] || fail "$target/release/forebay is missing: run 'make build'"
    cargo install --quiet --locked --root "$target/suites" "pjdfstest@$PJDFSTEST"
    cargo install --quiet --locked --root "$target/suites" "fsx@$FSX"
}

main() {
    [ "$(id -u)" = 0 ] || fail "needs root: it mounts file systems and becomes other users"
    build
    work=$(mktemp --directory /var/tmp/forebay-suites.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    # Programs and logs lie where the user reaches them too, wherever this repository is.
    mkdir --mode 755 "$work/programs"
    mkdir --mode 1777 "$work/logs"
    install "$target/release/forebay" "$target/suites/bin/pjdfstest" "$target/suites/bin/fsx" "$self" "$work/programs"
    chmod 755 "$work"
    local result=0
    SUITES_WORK=$work SUITES_PROGRAMS=$work/programs SUITES_LOGS=$work/logs \
        unshare --mount --net --pid --fork --kill-child --mount-proc "$self" inside "$@" || result=1
    rm -rf "$target/suites/logs"
    cp -r "$work/logs" "$target/suites/logs"
    [ "$result" = 0 ] || fail "what was said is in $target/suites/logs"
}

case ${1-} in
    inside) shift; inside "$@" ;;
    in-job) in_job "$2" ;;
    *)
        for one in "$@"; do
            case $one in
                local | one | four | user | network) ;;
                *) echo "suites: no ground '$one': expected local, one, four, user or network" >&2; exit 2 ;;
            esac
        done
        [ $# -gt 0 ] || set -- local one four user network
        main "$@"
        ;;
esac
