//! Every place at which a process can be killed between writing down what it is going to do and writing down that it has.

use super::*;
use crate::deeds::{Deed, Past};
use crate::local::{Limits, NamespaceSpec};
use crate::node::{NodeInstance, NodeSpec, SpaceRule};
use forebay_wire::message::Once;
use forebay_wire::{Caller, FileKind, NewObject};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

const SESSION: SessionId = SessionId([7; 16]);
const ONCE: Once = Once { slot: 3, sequence: 9 };
const KIND: u16 = 0x0107;

/// A place where processes live one after the other.
struct Ground {
    directory: tempfile::TempDir,
}

struct Life {
    tree: Arc<Tree>,
    deeds: Deeds,
    own: SessionDeeds,
    _node: Arc<NodeInstance>,
}

impl Ground {
    fn new() -> Ground {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("fragment")).unwrap();
        Ground { directory }
    }

    /// A process begins, after the end of the one before.
    fn live(&self) -> Life {
        let root = self.directory.path().join("fragment");
        let spec = NodeSpec { root, instance: "ab".into(), space: SpaceRule::Hard, position: 0, servers: 1 };
        let node = NodeInstance::open(&spec).unwrap();
        let spec = NamespaceSpec { name: "c1".into(), layout: Default::default(), limits: Limits::default() };
        let tree = node.tree(&spec, vec![node.data("c1").unwrap()]).unwrap();
        let sessions = BTreeSet::from([SESSION]);
        let deeds = Deeds::open(&self.directory.path().join("list.deeds"), &sessions).unwrap();
        tree.settle_deeds(&deeds, &sessions).unwrap();
        let own = deeds.of(SESSION).unwrap();
        Life { tree, deeds, own, _node: node }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("fragment/ns/c1/tree").join(name)
    }

    fn ino(&self, name: &str) -> Ino {
        Ino(std::fs::symlink_metadata(self.path(name)).unwrap().ino())
    }

    /// What the next process knows of what was under way.
    fn next(&self) -> (Past, Life) {
        let life = self.live();
        let past = life.own.past(ONCE, KIND);
        assert!(life.deeds.left_open().unwrap().is_none(), "it is settled");
        (past, life)
    }
}

impl Life {
    fn deed(&self) -> Deed<'_> {
        self.deeds.deed(&self.own, ONCE.slot, ONCE.sequence, KIND)
    }

    /// The process is killed after it wrote down what it is going to do.
    fn killed_at(self, intent: Intent<'_>) {
        std::mem::forget(self.deed().alone(intent));
    }
}

fn os(name: &str) -> &OsStr {
    OsStr::new(name)
}

fn new_object() -> NewObject {
    let caller =
        Caller { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), pid: 1 };
    NewObject { caller, mode: FileKind::Regular.mode_bits() | 0o644, rdev: 0 }
}

#[test]
fn what_was_half_made_goes_and_what_holds_something_stays() {
    let ground = Ground::new();
    ground.live().killed_at(Intent::of(What::Make, Ino(0), Ino::ROOT, os("never")));
    assert_eq!(ground.next().0, Past::Never);
    let life = ground.live();
    life.tree.mkdir(Ino::ROOT, os("d"), &new_object(), &Deed::UNNOTED).unwrap();
    let parent = ground.ino("d");
    life.killed_at(Intent::of(What::Make, Ino(0), parent, os("file")));
    std::fs::write(ground.path("d/file"), b"").unwrap();
    assert_eq!(ground.next().0, Past::Never);
    assert!(!ground.path("d/file").exists());
    ground.live().killed_at(Intent::of(What::Make, Ino(0), parent, os("sub")));
    std::fs::create_dir(ground.path("d/sub")).unwrap();
    assert_eq!(ground.next().0, Past::Never);
    assert!(!ground.path("d/sub").exists());
    ground.live().killed_at(Intent::of(What::Make, Ino(0), parent, os("link")));
    std::os::unix::fs::symlink("nowhere", ground.path("d/link")).unwrap();
    assert_eq!(ground.next().0, Past::Never);
    assert!(ground.path("d/link").symlink_metadata().is_err());
    // It cannot be so; but what somebody wrote is not removed for that.
    ground.live().killed_at(Intent::of(What::Make, Ino(0), parent, os("full")));
    std::fs::write(ground.path("d/full"), b"data").unwrap();
    assert_eq!(ground.next().0, Past::Never);
    assert_eq!(std::fs::read(ground.path("d/full")).unwrap(), b"data");
}

