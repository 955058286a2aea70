//! What users do with a burst buffer under real Slurm, from the job script to the result at home.

mod site;

use forebay_testkit::slurm::{ALICE, BOB, BufferOptions, FragmentKind, Options, PoolOptions, Site};
use site::{
    AWAIT_FILE, STRIPED, at_home, awaits, awaits_file, completes, ends, fails, finish, shell, signal, site,
    submit,
};
use std::fs;

#[test]
fn striped_scratch_is_shared_by_the_nodes_of_a_job_and_by_nobody_else() {
    let site = site();
    let alone = format!("{STRIPED}cd $DW_JOB_STRIPED\necho content > file\ncat file\npwd\nstat -c %u .\n");
    let first = submit(&site, &ALICE, "-N1", &alone);
    // Every task writes, awaits what the others wrote, and reads it.
    let together = r#"
srun bash -c '
    cd $DW_JOB_STRIPED
    echo "from $SLURM_PROCID" > part.$SLURM_PROCID
    for i in $(seq 300); do [ $(ls part.* | wc -l) = 4 ] && break; sleep 0.1; done
    cat part.* | sort > $HOME/seen.$SLURM_PROCID
'
ls $DW_JOB_STRIPED
"#;
    let second = submit(&site, &BOB, "-N4", &format!("{STRIPED}{together}"));
    let output = ends(&site, &ALICE, first, "COMPLETED");
    let path = format!("/var/opt/cray/dws/mounts/batch/{first}_striped_scratch");
    assert_eq!(output, format!("content\n{path}\n20001\n"));
    let output = ends(&site, &BOB, second, "COMPLETED");
    assert_eq!(output, "part.0\npart.1\npart.2\npart.3\n");
    for task in 0..4 {
        let seen = fs::read_to_string(at_home(&site, &BOB, &format!("seen.{task}"))).unwrap();
        assert_eq!(seen, "from 0\nfrom 1\nfrom 2\nfrom 3\n");
    }
    finish(site);
}

#[test]
fn private_scratch_is_each_nodes_own() {
    let site = site();
    let script = r#"#!/bin/bash
#DW jobdw type=scratch access_mode=striped,private capacity=100MB
set -eu
srun bash -c '
    cd $DW_JOB_PRIVATE
    hostname > own
    touch $DW_JOB_STRIPED/$SLURM_PROCID
    for i in $(seq 300); do [ $(ls $DW_JOB_STRIPED | wc -l) = 2 ] && break; sleep 0.1; done
    echo $(ls) $(cat own)
'
ls $DW_JOB_STRIPED
"#;
    let output = completes(&site, &ALICE, "-N2 -w client[1-2]", script);
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort();
    assert_eq!(lines, ["0", "1", "own client1", "own client2"]);
    finish(site);
}

#[test]
fn input_is_there_before_a_job_and_results_are_at_home_after_it() {
    let site = site();
    let home = site.home(&ALICE);
    shell(
        &site,
        &ALICE,
        r#"mkdir -p in/deep/er
        seq 100000 > single.txt
        for i in $(seq 20); do seq $i 50000 > in/deep/$i; done
        ln -s ../20 in/deep/er/link; chmod 750 in/deep/1; mkdir in/empty
        echo one > l1; echo two > l2
        echo "$HOME/l1 \$DW_JOB_STRIPED/listed/one" > list
        echo "$HOME/l2 \$DW_JOB_STRIPED/listed/two" >> list"#,
    );
    let home = home.display();
    let script = format!(
        r#"#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=200MB
#DW stage_in type=file source={home}/single.txt destination=$DW_JOB_STRIPED/single.txt
#DW stage_in type=directory source={home}/in destination=$DW_JOB_STRIPED/tree
#DW stage_in type=list source={home}/list
#DW stage_out type=directory source=$DW_JOB_STRIPED/tree destination={home}/out
#DW stage_out type=file source=$DW_JOB_STRIPED/sum destination={home}/sum
set -eu
cd $DW_JOB_STRIPED
cat listed/one listed/two
sum=$(cksum single.txt)
cmp single.txt {home}/single.txt
diff -r --no-dereference tree {home}/in
echo $sum > sum
cp single.txt tree/deep/new
"#
    );
    assert_eq!(completes(&site, &ALICE, "-N2", &script), "one\ntwo\n");
    shell(&site, &ALICE, "test ! -e in/deep/new; cmp out/deep/new single.txt; rm out/deep/new");
    shell(
        &site,
        &ALICE,
        "diff -r --no-dereference in out; [ \"$(cat sum)\" = \"$(cksum < single.txt) single.txt\" ]",
    );
    shell(&site, &ALICE, "[ $(stat -c %a out/deep/1) = 750 ]; [ $(stat -c %U out/deep/1) = alice ]");
    finish(site);
}

