//! A tree that several clients use at the same time: lengths, times, files without a name, and what a restart keeps.

mod support;

use forebay_client::Volume;
use forebay_server::node::{Claim, NodeInstance};
use forebay_wire::*;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::nodes::{Nodes, node_spec};
use support::*;

fn nodes() -> Nodes {
    Nodes::new(Shape::striped(), 2)
}

fn size_of(volume: &Volume, ino: Ino) -> u64 {
    volume.getattr(ino, None).unwrap().size
}

fn lookup(volume: &Volume, name: &str) -> Result<Attr> {
    volume.lookup(me(), Ino::ROOT, OsStr::new(name))
}

fn at(secs: i64) -> Option<SetTime> {
    Some(SetTime::At(Timestamp { secs, nanos: 7 }))
}

#[test]
fn a_length_is_seen_by_the_other_one_at_once() {
    let n = nodes();
    let (one, two) = (n.volume(), n.volume());
    let (attr, opened) = create(&one, Ino::ROOT, "f");
    for pieces in 1..20u64 {
        write_all(&one, opened.handle, pieces * 5000, &pattern(pieces, 5000));
        assert_eq!(size_of(&two, attr.ino), (pieces + 1) * 5000);
    }
    let other = two.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
    let (start, done) = two.append(other.handle, b"tail", false).unwrap();
    assert_eq!((start, done), (100_000, 4));
    assert_eq!(size_of(&one, attr.ino), 100_004);
    one.release(opened.handle).unwrap();
    write_all(&two, other.handle, 200_000, b"end");
    assert_eq!(size_of(&one, attr.ino), 200_003);
    two.release(other.handle).unwrap();
    // Settled: the stub alone knows it, so a clean restart does.
    assert_eq!(n.tree.writers(attr.ino), 0);
    drop((one, two));
    let stub = n.directory.path().join("fragment2/ns/c1/tree/f");
    assert_eq!(std::fs::metadata(stub).unwrap().len(), 200_003);
}

#[test]
fn a_time_that_was_set_wins_over_the_writes_before_it() {
    let n = nodes();
    let volume = n.volume();
    let (attr, opened) = create(&volume, Ino::ROOT, "f");
    let set = SetAttr { mtime: at(1000), ..SetAttr::default() };
    let secs = |volume: &Volume| volume.getattr(attr.ino, None).unwrap().mtime.secs;
    write_all(&volume, opened.handle, 0, &pattern(1, 50_000));
    assert!(secs(&volume) > 1_000_000);
    volume.setattr(me(), attr.ino, Some(opened.handle), &set).unwrap();
    assert_eq!(secs(&volume), 1000, "set while it is open");
    volume.release(opened.handle).unwrap();
    assert_eq!(secs(&volume), 1000, "and closed");
    let opened = volume.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
    assert_eq!(secs(&volume), 1000, "and opened for writing");
    write_all(&volume, opened.handle, 10, b"x");
    assert!(secs(&volume) > 1_000_000, "a write is newer");
    volume.release(opened.handle).unwrap();
    assert!(secs(&volume) > 1_000_000, "a write is newer");
    volume.setattr(me(), attr.ino, None, &set).unwrap();
    assert_eq!(secs(&volume), 1000, "set while nobody has it open");
    let cut = SetAttr { size: Some(20_000), ..SetAttr::default() };
    volume.setattr(me(), attr.ino, None, &cut).unwrap();
    assert!(secs(&volume) > 1_000_000, "a cut is newer");
    volume.setattr(me(), attr.ino, None, &set).unwrap();
    let opened = volume.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
    volume.release(opened.handle).unwrap();
    assert_eq!(secs(&volume), 1000, "opened and closed without a write");
    drop(volume);
    let n = n.reopen_uncleanly();
    let volume = n.volume();
    assert_eq!(lookup(&volume, "f").unwrap().mtime.secs, 1000, "after a crash");
}

