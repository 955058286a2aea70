//! Pools with the granularities and the sizes of real sites, on sparse images: what Slurm shows of them, and what a job gets.

mod site;

use forebay_testkit::cluster::HostId;
use forebay_testkit::slurm::{ALICE, BufferOptions, FragmentKind, PoolOptions, Service, Site};
use site::{awaits_file, buffer, ends, finish, shell, signal, site_with, submit};

/// A pool: its name, its granularity, what each of its nodes gives.
type Pool = (&'static str, &'static str, &'static str);

/// Cori: nodes with 6.4 TB, 74 pieces; and a pool of small pieces, 297 of them on a node.
const CORI: [Pool; 2] = [("wlm_pool", "82496MiB", "6104704MiB"), ("sm_pool", "20624MiB", "6125328MiB")];
/// Shaheen: pieces of 397.44 GiB, 15 on a node.
const SHAHEEN: [Pool; 1] = [("wlm_pool", "406976MiB", "6104640MiB")];

fn site_of(pools: &[Pool]) -> Site {
    let pool = |(name, granularity, node_capacity): &Pool| PoolOptions {
        name: (*name).into(),
        granularity: (*granularity).into(),
        node_capacity: (*node_capacity).into(),
    };
    let pools = pools.iter().map(pool).collect();
    let site = site_with(BufferOptions { pools, kind: FragmentKind::SparseImage, ..buffer() });
    for number in 0..2 {
        let said = site.said(HostId::Server(number), Service::Agent);
        assert!(said.contains("overcommit = true: fragments in"), "{said}");
    }
    site
}

/// Runs a job that asks for this; what `scontrol show burst` says meanwhile. It gets a buffer of `size` MiB, and sees as much.
fn during(site: &Site, asked: &str, size: u64) -> String {
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped {asked}\nset -eu\ncd $DW_JOB_STRIPED\n\
         df --output=size -B1M . | tail -1\nhead -c 32M /dev/urandom > file\nsync file\ntouch $HOME/runs\n\
         for i in $(seq 600); do [ -e $HOME/go ] && exit; sleep 0.1; done\nexit 7\n"
    );
    let job = submit(site, &ALICE, "-N1", &script);
    awaits_file(site, &ALICE, "runs");
    let burst = site.burst().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(burst.size_of(&job.to_string()), Some(&*format!("{size}MiB")), "{}", burst.text);
    signal(site, &ALICE, "go");
    let output = ends(site, &ALICE, job, "COMPLETED");
    let seen: u64 = output.trim().parse().unwrap_or_else(|_| panic!("{output}"));
    assert!((size..size + size / 50).contains(&seen), "the job sees {seen} MiB of {size}");
    shell(site, &ALICE, "rm runs go");
    burst.text
}

/// The line that begins so has these words.
fn check_line(text: &str, start: &str, words: &[&str]) {
    let found = text.lines().map(str::trim).find(|line| line.starts_with(start));
    let line = found.unwrap_or_else(|| panic!("no line {start}: {text}"));
    for word in words {
        assert!(line.split_whitespace().any(|found| found == *word), "{word}: {line}");
    }
}

#[test]
fn pools_of_cori_are_shown_and_dealt_as_there() {
    let site = site_of(&CORI);
    // 200 GB are 190735 MiB: three pieces, or ten small ones.
    let text = during(&site, "capacity=200GB", 247_488);
    let pool =
        ["DefaultPool=wlm_pool", "Granularity=82496MiB", "TotalSpace=6104704MiB", "UsedSpace=247488MiB"];
    check_line(&text, "Name=datawarp", &pool);
    let small = ["Granularity=20624MiB", "TotalSpace=6125328MiB", "UsedSpace=0"];
    check_line(&text, "PoolName[0]=sm_pool", &small);
    let text = during(&site, "capacity=200GB pool=sm_pool", 206_240);
    check_line(&text, "PoolName[0]=sm_pool", &["UsedSpace=206240MiB"]);
    finish(site);
}

#[test]
fn a_pool_of_shaheen_is_shown_and_dealt_as_there() {
    let site = site_of(&SHAHEEN);
    // Two pieces, one on each node.
    let text = during(&site, "capacity=600GiB", 813_952);
    let pool = ["DefaultPool=wlm_pool", "Granularity=406976MiB", "UsedSpace=813952MiB"];
    check_line(&text, "Name=datawarp", &pool);
    finish(site);
}