#[test]
fn a_persistent_buffer_serves_jobs_of_several_users_until_it_is_destroyed() {
    let site = site();
    let create =
        "#!/bin/sh\n#BB create_persistent name=shared capacity=100MB access_mode=striped type=scratch\n";
    completes(&site, &ALICE, "-N1", create);
    assert_eq!(site.burst().unwrap().size_of("shared"), Some("96MiB"));
    let script = |own: &str| {
        format!(
            "#!/bin/bash\n#DW persistentdw name=shared\nset -eu\n{AWAIT_FILE}cd $DW_PERSISTENT_STRIPED_shared\n\
             id -un > common/{own}\nawait common/alice; await common/bob\n\
             cat common/*\n"
        )
    };
    let opens =
        "#!/bin/bash\n#DW persistentdw name=shared\nmkdir -m 1777 $DW_PERSISTENT_STRIPED_shared/common\n";
    completes(&site, &ALICE, "-N1", opens);
    let by_alice = submit(&site, &ALICE, "-N1", &script("alice"));
    let by_bob = submit(&site, &BOB, "-N2", &script("bob"));
    assert_eq!(ends(&site, &ALICE, by_alice, "COMPLETED"), "alice\nbob\n");
    assert_eq!(ends(&site, &BOB, by_bob, "COMPLETED"), "alice\nbob\n");
    let later = "#!/bin/bash\n#DW persistentdw name=shared\ncat $DW_PERSISTENT_STRIPED_shared/common/bob\n";
    assert_eq!(completes(&site, &ALICE, "-N1", later), "bob\n");
    completes(&site, &ALICE, "-N1", "#!/bin/sh\n#BB destroy_persistent name=shared\n");
    assert_eq!(site.burst().unwrap().size_of("shared"), None);
    finish(site);
}

#[test]
fn every_task_of_an_array_and_every_way_to_ask_has_a_buffer() {
    let site = site();
    let script = format!(
        "{STRIPED}ls -A $DW_JOB_STRIPED\necho $SLURM_ARRAY_TASK_ID > $DW_JOB_STRIPED/x\ncat $DW_JOB_STRIPED/x > $HOME/task.$SLURM_ARRAY_TASK_ID\n"
    );
    let array = submit(&site, &ALICE, "-N1 --array=1-4", &script);
    shell(&site, &ALICE, "echo '#DW jobdw type=scratch access_mode=striped capacity=50MB' > bbf");
    let dir = "test -d $DW_JOB_STRIPED && echo there";
    let said = shell(&site, &ALICE, &format!("salloc -Q -N1 --bbf=bbf srun bash -c '{dir}'"));
    assert_eq!(said, "there\n");
    let said = shell(
        &site,
        &BOB,
        &format!("srun -Q -N2 --bb='capacity=50M access=striped type=scratch' bash -c '{dir}'"),
    );
    assert_eq!(said, "there\nthere\n");
    let plain = format!("#!/bin/bash\n{dir}\n");
    assert_eq!(completes(&site, &ALICE, "-N1 --bbf=bbf", &plain), "there\n");
    for task in 1..=4 {
        awaits_file(&site, &ALICE, &format!("task.{task}"));
    }
    // Every record of the array, not only the master's.
    let over = || Ok(shell(&site, &ALICE, &format!("squeue -h -j {array} | wc -l")).trim() == "0");
    site.await_slurm("the end of the array", over).unwrap();
    finish(site);
}

