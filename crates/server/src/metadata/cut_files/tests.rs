//! A file that was cut and closed is as long as its stub says, also behind a power cut; and what that costs.

use super::super::Tree;
use super::super::altered::Altered;
use super::super::cuts::cut_all;
use super::super::live::OpenFile;
use super::super::reclaim::tests::{STRIPE_BYTES, end, ground, me, open, open_over};
use super::*;
use crate::node::NodeInstance;
use forebay_wire::{
    FallocateMode, FileKind, FsError, Ino, MetadataService, NewObject, OpenFlags, Placement, SeekWhat,
    SetAttr, Share, Span, Stub,
};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;

/// What a file is cut to: within the first stripe.
const CUT: u64 = 10;
/// Its length before: two stripes, on two servers.
const LENGTH: u64 = 2 * STRIPE_BYTES;
const SOON: Duration = Duration::from_millis(20);

/// What a server on another machine was asked, and the memory that it answers out of.
#[derive(Default)]
struct Machine {
    memory: u64,
    extents: usize,
    syncs: usize,
    is_away: bool,
}

type Elsewhere = Arc<Mutex<Machine>>;

fn machine(of: &Elsewhere) -> MutexGuard<'_, Machine> {
    of.lock().unwrap()
}

struct RemoteShare {
    share: Arc<dyn Share>,
    machine: Elsewhere,
    memory: Mutex<Option<u64>>,
}

/// A data service as if it were on another machine.
fn remote(service: Arc<dyn DataService>, elsewhere: &Elsewhere) -> Arc<dyn DataService> {
    let (asked, has) = (elsewhere.clone(), elsewhere.clone());
    let before_extents = move || {
        machine(&asked).extents += 1;
        Ok(())
    };
    let over_share = move |share| {
        Arc::new(RemoteShare { share, machine: has.clone(), memory: Mutex::default() }) as Arc<dyn Share>
    };
    Arc::new(Altered { service, before_extents: Box::new(before_extents), over_share: Box::new(over_share) })
}

impl Share for RemoteShare {
    fn read(&self, spans: &[Span], buffer: &mut [u8]) -> Result<bool> {
        self.share.read(spans, buffer)
    }

    fn write(&self, spans: &[Span], buffer: &[u8]) -> Result<usize> {
        self.share.write(spans, buffer)
    }

    fn fallocate(&self, substripe: u32, range: Range<u64>, mode: FallocateMode) -> Result<()> {
        self.share.fallocate(substripe, range, mode)
    }

    fn cut(&self, substripe: u32, length: u64) -> Result<()> {
        *self.memory.lock().unwrap() = Some(machine(&self.machine).memory);
        self.share.cut(substripe, length)
    }

    fn seek(&self, substripe: u32, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        self.share.seek(substripe, offset, what)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let mut machine = machine(&self.machine);
        machine.syncs += 1;
        if machine.is_away {
            return Err(FsError::Unreachable);
        }
        *self.memory.lock().unwrap() = Some(machine.memory);
        self.share.sync(data_only)
    }

    fn memory(&self) -> Option<u64> {
        *self.memory.lock().unwrap()
    }
}

/// A tree over two servers, of which the second is elsewhere, with a file that has content on both.
struct Ground {
    tree: Arc<Tree>,
    nodes: [Arc<NodeInstance>; 2],
    elsewhere: Elsewhere,
    ino: Ino,
    file: FileId,
    layout: Layout,
}

impl Ground {
    fn new(directory: &Path) -> Ground {
        let elsewhere = Elsewhere::default();
        let over = |position, service| if position == 0 { service } else { remote(service, &elsewhere) };
        let (tree, nodes) = open_over(directory, over);
        let object = NewObject { caller: me(), mode: FileKind::Regular.mode_bits() | 0o644, rdev: 0 };
        let flags = OpenFlags::READ_WRITE;
        let (attr, stub) =
            MetadataService::create(&*tree, Ino::ROOT, OsStr::new("f"), &object, flags).unwrap();
        let Placement::Striped { file, layout } = stub.placement() else { panic!("not striped") };
        let ground = Ground { tree, nodes, elsewhere, ino: attr.ino, file, layout };
        stub.will_change(LENGTH).unwrap();
        (0..2).for_each(|server| ground.write(server));
        close(stub);
        ground
    }

