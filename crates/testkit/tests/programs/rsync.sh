# rsync with everything it can keep, in and out, and a second run that finds nothing to do.
make_tree "$LOCAL/tree"
rsync -aHAX --modify-window=-1 --numeric-ids "$LOCAL/tree/" inside/
same_trees "$LOCAL/tree" inside
again=$(rsync -aHAX --modify-window=-1 --numeric-ids --itemize-changes "$LOCAL/tree/" inside/)
test -z "$again" || { echo "the second run found: $again"; exit 1; }
rsync -aHAX --modify-window=-1 --numeric-ids --sparse inside/ "$LOCAL/back/"
same_trees "$LOCAL/tree" "$LOCAL/back"
again=$(rsync -aHAX --modify-window=-1 --numeric-ids --itemize-changes inside/ "$LOCAL/back/")
test -z "$again" || { echo "the second run found: $again"; exit 1; }
# A change of content behind an unchanged size and time is found by checksum, and only it.
cp -p inside/a/b/random keep
printf X | dd of=inside/a/b/random bs=1 seek=500000 conv=notrunc status=none
touch -r keep inside/a/b/random
test "$(rsync -aHAX --modify-window=-1 --checksum --itemize-changes "$LOCAL/tree/" inside/ | wc -l)" = 1
same_trees "$LOCAL/tree" inside
# Smaller, larger and gone: written in place.
rm inside/a/b/nothing keep
truncate -s 300000 inside/a/b/random
seq 2000 >> inside/a/text
rsync -aHAX --modify-window=-1 --numeric-ids --inplace --delete inside/ "$LOCAL/back/"
same_trees inside "$LOCAL/back"
