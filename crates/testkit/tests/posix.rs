//! The POSIX suite on a local file system, which proves the suite, and on DWFS in every way of serving, as root and as a
//! user, on mounts of root and of that user.

mod support;

use forebay_testkit::Identity;
use support::ground::{Ground, Room, Way};

/// The checks of the whole suite must be at least this many, or something has been left out.
const FEWEST_CHECKS: u64 = 10_000;

fn judge(way: Way, server: Identity, eyes: Identity) {
    let ground = Ground::new(way, &server, &eyes);
    let said = ground.judge(&[&"posix", &ground.under(), &"--costs", &"small,many"]);
    println!("{said}");
    assert!(checks_in(&said) > FEWEST_CHECKS, "{said}");
    ground.finish();
}

fn judge_full(way: Way, room: Room, server: Identity) {
    let ground = Ground::with_room(way, room, &server, &server);
    println!("{}", ground.judge(&[&"posix", &ground.under(), &"--costs", &"fills-up"]));
    ground.finish();
}

/// The number before ` checks` in the last line.
fn checks_in(said: &str) -> u64 {
    let last = said.lines().last().unwrap_or_default();
    let words: Vec<&str> = last.split(' ').collect();
    words.windows(2).find(|pair| pair[1] == "checks,").and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[test]
fn local_xfs_as_root() {
    judge(Way::LocalXfs, Identity::root(), Identity::root());
}

#[test]
fn local_xfs_as_user() {
    judge(Way::LocalXfs, Identity::root(), Identity::nobody());
}

#[test]
fn striped_as_root() {
    judge(Way::Striped, Identity::root(), Identity::root());
}

#[test]
fn striped_as_user_on_a_mount_of_root() {
    judge(Way::Striped, Identity::root(), Identity::nobody());
}

#[test]
fn striped_as_user() {
    judge(Way::Striped, Identity::nobody(), Identity::nobody());
}

#[test]
fn inline_as_root() {
    judge(Way::Inline, Identity::root(), Identity::root());
}

#[test]
fn inline_as_user_on_a_mount_of_root() {
    judge(Way::Inline, Identity::root(), Identity::nobody());
}

#[test]
fn inline_as_user() {
    judge(Way::Inline, Identity::nobody(), Identity::nobody());
}

#[test]
fn passthrough_as_root() {
    judge(Way::Passthrough, Identity::root(), Identity::root());
}

#[test]
fn passthrough_as_user_on_a_mount_of_root() {
    judge(Way::Passthrough, Identity::root(), Identity::nobody());
}

#[test]
fn full_local_xfs() {
    judge_full(Way::LocalXfs, Room::SmallDisk, Identity::root());
}

#[test]
fn full_small_disk_striped() {
    judge_full(Way::Striped, Room::SmallDisk, Identity::root());
}

#[test]
fn full_small_disk_passthrough() {
    judge_full(Way::Passthrough, Room::SmallDisk, Identity::root());
}

#[test]
fn full_metered_striped() {
    judge_full(Way::Striped, Room::Metered(16 << 20), Identity::nobody());
}

#[test]
fn full_metered_inline() {
    judge_full(Way::Inline, Room::Metered(64 << 20), Identity::nobody());
}