    /// Fills the first stripe of a server.
    fn write(&self, server: usize) {
        let spans = [Span { substripe: 0, offset: 0, at: 0, len: STRIPE_BYTES as usize }];
        let share = self.nodes[server].data("c1").unwrap().share(self.file, 1);
        assert_eq!(share.write(&spans, &[7; STRIPE_BYTES as usize]), Ok(STRIPE_BYTES as usize));
    }

    fn open(&self, flags: OpenFlags) -> Arc<dyn Stub> {
        MetadataService::open(&*self.tree, me(), self.ino, flags).unwrap()
    }

    fn set_length(&self, length: u64) {
        let change = SetAttr { size: Some(length), ..SetAttr::default() };
        MetadataService::setattr(&*self.tree, me(), self.ino, None, &change).unwrap();
    }

    /// The other server loses its power, and what was cut is there again.
    fn lose_power(&self) {
        machine(&self.elsewhere).memory += 1;
        self.write(1);
    }

    /// So much the other server has of it.
    fn left(&self) -> u64 {
        self.nodes[1].data("c1").unwrap().extents(self.file, 1).unwrap()[0].length
    }

    /// Cuts its content, and nothing else.
    fn cut(&self) -> Cut {
        let shares = shares_of(&self.tree.data, self.file, &self.layout).unwrap();
        cut_all(&shares, &self.layout, CUT).unwrap();
        Cut { layout: self.layout, memories: memories_of(&shares), length: Some(CUT) }
    }

    fn end(self) {
        end(self.tree, self.nodes);
    }
}

fn close(stub: Arc<dyn Stub>) {
    OpenFile::is_closed(&*stub, true);
}