#[test]
fn a_job_awaits_room_and_is_shown_while_it_waits() {
    let site = site();
    let large = STRIPED.replace("100MB", "1500MiB");
    let holder =
        submit(&site, &ALICE, "-N1", &format!("{large}{AWAIT_FILE}touch $HOME/started\nawait $HOME/go\n"));
    awaits_file(&site, &ALICE, "started");
    let (waiting, _) = fails(&site, &BOB, "-N1", &large, &["BurstBufferResources"]);
    let burst = site.burst().unwrap();
    assert_eq!(burst.size_of(&holder.to_string()), Some("1504MiB"), "{}", burst.text);
    let shown = shell(&site, &ALICE, "scontrol show dwstat; scontrol show dwstat sessions; dwstat pools");
    assert!(shown.contains("default") && shown.contains(&holder.to_string()), "{shown}");
    let queued = shell(&site, &ALICE, "squeue -h -o '%i %t %r'");
    assert!(queued.contains(&format!("{waiting} PD BurstBufferResources")), "{queued}");
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, holder, "COMPLETED");
    ends(&site, &BOB, waiting, "COMPLETED");
    finish(site);
}

/// Every rank writes blocks of one file, interleaved, collectively, and checks the blocks of the next rank.
const SHARED_FILE: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { BLOCK = 65536, BLOCKS = 16 };
int main(int argc, char **argv) {
    int rank, size, wrong = 0, all = 0;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *block = malloc(BLOCK);
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < BLOCKS; i++) {
        memset(block, 'a' + (i + rank) % 26, BLOCK);
        MPI_Offset at = ((MPI_Offset)i * size + rank) * BLOCK;
        if (MPI_File_write_at_all(file, at, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE)) wrong++;
    }
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    int other = (rank + 1) % size;
    for (int i = 0; i < BLOCKS; i++) {
        MPI_Offset at = ((MPI_Offset)i * size + other) * BLOCK;
        if (MPI_File_read_at(file, at, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE)) wrong++;
        for (int j = 0; j < BLOCK; j++) wrong += block[j] != 'a' + (i + other) % 26;
    }
    MPI_File_close(&file);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%d ranks, %d wrong\n", size, all);
    return MPI_Finalize();
}
"#;

#[test]
fn an_mpi_program_on_four_nodes_writes_one_file() {
    let options = Options { buffer: Some(site::buffer()), ..Options::for_mpi() };
    let site = Site::build(&options).unwrap_or_else(|error| panic!("{error}"));
    shell(&site, &ALICE, &format!("cat > shared.c <<'END'{SHARED_FILE}END\nmpicc.mpich shared.c -o shared"));
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/file destination={}/file\n\
         srun --mpi=pmi2 ./shared $DW_JOB_STRIPED/file\n",
        site.home(&ALICE).display()
    );
    assert_eq!(completes(&site, &ALICE, "-N4 -n4", &script), "4 ranks, 0 wrong\n");
    assert_eq!(shell(&site, &ALICE, "stat -c %s file; head -c 65536 file | tr -d a | wc -c"), "4194304\n0\n");
    finish(site);
}

/// A pool of so many granules over so many nodes.
fn pool(name: &str, granule_mib: u64, granules: u64, nodes: u64) -> PoolOptions {
    PoolOptions {
        name: name.into(),
        granularity: format!("{granule_mib}MiB"),
        node_capacity: format!("{}MiB", granule_mib * granules / nodes),
    }
}

