# cp in its ways: keeping everything, sparse or not, by reflink where there is any, and mv.
make_tree "$LOCAL/tree"
cp -a "$LOCAL/tree" inside
same_trees "$LOCAL/tree" inside
cp -a inside second
same_trees inside second
cp -a second "$LOCAL/back"
same_trees "$LOCAL/tree" "$LOCAL/back"
for how in always never auto; do
    cp --sparse=$how inside/sparse sparse-$how
    cmp inside/sparse sparse-$how
done
test "$(stat -c %b sparse-always)" -lt 2000
for how in never auto; do
    cp --reflink=$how inside/a/b/random reflink-$how
    cmp inside/a/b/random reflink-$how
done
mv inside moved
same_trees second moved
mv "$LOCAL/back" from-outside
same_trees second from-outside
mv from-outside "$LOCAL/again"
same_trees second "$LOCAL/again"
dd if=moved/a/b/random of=dd-copy bs=12345 conv=fsync status=none
cmp moved/a/b/random dd-copy
dd if=moved/a/b/random of=direct-copy bs=64K iflag=direct oflag=direct conv=notrunc status=none ||
    dd if=moved/a/b/random of=direct-copy bs=64K status=none
cmp moved/a/b/random direct-copy
install -m 750 moved/a/text installed
test "$(stat -c %a installed)" = 750