fn on_a_ground(test: impl FnOnce(&Ground)) {
    let directory = ground();
    let ground = Ground::new(directory.path());
    test(&ground);
    ground.end();
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn who_opens_a_file_finds_it_cut_as_its_stub_has_shown_it() {
    on_a_ground(|ground| {
        for is_by_number in [true, false] {
            for (flags, length) in
                [(OpenFlags::READ_ONLY, CUT), (OpenFlags::READ_WRITE, CUT), (OpenFlags::READ_ONLY, LENGTH)]
            {
                ground.set_length(LENGTH);
                ground.write(1);
                let stub = (!is_by_number).then(|| ground.open(OpenFlags::READ_WRITE));
                ground.set_length(CUT);
                stub.into_iter().for_each(close);
                ground.lose_power();
                assert_eq!(
                    (ground.tree.getattr(ground.ino).unwrap().size, ground.left()),
                    (CUT, STRIPE_BYTES)
                );
                if length > CUT {
                    ground.set_length(length);
                }
                let stub = ground.open(flags);
                assert_eq!(stub.size(), Ok(length));
                close(stub);
                assert_eq!(ground.left(), 0, "{flags:?}, {length} bytes, by number: {is_by_number}");
            }
        }
    });
}

#[test]
fn what_is_appended_behind_a_cut_is_not_cut() {
    on_a_ground(|ground| {
        ground.set_length(CUT);
        let stub = ground.open(OpenFlags::READ_WRITE);
        stub.will_change(LENGTH).unwrap();
        ground.write(1);
        close(stub);
        machine(&ground.elsewhere).memory += 1;
        close(ground.open(OpenFlags::READ_WRITE));
        assert_eq!((ground.tree.getattr(ground.ino).unwrap().size, ground.left()), (LENGTH, STRIPE_BYTES));
    });
}

#[test]
fn what_may_have_come_late_from_who_is_gone_without_a_word_is_not_cut() {
    on_a_ground(|ground| {
        let stub = ground.open(OpenFlags::READ_WRITE);
        ground.set_length(CUT);
        drop(stub);
        ground.write(1);
        let stub = ground.open(OpenFlags::READ_WRITE);
        assert_eq!(stub.size(), Ok(LENGTH));
        close(stub);
    });
}

#[test]
fn a_file_is_asked_for_only_as_long_as_a_cut_of_it_is_not_synced() {
    on_a_ground(|ground| {
        let asked = |flags| {
            machine(&ground.elsewhere).extents = 0;
            let stub = ground.open(flags);
            let asked = machine(&ground.elsewhere).extents;
            close(stub);
            asked
        };
        assert_eq!((asked(OpenFlags::READ_ONLY), asked(OpenFlags::READ_WRITE)), (0, 1));
        ground.set_length(CUT);
        assert_eq!((asked(OpenFlags::READ_ONLY), asked(OpenFlags::READ_WRITE)), (1, 1));
        let stub = ground.open(OpenFlags::READ_WRITE);
        ground.set_length(CUT - 1);
        assert_eq!(stub.sync(true), Ok(forebay_wire::Spread::Any));
        close(stub);
        assert!(ground.tree.cut_files.is_empty());
        assert_eq!((asked(OpenFlags::READ_ONLY), asked(OpenFlags::READ_WRITE)), (0, 1));
        ground.set_length(CUT - 2);
        MetadataService::unlink(&*ground.tree, me(), Ino::ROOT, OsStr::new("f")).unwrap();
        MetadataService::forget(&*ground.tree, ground.ino, 1);
        assert!(ground.tree.cut_files.is_empty(), "it is gone");
    });
}

#[test]
fn the_next_process_asks_for_lengths_if_a_cut_is_not_synced() {
    let directory = ground();
    let ground = Ground::new(directory.path());
    let file = ground.file;
    ground.set_length(CUT);
    ground.end();
    for is_unsettled in [true, false] {
        let (tree, nodes) = open(directory.path());
        assert_eq!(tree.unsettled().contains(file), is_unsettled);
        tree.sweep().unwrap();
        end(tree, nodes);
    }
}

#[test]
fn a_file_that_is_closed_is_synced_and_forgotten() {
    on_a_ground(|ground| {
        let files = CutFiles::synced_after(ground.tree.data.clone(), SOON);
        assert!(files.add(ground.file, ground.cut(), true));
        std::thread::sleep(4 * SOON);
        assert_eq!(machine(&ground.elsewhere).syncs, 0, "it is open for writing");
        machine(&ground.elsewhere).is_away = true;
        files.closed(ground.file, Some(CUT));
        wait_until(|| machine(&ground.elsewhere).syncs > 1);
        assert!(!files.is_empty(), "it is not synced");
        machine(&ground.elsewhere).is_away = false;
        wait_until(|| files.is_empty());
        let syncs = machine(&ground.elsewhere).syncs;
        std::thread::sleep(4 * SOON);
        assert_eq!(machine(&ground.elsewhere).syncs, syncs);
    });
}

#[test]
fn what_was_lost_before_it_was_synced_is_cut_once_more_where_nobody_can_have_written_it() {
    on_a_ground(|ground| {
        for (length, left) in [(Some(CUT), 0), (None, STRIPE_BYTES)] {
            let files = CutFiles::synced_after(ground.tree.data.clone(), SOON);
            let cut = ground.cut();
            ground.lose_power();
            assert!(files.add(ground.file, Cut { length, ..cut }, false));
            wait_until(|| files.is_empty());
            assert_eq!(ground.left(), left);
        }
    });
}

#[test]
fn who_opens_a_file_waits_for_a_sync_of_it_that_is_under_way() {
    on_a_ground(|ground| {
        let files = CutFiles::synced_after(ground.tree.data.clone(), SOON);
        let cut = ground.cut();
        let held = machine(&ground.elsewhere);
        assert!(files.add(ground.file, cut, false));
        wait_until(|| files.0.files().at_work == Some(ground.file));
        std::thread::scope(|scope| {
            let opens = scope.spawn(|| files.opened(ground.file));
            std::thread::sleep(SOON);
            assert!(!opens.is_finished());
            drop(held);
            opens.join().unwrap();
        });
        assert!(files.is_empty());
    });
}

#[test]
fn there_is_a_limit() {
    on_a_ground(|ground| {
        let files = CutFiles::synced_after(ground.tree.data.clone(), SOON);
        let cut = ground.cut();
        assert!((0..FILES_MAX as u64).all(|file| files.add(FileId(file), cut, true)));
        assert!(!files.add(FileId(FILES_MAX as u64), cut, true));
        assert!(files.add(FileId(0), cut, true), "it is known already");
        files.forget(FileId(7));
        assert!(files.add(FileId(FILES_MAX as u64), cut, true));
    });
}
