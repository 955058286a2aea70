# How editors save, and processes that talk through a fifo.
printf 'first\n' > document
for round in $(seq 20); do
    # Write beside, sync, rename over; keep the old one as a hard link.
    rm -f document~
    ln document document~
    printf 'round %s\n' "$round" > .document.new
    sync .document.new
    mv -f .document.new document
    sync .
done
test "$(cat document)" = "round 20"
test "$(cat document~)" = "round 19"
sed -i s/round/line/ document
test "$(cat document)" = "line 20"
perl -pi.bak -e 's/line/LINE/' document
test "$(cat document document.bak)" = $'LINE 20\nline 20'
for number in $(seq 200); do echo "$number" >> log; done
test "$(wc -l < log)" = 200
truncate -s 0 log
test ! -s log
mkfifo pipe
seq 50000 > pipe &
test "$(cksum < pipe)" = "$(seq 50000 | cksum)"
wait $!
(
    flock -n 9
    if flock -n document -c true; then echo "two hold one lock"; exit 1; fi
) 9< document
flock document -c true
seq 100000 | tee copy-1 copy-2 > copy-3
cmp copy-1 copy-2
cmp copy-2 copy-3
sort -R copy-1 | sort -n | cmp - copy-2
split -b 50000 copy-1 part-
cat part-* | cmp - copy-1
exec 5<> both
echo through >&5
test "$(cat both)" = through
exec 5>&-
