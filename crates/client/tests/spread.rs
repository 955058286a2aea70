//! Which servers are asked about a striped file: that of its first stripe, until somebody says that he writes elsewhere.

mod support;

use forebay_client::Volume;
use forebay_wire::*;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::nodes::Nodes;
use support::*;

/// Bytes of a stripe of [`Shape::striped`].
const STRIPE: u64 = 4096;

type Notes = Arc<Mutex<Vec<(&'static str, usize)>>>;

/// A data service, or a share of it, that notes what it is asked.
struct Noting<T: ?Sized> {
    of: Arc<T>,
    position: usize,
    notes: Notes,
}

impl<T: ?Sized> Noting<T> {
    fn note(&self, what: &'static str) {
        self.notes.lock().unwrap().push((what, self.position));
    }
}

impl DataService for Noting<dyn DataService> {
    fn share(&self, file: FileId, substripes: u32) -> Arc<dyn Share> {
        let (position, notes) = (self.position, self.notes.clone());
        Arc::new(Noting { of: self.of.share(file, substripes), position, notes })
    }

    fn remove(&self, file: FileId, substripes: u32) -> Result<()> {
        self.of.remove(file, substripes)
    }

    fn blocks(&self, file: FileId, substripe: u32) -> Result<u64> {
        self.of.blocks(file, substripe)
    }

    fn extents(&self, file: FileId, substripes: u32) -> Result<Vec<Extent>> {
        self.note("extents");
        self.of.extents(file, substripes)
    }

    fn list(&self, cookie: u64) -> Result<Listing> {
        self.of.list(cookie)
    }

    fn space(&self) -> Result<FragmentSpace> {
        self.of.space()
    }

    fn account(&self) -> Result<FragmentAccount> {
        self.of.account()
    }

    fn sync(&self) -> Result<()> {
        self.of.sync()
    }
}

impl Share for Noting<dyn Share> {
    fn read(&self, spans: &[Span], buffer: &mut [u8]) -> Result<bool> {
        self.of.read(spans, buffer)
    }

    fn write(&self, spans: &[Span], buffer: &[u8]) -> Result<usize> {
        self.of.write(spans, buffer)
    }

    fn fallocate(&self, substripe: u32, range: Range<u64>, mode: FallocateMode) -> Result<()> {
        self.of.fallocate(substripe, range, mode)
    }

    fn cut(&self, substripe: u32, length: u64) -> Result<()> {
        self.of.cut(substripe, length)
    }

    fn seek(&self, substripe: u32, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        self.of.seek(substripe, offset, what)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.note("sync");
        self.of.sync(data_only)
    }
}

/// Nodes with two volumes of different clients, and what their servers are asked.
struct Asked {
    one: Volume,
    two: Volume,
    notes: Notes,
    nodes: Nodes,
}

impl Asked {
    fn new() -> Asked {
        let nodes = Nodes::new(Shape::striped(), 2);
        let notes = Notes::default();
        let noting = |(position, data): (usize, &Arc<dyn DataService>)| {
            Arc::new(Noting { of: data.clone(), position, notes: notes.clone() }) as Arc<dyn DataService>
        };
        let own: Vec<_> =
            nodes.nodes.iter().map(|node| node.data("c2").unwrap() as Arc<dyn DataService>).collect();
        let data: Vec<_> = own.iter().enumerate().map(noting).collect();
        let (layout, limits) = (nodes.shape.layout, nodes.shape.limits);
        let spec = forebay_server::local::NamespaceSpec { name: "c2".into(), layout, limits };
        let tree = nodes.nodes[2].tree(&spec, data.clone()).unwrap();
        let volume = || Volume::new(tree.clone(), data.clone());
        Asked { one: volume(), two: volume(), notes, nodes }
    }

    /// Which servers are asked something while this is done.
    fn of(&self, what: &str, operation: impl FnOnce()) -> BTreeSet<usize> {
        self.notes.lock().unwrap().clear();
        operation();
        let notes = self.notes.lock().unwrap();
        notes.iter().filter(|(asked, _)| *asked == what).map(|(_, position)| *position).collect()
    }

    fn all(&self) -> BTreeSet<usize> {
        (0..self.nodes.nodes.len()).collect()
    }
}

fn first(attr_of: &Volume, handle: forebay_client::Handle, asked: &Asked) -> BTreeSet<usize> {
    write_all(attr_of, handle, 0, b"begin");
    let syncing = asked.of("sync", || attr_of.fsync(handle, true).unwrap());
    assert_eq!(syncing.len(), 1, "only the first server has something: {syncing:?}");
    syncing
}

#[test]
fn a_short_file_is_asked_of_its_first_server() {
    let asked = Asked::new();
    let (attr, opened) = create(&asked.one, Ino::ROOT, "f");
    let first = first(&asked.one, opened.handle, &asked);
    let size = |volume: &Volume| volume.getattr(attr.ino, None).unwrap().size;
    assert_eq!(asked.of("extents", || assert_eq!(size(&asked.two), 5)), first);
    write_all(&asked.one, opened.handle, STRIPE - 3, b"end");
    assert_eq!(asked.of("extents", || assert_eq!(size(&asked.two), STRIPE)), first);
    assert_eq!(asked.of("extents", || asked.one.release(opened.handle).unwrap()), first);
    // These clients close without a word: what they wrote may be anywhere, as far as the tree knows.
    let again = asked.two.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
    write_all(&asked.two, again.handle, 10, b"more");
    assert_eq!(asked.of("extents", || assert_eq!(size(&asked.one), STRIPE)), asked.all());
    assert_eq!(asked.of("sync", || asked.two.fsync(again.handle, false).unwrap()), asked.all());
    asked.two.release(again.handle).unwrap();
}

#[test]
fn what_another_client_writes_elsewhere_is_asked_for_and_synced() {
    let asked = Asked::new();
    let (attr, opened) = create(&asked.one, Ino::ROOT, "f");
    let first = first(&asked.one, opened.handle, &asked);
    let other = asked.two.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
    write_all(&asked.two, other.handle, 0, b"short");
    let sync = || asked.one.fsync(opened.handle, true).unwrap();
    assert_eq!(asked.of("sync", sync), first, "it may write elsewhere, and has not");
    write_all(&asked.two, other.handle, STRIPE, b"far");
    let size = |volume: &Volume| volume.getattr(attr.ino, None).unwrap().size;
    assert_eq!(asked.of("extents", || assert_eq!(size(&asked.one), STRIPE + 3)), asked.all());
    assert_eq!(asked.of("sync", sync), asked.all());
    assert_eq!(asked.of("sync", sync), asked.all(), "and from then on");
    asked.two.release(other.handle).unwrap();
    write_all(&asked.one, opened.handle, 0, b"again");
    assert_eq!(asked.of("sync", sync), asked.all(), "it was not synced by who wrote it");
    asked.one.release(opened.handle).unwrap();
    assert_eq!(size(&asked.one), STRIPE + 3);
    let again = asked.one.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
    write_all(&asked.one, again.handle, 0, b"again");
    assert_eq!(asked.of("extents", || assert_eq!(size(&asked.two), STRIPE + 3)), asked.all());
    asked.one.release(again.handle).unwrap();
}

#[test]
fn who_reads_and_syncs_has_all_of_it_synced() {
    let asked = Asked::new();
    let (attr, opened) = create(&asked.one, Ino::ROOT, "f");
    write_all(&asked.one, opened.handle, 0, &pattern(1, 5 * STRIPE as usize));
    asked.one.release(opened.handle).unwrap();
    let reader = asked.two.open(me(), attr.ino, OpenFlags::READ_ONLY).unwrap();
    assert_eq!(asked.of("sync", || asked.two.fsync(reader.handle, true).unwrap()), asked.all());
    asked.two.release(reader.handle).unwrap();
}

#[test]
fn what_is_allocated_elsewhere_is_asked_for() {
    for mode in [FallocateMode::ALLOCATE, FallocateMode::ZERO_RANGE] {
        let asked = Asked::new();
        let (attr, opened) = create(&asked.one, Ino::ROOT, "f");
        first(&asked.one, opened.handle, &asked);
        asked.one.fallocate(opened.handle, 2 * STRIPE, 10, mode).unwrap();
        let size = || assert_eq!(asked.two.getattr(attr.ino, None).unwrap().size, 2 * STRIPE + 10);
        assert_eq!(asked.of("extents", size), asked.all());
        assert_eq!(asked.of("sync", || asked.one.fsync(opened.handle, true).unwrap()), asked.all());
        asked.one.release(opened.handle).unwrap();
    }
}

#[test]
fn a_start_knows_of_no_file_where_it_lies() {
    let asked = Asked::new();
    let (_, opened) = create(&asked.one, Ino::ROOT, "f");
    first(&asked.one, opened.handle, &asked);
    asked.one.release(opened.handle).unwrap();
    let Asked { one, two, nodes, .. } = asked;
    drop((one, two));
    nodes.tree.finish_removals(Duration::from_secs(60));
    let nodes = nodes.reopen();
    let notes = Notes::default();
    let own = nodes.nodes.iter().map(|node| node.data("c2").unwrap() as Arc<dyn DataService>);
    let noting = |(position, of)| {
        Arc::new(Noting::<dyn DataService> { of, position, notes: notes.clone() }) as Arc<dyn DataService>
    };
    let data: Vec<_> = own.enumerate().map(noting).collect();
    let (layout, limits) = (nodes.shape.layout, nodes.shape.limits);
    let spec = forebay_server::local::NamespaceSpec { name: "c2".into(), layout, limits };
    let volume = || Volume::new(nodes.nodes[2].tree(&spec, data.clone()).unwrap(), data.clone());
    let volume = volume();
    let attr = volume.lookup(me(), Ino::ROOT, OsStr::new("f")).unwrap();
    let opened = volume.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap();
    notes.lock().unwrap().clear();
    volume.fsync(opened.handle, true).unwrap();
    let asked: BTreeSet<usize> = notes.lock().unwrap().iter().map(|(_, position)| *position).collect();
    assert_eq!(asked.len(), 4, "who was there before may write elsewhere, and have said so before");
    volume.release(opened.handle).unwrap();
}