/// The servers are killed while a file is written: every answered write is there, with its length.
#[test]
fn what_was_written_is_there_after_an_unclean_end() {
    for sweeps in [false, true] {
        let n = nodes();
        let volume = n.volume();
        let (_, opened) = create(&volume, Ino::ROOT, "f");
        write_all(&volume, opened.handle, 0, &pattern(1, 123_456));
        let (_, gone) = create(&volume, Ino::ROOT, "removed by the crash");
        write_all(&volume, gone.handle, 0, &pattern(2, 50_000));
        let files = n.substripe_files();
        // As a kill: nothing is settled.
        std::mem::forget(volume);
        let (directory, shape, home) = n.killed();
        // As if the name had not reached the disk.
        std::fs::remove_file(directory.path().join("fragment2/ns/c1/tree/removed by the crash")).unwrap();
        let n = Nodes::open(directory, shape, home);
        let volume = n.volume();
        if sweeps {
            assert!(n.tree.sweep().unwrap() > 0, "there are pieces without a stub");
            assert_eq!(n.tree.sweep(), Ok(0));
            assert!(n.substripe_files() < files);
        }
        let attr = lookup(&volume, "f").unwrap();
        assert_eq!(attr.size, 123_456);
        let opened = volume.open(me(), attr.ino, OpenFlags::READ_ONLY).unwrap();
        assert_eq!(read_all(&volume, opened.handle), pattern(1, 123_456));
        volume.release(opened.handle).unwrap();
        drop(volume);
        // Without a sweep the next start has to walk again, and finds the same.
        let n = n.reopen();
        assert_eq!(lookup(&n.volume(), "f").unwrap().size, 123_456);
        assert_eq!(n.tree.sweep().unwrap() > 0, !sweeps);
    }
}

#[test]
fn a_removed_file_that_is_open_survives_the_server() {
    let n = nodes();
    let volume = n.volume();
    let mut claims = Vec::new();
    let held = |name: &str| {
        let (attr, opened) = create(&volume, Ino::ROOT, name);
        write_all(&volume, opened.handle, 0, &pattern(attr.ino.0, 40_000));
        (attr, opened)
    };
    for (name, how) in [("unlinked", 0), ("replaced", 1), ("kept", 2), ("not claimed", 0)] {
        let (attr, _opened) = held(name);
        match how {
            0 => volume.unlink(me(), Ino::ROOT, OsStr::new(name)).unwrap(),
            1 => {
                held("other");
                let (from, to) = (OsStr::new("other"), OsStr::new(name));
                volume.rename(me(), Ino::ROOT, from, Ino::ROOT, to, RenameMode::Replace).unwrap();
            }
            _ => {}
        }
        let now = volume.getattr(attr.ino, None).unwrap();
        assert_eq!((now.nlink, now.size), (u32::from(how == 2), 40_000), "{name}");
        let (ino, generation) = (attr.ino, now.generation);
        claims.push(Claim { ino, generation, parent: Ino::ROOT, name: name.into(), count: 3 });
    }
    std::mem::forget(volume);
    let (directory, shape, home) = n.killed();
    let n = Nodes::open(directory, shape, home);
    let volume = n.volume();
    claims.pop();
    for claim in &claims {
        let stale = Claim { generation: claim.generation + 1, ..claim.clone() };
        assert_eq!(n.tree.reclaim(&stale), Err(FsError::Stale));
        let attr = n.tree.reclaim(claim).unwrap();
        assert_eq!((attr.ino, attr.generation), (claim.ino, claim.generation));
        let opened = volume.open(me(), claim.ino, OpenFlags::READ_WRITE).unwrap();
        assert_eq!(read_all(&volume, opened.handle), pattern(claim.ino.0, 40_000), "{:?}", claim.name);
        write_all(&volume, opened.handle, 50_000, b"more");
        assert_eq!(size_of(&volume, claim.ino), 50_004);
        if claim.name == "unlinked" {
            volume.release(opened.handle).unwrap();
        }
    }
    assert_eq!(n.tree.sweep(), Ok(0), "all have a stub");
    let before = n.substripe_files();
    assert_eq!(n.tree.end_claims(), Ok(1), "the one that nobody claimed");
    let after = n.substripe_files();
    assert!(after < before);
    let left = std::fs::read_dir(n.directory.path().join("fragment2/ns/c1/open")).unwrap().count();
    assert_eq!(left, 1, "the replaced one is open");
    drop(volume);
    assert_eq!(std::fs::read_dir(n.directory.path().join("fragment2/ns/c1/open")).unwrap().count(), 0);
    n.reopen();
}

