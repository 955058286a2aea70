# Sourced by the scripts that need a tree with everything in it: make_tree DIRECTORY.
make_tree() {
    mkdir -p "$1"
    (
        cd "$1"
        mkdir -p a/b/c "with blank" empty
        seq 1000 > a/text
        head -c 1000000 /dev/urandom > a/b/random
        : > a/b/nothing
        truncate -s 5M sparse
        printf middle | dd of=sparse bs=1 seek=2500000 conv=notrunc status=none
        truncate -s 100000 holes-only
        ln a/text a/b/hard
        ln a/text "with blank/hard too"
        ln -s ../text a/b/soft
        ln -s nowhere dangling
        mkfifo fifo
        printf x > $'odd\nname\t\\'
        chmod 751 a
        chmod 640 a/text
        chmod 2755 a/b
        chmod 4711 a/b/random
        setfattr -n user.note -v "kept" a/text
        setfattr -n user.note -v "on a directory" a/b
        touch -d '2001-02-03 04:05:06.789012345' a/text a/b/random sparse
        touch -d '2002-02-03 04:05:06.123456789' empty a/b/c
        touch -h -d '2003-01-01' dangling
    )
}

# Everything that must survive a copy, in a form that can be compared.
describe() {
    (
        cd "$1"
        find . -mindepth 1 -printf '%P\0%y %m %U %G %n %l ' \( -type d -printf 'directory' -o -printf '%s' \) \
            -printf ' %TY-%Tm-%Td %TT\n' | sort
        find . -type f -print0 | sort -z | xargs -0 sha256sum
        find . \( -type f -o -type d \) -print0 | sort -z | xargs -0 getfattr -d -m '^user\.' 2> /dev/null |
            grep -v '^user\.dwfs\.' || true
        # Which names are one file.
        find . -type f -links +1 -printf '%i %p\n' | sort -k2 | awk '{ if (!($1 in n)) n[$1] = $2; print n[$1], $2 }'
    )
}

same_trees() {
    diff -a <(describe "$1") <(describe "$2")
}
