# stress-ng checks its own results; a stressor that does so ends with another status than 0 when one is wrong.
mkdir space
stressors=(access chdir chmod copy-file dentry dir dirdeep dup fallocate fcntl filename flock fpunch fstat getdent hdd
    iomix link locka lockf lockofd mknod open rename revio seek sendfile splice symlink sync-file utime xattr)
options=()
for stressor in "${stressors[@]}"; do options+=("--$stressor" 1); done
status=0
stress-ng --temp-path "$PWD/space" "${options[@]}" --verify --timeout 1 --hdd-bytes 4m --iomix-bytes 4m --seek-size 4m \
    --fallocate-bytes 16m --sync-file-bytes 4m --dentries 200 --metrics-brief > "$LOCAL/stress.log" 2>&1 || status=$?
if [ $status != 0 ] || grep -qE ' (fail|error): ' "$LOCAL/stress.log"; then cat "$LOCAL/stress.log"; exit 1; fi
# All of them ran.
for stressor in access copy-file hdd rename splice xattr; do
    grep -qE "metrc: +\[[0-9]+\] $stressor " "$LOCAL/stress.log"
done
test -z "$(find space -mindepth 1)"