#[test]
fn a_link_and_a_removal_are_seen_by_what_stands_there() {
    let ground = Ground::new();
    drop(ground.live());
    std::fs::write(ground.path("f"), b"").unwrap();
    drop(ground.next());
    let ino = ground.ino("f");
    ground.live().killed_at(Intent::of(What::Link, ino, Ino::ROOT, os("g")));
    assert_eq!(ground.next().0, Past::Never);
    ground.live().killed_at(Intent::of(What::Link, ino, Ino::ROOT, os("g")));
    std::fs::hard_link(ground.path("f"), ground.path("g")).unwrap();
    assert_eq!(ground.next().0, Past::Done([ino.0, 0, 0, 0]));
    // The slot is used for the next one, which was not made.
    let life = ground.live();
    life.own.forget(ONCE.slot);
    life.killed_at(Intent::of(What::Remove, ino, Ino::ROOT, os("g")));
    assert_eq!(ground.next().0, Past::Never);
    ground.live().killed_at(Intent::of(What::Remove, ino, Ino::ROOT, os("g")));
    std::fs::remove_file(ground.path("g")).unwrap();
    assert_eq!(ground.next().0, Past::Done([0; 4]));
}

#[test]
fn a_move_is_seen_by_what_stands_at_both_ends() {
    let ground = Ground::new();
    drop(ground.live());
    std::fs::create_dir(ground.path("d")).unwrap();
    let [from, to] = ["f", "d/g"].map(|name| ground.path(name));
    for what in [What::Rename, What::Exchange] {
        for is_made in [false, true] {
            std::fs::write(&from, b"f").unwrap();
            std::fs::write(&to, b"g").unwrap();
            let life = ground.live();
            life.own.forget(ONCE.slot);
            let other = Some(ground.ino("d/g"));
            let (ino, parent) = (ground.ino("f"), ground.ino("d"));
            life.killed_at(Intent::moving(what, ino, (Ino::ROOT, os("f")), (parent, os("g")), other));
            if is_made && what == What::Rename {
                std::fs::rename(&from, &to).unwrap();
            } else if is_made {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &from, rustix::fs::CWD, &to, flags).unwrap();
            }
            let expected = if is_made { Past::Done([0; 4]) } else { Past::Never };
            let past = ground.next().0;
            assert_eq!(past, expected, "{what:?} {is_made}");
        }
    }
}

#[test]
fn attributes_are_seen_by_their_values() {
    let ground = Ground::new();
    drop(ground.live());
    std::fs::write(ground.path("f"), b"").unwrap();
    drop(ground.live());
    let ino = ground.ino("f");
    let file = std::fs::File::open(ground.path("f")).unwrap();
    let set = |value: &[u8]| rustix::fs::fsetxattr(&file, "user.a", value, rustix::fs::XattrFlags::empty());
    let setting =
        || Intent { other: digest(b"new"), ..Intent::of(What::SetAttribute, ino, Ino(0), os("user.a")) };
    set(b"old").unwrap();
    ground.live().killed_at(setting());
    assert_eq!(ground.next().0, Past::Never);
    ground.live().killed_at(setting());
    set(b"new").unwrap();
    assert_eq!(ground.next().0, Past::Done([0; 4]));
    let life = ground.live();
    life.own.forget(ONCE.slot);
    let removing = || Intent::of(What::RemoveAttribute, ino, Ino(0), os("user.a"));
    life.killed_at(removing());
    assert_eq!(ground.next().0, Past::Never);
    ground.live().killed_at(removing());
    rustix::fs::fremovexattr(&file, "user.a").unwrap();
    assert_eq!(ground.next().0, Past::Done([0; 4]));
}

#[test]
fn an_append_keeps_its_place_and_a_cut_is_made() {
    let ground = Ground::new();
    drop(ground.live());
    std::fs::write(ground.path("f"), b"before").unwrap();
    let ino = ground.ino("f").0;
    let file = std::fs::OpenOptions::new().write(true).open(ground.path("f")).unwrap();
    drop(ground.live());
    let begin = |values| {
        let life = ground.live();
        life.deed().begin(values);
    };
    let append = [APPEND, ino, 6, 4];
    begin(append);
    assert_eq!(ground.next().0, Past::Never, "nothing was written");
    begin(append);
    file.write_all_at(b"ab", 6).unwrap();
    assert_eq!(ground.next().0, Past::Begun(append));
    assert_eq!(std::fs::read(ground.path("f")).unwrap(), b"beforeab\0\0");
    // Nothing is cut off that others wrote behind.
    file.write_all_at(b"behind", 10).unwrap();
    assert_eq!(ground.next().0, Past::Begun(append));
    assert_eq!(std::fs::read(ground.path("f")).unwrap(), b"beforeab\0\0behind");
    let life = ground.live();
    life.deeds.reservations().of(Ino(ino)).unwrap().set_end(99);
    life.deed().begin([CUT, ino, 3, 0]);
    drop(life);
    let (past, life) = ground.next();
    assert_eq!(past, Past::Begun([CUT, ino, 3, 0]));
    assert_eq!(std::fs::read(ground.path("f")).unwrap(), b"bef");
    assert_eq!(life.deeds.reservations().known(Ino(ino)).unwrap().end(), 0, "the next append is at the end");
}