#[test]
fn the_layout_of_a_file_that_is_open_stays() {
    let n = nodes();
    let (one, two) = (n.volume(), n.volume());
    let (attr, opened) = create(&one, Ino::ROOT, "f");
    let set = || {
        let name = OsStr::new("user.dwfs.stripe_count");
        two.setxattr(me(), attr.ino, name, b"2", XattrMode::Any)
    };
    assert_eq!(set(), Err(FsError::Busy));
    one.release(opened.handle).unwrap();
    assert_eq!(set(), Ok(()));
}

#[test]
fn a_fragment_of_another_instance_or_place_is_refused() {
    let n = Nodes::new(Shape::striped(), 0);
    let (directory, shape, _) = n.close();
    let right = node_spec(directory.path(), &shape, 1);
    let open = |spec: &forebay_server::node::NodeSpec| NodeInstance::open(spec).map(|_| ());
    assert_eq!(open(&right), Ok(()));
    for wrong in [
        forebay_server::node::NodeSpec { instance: "beef".into(), ..right.clone() },
        forebay_server::node::NodeSpec { position: 2, ..right.clone() },
        forebay_server::node::NodeSpec { servers: 5, ..right.clone() },
    ] {
        assert!(matches!(open(&wrong), Err(FsError::Damaged { .. })), "{wrong:?}");
    }
    let nonsense = forebay_server::node::NodeSpec { position: 4, ..right.clone() };
    assert_eq!(open(&nonsense), Err(FsError::InvalidArgument));
}

/// Two volumes append to one file: every record is whole and none is lost.
#[test]
fn appends_of_two_never_overlap() {
    let n = nodes();
    let volumes = [n.volume(), n.volume()];
    let (attr, opened) = create(&volumes[0], Ino::ROOT, "log");
    volumes[0].release(opened.handle).unwrap();
    const RECORD: usize = 1000;
    std::thread::scope(|scope| {
        for (by, volume) in (1u8..).zip(&volumes) {
            scope.spawn(move || {
                let opened = volume.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
                for _ in 0..100 {
                    assert_eq!(volume.append(opened.handle, &[by; RECORD], false).unwrap().1, RECORD);
                }
                volume.release(opened.handle).unwrap();
            });
        }
    });
    assert_eq!(size_of(&volumes[0], attr.ino), 200 * RECORD as u64);
    let opened = volumes[1].open(me(), attr.ino, OpenFlags::READ_ONLY).unwrap();
    let data = read_all(&volumes[1], opened.handle);
    let mut counts = [0, 0];
    for record in data.chunks(RECORD) {
        assert!(record.iter().all(|byte| *byte == record[0]), "torn");
        counts[usize::from(record[0]) - 1] += 1;
    }
    assert_eq!(counts, [100, 100]);
    volumes[1].release(opened.handle).unwrap();
}

/// The data service of another server, which may be away.
struct Distant {
    data: Arc<dyn DataService>,
    is_away: Arc<AtomicBool>,
}

impl Distant {
    fn there(&self) -> Result<&dyn DataService> {
        if self.is_away.load(SeqCst) { Err(FsError::Unreachable) } else { Ok(&*self.data) }
    }
}

impl DataService for Distant {
    fn share(&self, file: FileId, substripes: u32) -> Arc<dyn Share> {
        self.data.share(file, substripes)
    }

    fn remove(&self, file: FileId, substripes: u32) -> Result<()> {
        self.there()?.remove(file, substripes)
    }

    fn blocks(&self, file: FileId, substripe: u32) -> Result<u64> {
        self.there()?.blocks(file, substripe)
    }

    fn extents(&self, file: FileId, substripes: u32) -> Result<Vec<Extent>> {
        self.there()?.extents(file, substripes)
    }

    fn list(&self, cookie: u64) -> Result<Listing> {
        self.there()?.list(cookie)
    }

