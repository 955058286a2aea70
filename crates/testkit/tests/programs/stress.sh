# stress-ng checks its own results; a stressor that does so ends with another status than 0 when one is wrong.
mkdir space
stressors=(access chdir chmod copy-file dentry dir dirdeep dup fallocate fcntl filename flock fpunch fstat getdent hdd
    iomix link locka lockf lockofd mknod open rename revio seek sendfile splice symlink sync-file utime xattr)
options=()
for stressor in "${stressors[@]}"; do options+=("--$stressor" 1); done
status=0
stress-ng --temp-path "$PWD/space" "${options[@]}" --verify --timeout 1 --hdd-bytes 4m --iomix-bytes 4m --seek-size 4m \
    --fallocate-bytes 16m --sync-file-bytes 4m --dentries 200 --metrics > "$LOCAL/stress.log" 2>&1 || status=$?
if [ $status != 0 ] || grep -qE ' (fail|error): ' "$LOCAL/stress.log"; then cat "$LOCAL/stress.log"; exit 1; fi
# All of them ran, and cleaned up; under load some end without having counted a round.
for stressor in "${stressors[@]}"; do
    grep -qE "metrc: +\[[0-9]+\] $stressor " "$LOCAL/stress.log" || { echo "$stressor did not run"; cat "$LOCAL/stress.log"; exit 1; }
done
left=$(find space -mindepth 1)
if [ -n "$left" ]; then echo "left behind: $left"; exit 1; fi
