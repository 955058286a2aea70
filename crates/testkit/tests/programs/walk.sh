# Programs that walk trees: what they count must be what was made.
for directory in $(seq 40); do
    mkdir -p many/$directory
    (cd many/$directory && seq 100 | xargs touch)
done
printf 12345 > many/7/7
test "$(find many -type f | wc -l)" = 4000
test "$(find many -type d | wc -l)" = 41
test "$(find many -type f -size +0 -print)" = many/7/7
test "$(ls -lR many | grep -c '^-')" = 4000
test "$(ls -f many/3 | wc -l)" = 102
test "$(ls many/3 | sort -n | tail -1)" = 100
head -c 3000000 /dev/urandom > many/large
used=$(du -sk many | cut -f1)
test "$used" -ge 2900 -a "$used" -lt 30000
test "$(du -s --apparent-size -B1 many/large | cut -f1)" = 3000000
test "$(find many -newer many/7/7 -name large)" = many/large
grep -rl 12345 many/7 | grep -qx many/7/7
test "$(cat many/*/7)" = 12345
df -P . | awk 'NR == 2 { exit !($2 > 0 && $4 <= $2) }'
find many -name '*7' -type f -delete
test "$(find many -type f | wc -l)" = 3601
rm -rf many
test -z "$(ls)"