    fn space(&self) -> Result<FragmentSpace> {
        self.there()?.space()
    }

    fn account(&self) -> Result<FragmentAccount> {
        self.there()?.account()
    }

    fn sync(&self) -> Result<()> {
        self.there()?.sync()
    }
}

/// A server that is away when a file is closed or removed costs neither its length nor, for ever, its space.
#[test]
fn a_server_that_is_away_is_asked_again() {
    let n = nodes();
    let away = Arc::new(AtomicBool::new(false));
    let distant = |data: &Arc<dyn DataService>| {
        Arc::new(Distant { data: data.clone(), is_away: away.clone() }) as Arc<dyn DataService>
    };
    let spec = |name: &str| forebay_server::local::NamespaceSpec {
        name: name.into(),
        layout: n.shape.layout,
        limits: n.shape.limits,
    };
    let Nodes { nodes, tree, .. } = &n;
    assert_eq!(nodes[2].tree(&spec("c1"), n.data.clone()).map(|_| ()), Err(FsError::Busy), "it is open");
    // Another namespace, since the content of this one is open without the wrapper.
    let own: Vec<_> = nodes.iter().map(|node| node.data("c2").unwrap() as Arc<dyn DataService>).collect();
    let data: Vec<_> = own.iter().map(distant).collect();
    let other = nodes[2].tree(&spec("c2"), data.clone()).unwrap();
    let volume = Volume::new(other.clone(), data);
    let (attr, opened) = create(&volume, Ino::ROOT, "f");
    write_all(&volume, opened.handle, 0, &pattern(1, 70_000));
    let gone = create(&volume, Ino::ROOT, "gone").1;
    write_all(&volume, gone.handle, 0, &pattern(2, 70_000));
    volume.release(gone.handle).unwrap();
    away.store(true, SeqCst);
    volume.release(opened.handle).unwrap();
    assert_eq!(volume.getattr(attr.ino, None).map(drop), Err(FsError::Unreachable));
    assert_eq!(lookup(&volume, "f").map(drop), Err(FsError::Unreachable));
    volume.unlink(me(), Ino::ROOT, OsStr::new("gone")).unwrap();
    other.finish_removals(Duration::from_secs(60));
    away.store(false, SeqCst);
    assert_eq!(size_of(&volume, attr.ino), 70_000);
    let opened = volume.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
    write_all(&volume, opened.handle, 70_000, &pattern(3, 5_000));
    away.store(true, SeqCst);
    volume.release(opened.handle).unwrap();
    // Closed in order, but what was left unsettled and not removed makes the next start look.
    drop((volume, other, own));
    assert!(tree.sweep().is_ok());
    let n = n.reopen();
    let own: Vec<_> = n.nodes.iter().map(|node| node.data("c2").unwrap() as Arc<dyn DataService>).collect();
    let spec = forebay_server::local::NamespaceSpec {
        name: "c2".into(),
        layout: n.shape.layout,
        limits: n.shape.limits,
    };
    let other = n.nodes[2].tree(&spec, own.clone()).unwrap();
    assert!(other.sweep().unwrap() > 0, "the content of the removed file");
    let volume = Volume::new(other, own);
    assert_eq!(lookup(&volume, "f").unwrap().size, 75_000);
}

