//! Stagings that name a persistent buffer, under real Slurm: from and into it, by lists, and by a list that lies in it.

mod site;

use forebay_testkit::slurm::ALICE;
use site::{completes, finish, shell, site};

#[test]
fn jobs_stage_from_and_into_a_persistent_buffer() {
    let site = site();
    let home = site.home(&ALICE);
    let create =
        "#!/bin/sh\n#BB create_persistent name=mine capacity=100MB access_mode=striped type=scratch\n";
    completes(&site, &ALICE, "-N1", create);
    shell(
        &site,
        &ALICE,
        r#"mkdir in
        for i in $(seq 20); do seq $i 3000 > in/$i; done
        echo a > a; echo b > b; echo c > c
        echo "$HOME/a \$DW_JOB_STRIPED/a" > list
        echo "$HOME/b \$DW_PERSISTENT_STRIPED_mine/deep/b" >> list"#,
    );
    let home = home.display();
    let script = format!(
        r#"#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=100MB
#DW persistentdw name=mine
#DW stage_in type=list source={home}/list
#DW stage_in type=file source={home}/c destination=$DW_PERSISTENT_STRIPED_mine/c
#DW stage_in type=directory source={home}/in destination=$DW_PERSISTENT_STRIPED_mine/tree
#DW stage_out type=list source=$DW_PERSISTENT_STRIPED_mine/lists/out
#DW stage_out type=directory source=$DW_PERSISTENT_STRIPED_mine/tree destination={home}/tree
set -eu
cd $DW_PERSISTENT_STRIPED_mine
cat $DW_JOB_STRIPED/a deep/b c
diff -r tree {home}/in
echo result > $DW_JOB_STRIPED/result
mkdir lists
echo "\$DW_JOB_STRIPED/result {home}/result" > lists/out
echo "\$DW_PERSISTENT_STRIPED_mine/deep/b {home}/b.out" >> lists/out
"#
    );
    assert_eq!(completes(&site, &ALICE, "-N2", &script), "a\nb\nc\n");
    shell(
        &site,
        &ALICE,
        "[ $(cat result) = result ]; cmp b b.out; diff -r in tree; [ $(stat -c %U tree/1) = alice ]",
    );
    // What went into it is there for the next job, which needs no space of its own to stage by a list.
    shell(&site, &ALICE, r#"echo "\$DW_PERSISTENT_STRIPED_mine/c $HOME/c.out" > list.out"#);
    let later = format!(
        "#!/bin/bash\n#DW persistentdw name=mine\n#DW stage_out type=list source={home}/list.out\n\
         cat $DW_PERSISTENT_STRIPED_mine/c\n"
    );
    assert_eq!(completes(&site, &ALICE, "-N1", &later), "c\n");
    shell(&site, &ALICE, "cmp c c.out");
    completes(&site, &ALICE, "-N1", "#!/bin/sh\n#BB destroy_persistent name=mine\n");
    finish(site);
}
