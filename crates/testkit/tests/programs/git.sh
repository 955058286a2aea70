# A repository with a history, cloned, collected and checked.
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init -q -b main repository
cd repository
for round in 1 2 3 4 5; do
    mkdir -p "d$round/inner"
    for number in $(seq 30); do
        seq $((round * number)) > "d$round/inner/file$number"
    done
    head -c 300000 /dev/urandom > "binary$round"
    ln -s "binary$round" "link$round"
    git add -A
    git commit -q -m "round $round"
done
chmod +x binary1
git mv d1 moved
git commit -qam "move"
test -z "$(git status --porcelain)"
git branch side HEAD~2
git checkout -q side
echo side > side-file
git add side-file
git commit -q -m side
git checkout -q main
git merge -q -m merge side
git fsck --full --strict
cd ..
git clone -q repository local-clone
git clone -q --no-local repository copied-clone
git -C copied-clone gc --aggressive --quiet
git -C copied-clone fsck --full
test "$(git -C repository rev-parse HEAD^{tree})" = "$(git -C copied-clone rev-parse HEAD^{tree})"
rm -rf copied-clone/*
git -C copied-clone checkout -q -- .
diff -r --no-dereference --exclude=.git repository copied-clone
git -C local-clone worktree add -q ../tree
test -z "$(git -C tree status --porcelain)"