#[test]
fn a_file_without_a_name_keeps_its_length_for_who_reads_it() {
    let n = nodes();
    let (one, two) = (n.volume(), n.volume());
    let (attr, writer) = create(&one, Ino::ROOT, "file");
    write_all(&one, writer.handle, 0, &[1; 100]);
    let reader = two.open(me(), attr.ino, OpenFlags::READ_ONLY).unwrap();
    one.unlink(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    one.release(writer.handle).unwrap();
    assert_eq!(read_all(&two, reader.handle).len(), 100, "the last who could write has closed it");
    two.release(reader.handle).unwrap();
    assert_eq!(n.substripe_files(), 0);
}

/// A data service that can be asked without waiting, and notes when.
struct Noting {
    data: Arc<dyn DataService>,
    position: usize,
    notes: Arc<Mutex<Vec<(&'static str, usize)>>>,
}

impl Noting {
    fn note(&self, what: &'static str) {
        self.notes.lock().unwrap().push((what, self.position));
    }
}

impl DataService for Noting {
    fn share(&self, file: FileId, substripes: u32) -> Arc<dyn Share> {
        self.data.share(file, substripes)
    }

    fn remove(&self, file: FileId, substripes: u32) -> Result<()> {
        self.data.remove(file, substripes)
    }

    fn blocks(&self, file: FileId, substripe: u32) -> Result<u64> {
        self.data.blocks(file, substripe)
    }

    fn extents(&self, file: FileId, substripes: u32) -> Result<Vec<Extent>> {
        self.note("ask");
        self.data.extents(file, substripes)
    }

    fn begin_extents(&self, file: FileId, substripes: u32) -> Option<End<'_, Vec<Extent>>> {
        self.note("begin");
        // The connection to the last one breaks.
        let is_broken = self.position == 2;
        Some(Box::new(move || {
            self.note("end");
            (!is_broken).then(|| self.data.extents(file, substripes))
        }))
    }

    fn list(&self, cookie: u64) -> Result<Listing> {
        self.data.list(cookie)
    }

    fn space(&self) -> Result<FragmentSpace> {
        self.data.space()
    }

    fn account(&self) -> Result<message::FragmentAccount> {
        self.data.account()
    }

    fn sync(&self) -> Result<()> {
        self.data.sync()
    }
}

#[test]
fn a_length_is_asked_of_all_servers_at_the_same_time() {
    let n = nodes();
    let notes = Arc::<Mutex<Vec<_>>>::default();
    let own = n.nodes.iter().map(|node| node.data("c2").unwrap() as Arc<dyn DataService>);
    let noting =
        |(position, data)| Arc::new(Noting { data, position, notes: notes.clone() }) as Arc<dyn DataService>;
    let data: Vec<_> = own.enumerate().map(noting).collect();
    let spec = forebay_server::local::NamespaceSpec {
        name: "c2".into(),
        layout: n.shape.layout,
        limits: n.shape.limits,
    };
    let volume = Volume::new(n.nodes[2].tree(&spec, data.clone()).unwrap(), data);
    let (attr, opened) = create(&volume, Ino::ROOT, "f");
    write_all(&volume, opened.handle, 0, &pattern(1, 70_000));
    notes.lock().unwrap().clear();
    assert_eq!(size_of(&volume, attr.ino), 70_000);
    let mut notes = notes.lock().unwrap().clone();
    let count = n.nodes.len();
    notes[..count].sort_unstable();
    notes[count..2 * count].sort_unstable();
    let each = |what| (0..count).map(move |position| (what, position));
    let expected: Vec<_> = each("begin").chain(each("end")).chain([("ask", 2)]).collect();
    assert_eq!(notes, expected, "all are asked before one is waited for, and one that breaks is asked again");
    volume.release(opened.handle).unwrap();
}

#[test]
fn content_goes_after_its_name_by_itself_and_for_who_asks_for_the_space_at_once() {
    let n = nodes();
    let volume = n.volume();
    let files = || n.data.iter().map(|data| data.list(0).unwrap().entries.len()).sum::<usize>();
    for round in 0..50 {
        let (attr, opened) = create(&volume, Ino::ROOT, "f");
        write_all(&volume, opened.handle, 0, &pattern(1, 70_000));
        volume.release(opened.handle).unwrap();
        volume.unlink(me(), Ino::ROOT, OsStr::new("f")).unwrap();
        volume.forget(attr.ino, 1);
        assert_eq!(lookup(&volume, "f").map(drop), Err(FsError::NotFound), "round {round}");
    }
    assert!(volume.statfs().is_ok());
    assert_eq!(files(), 0, "who asks for the space waits for it");
    let opened = create(&volume, Ino::ROOT, "f").1;
    write_all(&volume, opened.handle, 0, &pattern(1, 70_000));
    volume.release(opened.handle).unwrap();
    volume.unlink(me(), Ino::ROOT, OsStr::new("f")).unwrap();
    n.tree.finish_removals(Duration::from_secs(60));
    assert_eq!(files(), 0, "it goes by itself");
}