#[test]
fn pools_of_the_sizes_of_cori_are_shown_as_there() {
    // The disks are sparse images: nothing of that is on the machine.
    let pools = vec![pool("wlm_pool", 82496, 14800, 2), pool("sm_pool", 20624, 23680, 1)];
    let buffer = BufferOptions { pools, kind: FragmentKind::Directory, ..site::buffer() };
    let options = Options { storage_nodes: 3, compute_nodes: 1, buffer: Some(buffer), ..Options::default() };
    let site = Site::build(&options).unwrap_or_else(|error| panic!("{error}"));
    let script = STRIPED.replace("100MB", "200GB");
    let job = submit(
        &site,
        &ALICE,
        "-N1",
        &format!(
            "{script}{AWAIT_FILE}df -B1M --output=size $DW_JOB_STRIPED > $HOME/size\ntouch $HOME/started\nawait $HOME/go\n"
        ),
    );
    awaits_file(&site, &ALICE, "started");
    let text = site.burst().unwrap().text;
    for figures in [
        "DefaultPool=wlm_pool Granularity=82496MiB TotalSpace=1192325GiB",
        "PoolName[0]=sm_pool Granularity=20624MiB TotalSpace=476930GiB",
    ] {
        assert!(text.contains(figures), "{text}");
    }
    assert_eq!(site.burst().unwrap().size_of(&job.to_string()), Some("247488MiB"), "{text}");
    let size = shell(&site, &ALICE, "cat size");
    let mib: u64 = size.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or_default();
    assert!((240_000..=247_488).contains(&mib), "{size}");
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, job, "COMPLETED");
    finish(site);
}

#[test]
fn a_job_may_wait_for_the_results_of_another_and_use_no_node_to_make_a_buffer() {
    let site = site();
    let home = site.home(&ALICE);
    let home = home.display();
    completes(
        &site,
        &ALICE,
        "-N0",
        "#!/bin/sh\n#BB create_persistent name=kept capacity=32MiB access_mode=striped type=scratch\n",
    );
    assert_eq!(site.burst().unwrap().size_of("kept"), Some("32MiB"));
    let first = format!("{STRIPED}{AWAIT_FILE}seq 100000 > $DW_JOB_STRIPED/r\nawait {home}/go\n");
    let stage = format!("#DW stage_out type=file source=$DW_JOB_STRIPED/r destination={home}/r\nset -eu\n");
    let first = submit(&site, &ALICE, "-N1", &first.replace("set -eu\n", &stage));
    let then = format!("#!/bin/sh\nseq 100000 | cmp - {home}/r && echo whole\n");
    let then = submit(&site, &ALICE, &format!("-N1 --dependency=afterburstbuffer:{first}"), &then);
    awaits(&site, first, "its start", |job| job.state() == "RUNNING");
    assert_eq!(site.job(then).unwrap().reason(), "Dependency");
    signal(&site, &ALICE, "go");
    assert_eq!(ends(&site, &ALICE, then, "COMPLETED"), "whole\n");
    completes(&site, &ALICE, "-N0", "#!/bin/sh\n#BB destroy_persistent name=kept\n");
    finish(site);
}

#[test]
fn fragments_may_be_images_of_fixed_size() {
    let site = site::site_with(BufferOptions { kind: FragmentKind::Image, ..site::buffer() });
    // XFS wants 300 MiB at least.
    let script = STRIPED.replace("100MB", "1GiB");
    let fills = "cd $DW_JOB_STRIPED\ndf -B1M --output=size . | tail -1\n! dd if=/dev/zero of=big bs=1M count=1100 2> $HOME/dd\n\
                 grep -o 'No space left' $HOME/dd\n";
    let output = completes(&site, &ALICE, "-N2", &format!("{script}{fills}"));
    let size: u64 = output.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or_default();
    assert!((800..=1200).contains(&size) && output.ends_with("No space left\n"), "{output}");
    finish(site);
}
