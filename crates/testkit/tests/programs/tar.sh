# tar: into the file system, out of it, and from one place of it to another.
make_tree "$LOCAL/tree"
pack() { tar --sparse --xattrs --xattrs-include='user.*' --format=posix -C "$1" -cf "$2" .; }
unpack() { mkdir "$2" && tar --sparse --xattrs --xattrs-include='user.*' -p -C "$2" -xf "$1"; }
pack "$LOCAL/tree" in.tar
unpack in.tar inside
same_trees "$LOCAL/tree" inside
pack inside "$LOCAL/out.tar"
unpack "$LOCAL/out.tar" "$LOCAL/outside"
same_trees "$LOCAL/tree" "$LOCAL/outside"
tar -C inside -cf - . | (mkdir copy && tar -p -C copy -xf -)
diff <(cd inside && find . -type f -exec sha256sum {} + | sort) \
    <(cd copy && find . -type f -exec sha256sum {} + | sort)
tar -C "$LOCAL/tree" --compare -f in.tar
# Holes stay holes.
test "$(stat -c %b inside/sparse)" -lt 2000
test "$(stat -c %b "$LOCAL/outside/sparse")" -lt 2000
gzip -k in.tar
zcat in.tar.gz | cmp - in.tar
