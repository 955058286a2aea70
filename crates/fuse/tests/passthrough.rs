//! Files that are one local file are served by the kernel itself: really, for every way to open them, and without
//! changing what programs see. XFS on a loop device below, as root.

mod support;

use forebay_client::Volume;
use forebay_fuse::{CachePolicy, MountOptions, Mounted, Unmount, mount};
use forebay_model::layout::LayoutChoice;
use forebay_model::units::Bytes;
use forebay_server::local::{FragmentSpec, Fragments, Limits, NamespaceSpec, SpaceRule};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use support::xfs::{XfsImage, tree};
use support::{Place, Server, User};
use tempfile::TempDir;

/// A volume mounted by the test itself, so that its counters can be read.
struct Own {
    mounted: Option<Mounted>,
    volume: Arc<Volume>,
    point: TempDir,
}

impl Own {
    fn new(image: &XfsImage, space: SpaceRule) -> Own {
        Own::over(&[image.fragment()], space)
    }

    fn over(roots: &[PathBuf], space: SpaceRule) -> Own {
        let specs: Vec<_> = roots.iter().map(|root| FragmentSpec { root: root.clone(), space }).collect();
        let fragments = Fragments::open(&specs).unwrap();
        let spec =
            NamespaceSpec { name: "c1".into(), layout: LayoutChoice::default(), limits: Limits::default() };
        let services = fragments.namespace(&spec).unwrap();
        let volume = Arc::new(Volume::new(services.metadata, services.data));
        let point = tempfile::tempdir().unwrap();
        let options = MountOptions { passthrough: true, ..MountOptions::named("own") };
        assert_eq!(options.cache, CachePolicy::SoleOwner);
        let mounted = mount(Arc::clone(&volume), point.path(), &options).unwrap();
        Own { mounted: Some(mounted), volume, point }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().unwrap()
    }
}

#[test]
fn writes_reach_the_backing_file_without_passing_the_volume() {
    let image = XfsImage::new("320M");
    let mut own = Own::new(&image, SpaceRule::Hard);
    assert!(own.mounted().passthrough() && own.mounted().features().passthrough);

    let mut file = File::create(own.path("file")).unwrap();
    file.write_all(&[7; 1 << 20]).unwrap();
    let local = tree(&image.fragment()).join("file");
    assert_eq!(fs::read(&local).unwrap(), vec![7; 1 << 20], "before any close or sync");
    assert_eq!(own.volume.counters().bytes_written, 0);

    let mut text = Vec::new();
    File::open(own.path("file")).unwrap().read_to_end(&mut text).unwrap();
    assert_eq!((text.len(), own.volume.counters().bytes_read), (1 << 20, 0));
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    assert_eq!(fs::metadata(own.path("file")).unwrap().ino(), fs::metadata(&local).unwrap().ino());

    drop(file);
    assert_eq!(own.mounted.take().unwrap().unmount().unwrap(), Unmount::Clean);
}

/// As a process does that is being started by another thread, until it runs its program.
#[test]
fn who_uses_a_mount_for_a_moment_only_does_not_keep_it() {
    let image = XfsImage::new("320M");
    let mut own = Own::new(&image, SpaceRule::Hard);
    let file = File::create(own.path("file")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(file);
        });
        assert_eq!(own.mounted.take().unwrap().unmount().unwrap(), Unmount::Clean);
    });
}

#[test]
fn a_counted_fragment_is_never_bypassed() {
    let image = XfsImage::new("320M");
    let own = Own::new(&image, SpaceRule::Metered(Bytes(1 << 20)));
    let mut file = File::create(own.path("file")).unwrap();
    let mut written = 0;
    let error = loop {
        match file.write(&[1; 65536]) {
            Ok(count) => written += count as u64,
            Err(error) => break error,
        }
        assert!(written <= 1 << 20, "the limit is not kept");
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(own.volume.counters().bytes_written, written);
}

#[test]
fn opens_of_every_kind_at_the_same_time_agree() {
    let image = XfsImage::new("320M");
    let own = Own::new(&image, SpaceRule::Hard);
    let path = own.path("file");
    let mut first = File::create(&path).unwrap();
    first.write_all(&[1; 8192]).unwrap();
    let read = File::open(&path).unwrap();
    let append = OpenOptions::new().append(true).open(&path).unwrap();
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    (&append).write_all(b"end").unwrap();
    let mut tail = [0; 3];
    read.read_exact_at(&mut tail, 8192).unwrap();
    assert_eq!(&tail, b"end");
    assert_eq!(direct.metadata().unwrap().len(), 8195);
    drop(first); // the creating open ends before the others
    let again = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    again.write_all_at(b"more", 9000).unwrap();
    assert_eq!(read.metadata().unwrap().len(), 9004);
    let mut cut = OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    assert_eq!(read.metadata().unwrap().len(), 0);
    cut.seek(SeekFrom::Start(5)).unwrap();
    cut.write_all(b"x").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"\0\0\0\0\0x");
    assert_eq!(own.volume.counters().bytes_written, 0, "all by the kernel");
}

#[test]
fn processes_that_open_and_close_one_file_all_the_time_never_fail() {
    let image = XfsImage::new("320M");
    let server = Place::new(User::Root).serve(&[image.fragment()], &["--passthrough"]);
    assert!(server.features.contains("passthrough: true"), "{}", server.features);
    server.python(
        "
children = []
for rank in range(4):
    pid = os.fork()
    if pid == 0:
        for n in range(300):
            fd = os.open('shared', os.O_CREAT | os.O_RDWR)
            os.pwrite(fd, bytes([rank]), rank)
            assert os.pread(fd, 1, rank) == bytes([rank])
            if n % 7 == rank:
                m = mmap.mmap(fd, 4096) if os.fstat(fd).st_size >= 4096 else None
            os.close(fd)
            name = f'own{rank}'
            open(name, 'w').write('x'); assert open(name).read() == 'x'; os.unlink(name)
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
",
    );
    server.stop();
}

#[test]
fn mappings_of_passed_files_see_calls_and_change_the_time() {
    let image = XfsImage::new("320M");
    let server = Place::new(User::Root).serve(&[image.fragment()], &["--passthrough"]);
    server.python(
        "
fd = os.open('file', os.O_CREAT | os.O_RDWR)
os.write(fd, b'.' * 10000)
os.utime('file', ns=(0, 0))
assert os.stat('file').st_mtime_ns == 0
m = mmap.mmap(fd, 10000)
m[0:3] = b'map'
assert os.pread(fd, 3, 0) == b'map'
os.pwrite(fd, b'call', 5000)
assert m[5000:5004] == b'call'
m[1:2] = b'!'
m.close(); os.close(fd)
assert os.stat('file').st_mtime_ns > 0
fd = os.open('file', os.O_RDWR)
os.utime('file', ns=(0, 0))
m = mmap.mmap(fd, 10000)
assert os.stat('file').st_mtime_ns == 0
m[0:1] = b'?'
os.close(fd)
assert os.stat('file').st_mtime_ns > 0, 'a store through a mapping changes the time, seen after close'
",
    );
    server.stop();
}

#[test]
fn a_full_disk_is_told_by_the_kernel() {
    let image = XfsImage::new("320M");
    let server = Place::new(User::Root).serve(&[image.fragment()], &["--passthrough"]);
    server.python(
        "
fd = os.open('big', os.O_CREAT | os.O_WRONLY)
try:
    while True: os.write(fd, b'x' * (4 << 20))
except OSError as e: assert e.errno == errno.ENOSPC, e
os.close(fd)
os.unlink('big')
open('small', 'w').write('fits again')
",
    );
    server.stop();
}

#[test]
fn an_ordinary_user_gets_the_same_by_requests() {
    let server = Server::start(User::Nobody, 1, &["--passthrough"]);
    assert!(server.features.contains("passthrough: false"), "{}", server.features);
    assert_eq!(server.sh("echo text > file; cat file"), "text\n");
}

/// Waits until the clock that files are marked by has moved on.
fn next_tick() {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let begin = now();
    while now() == begin {
        std::thread::yield_now();
    }
}

/// Two fragments on one image.
fn two_roots(image: &XfsImage) -> [PathBuf; 2] {
    let roots = ["a", "b"].map(|name| image.root().join(name));
    roots.iter().for_each(|root| fs::create_dir(root).unwrap());
    roots
}

/// A directory whose files lie whole on the second fragment.
fn directory_on_the_second(parent: &std::path::Path) -> PathBuf {
    let directory = parent.join("second");
    fs::create_dir(&directory).unwrap();
    for (name, value) in [("stripe_count", "1"), ("substripes", "1"), ("first_server", "1")] {
        set_attribute(&directory, name, value).unwrap();
    }
    directory
}

fn set_attribute(path: &std::path::Path, name: &str, value: &str) -> rustix::io::Result<()> {
    let name = format!("user.dwfs.{name}");
    rustix::fs::setxattr(path, name, value.as_bytes(), rustix::fs::XattrFlags::empty())
}

/// The only file with content below the data directories of a fragment.
fn only_substripe(root: &std::path::Path) -> PathBuf {
    let data = root.join("ns/c1/data");
    let buckets = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        buckets.flat_map(|bucket| fs::read_dir(bucket).unwrap()).map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[test]
fn a_whole_file_on_another_fragment_is_passed_too() {
    let image = XfsImage::new("320M");
    let roots = two_roots(&image);
    let mut own = Own::over(&roots, SpaceRule::Hard);
    let directory = directory_on_the_second(own.point.path());
    let path = directory.join("file");

    let mut file = File::create(&path).unwrap();
    file.write_all(&[7; 1 << 20]).unwrap();
    assert_eq!(own.volume.counters().bytes_written, 0, "all by the kernel");
    assert_eq!(fs::metadata(only_substripe(&roots[1])).unwrap().len(), 1 << 20);
    assert_eq!(
        fs::metadata(tree(&roots[0]).join("second/file")).unwrap().blocks(),
        0,
        "no content in the stub"
    );
    // Seen by the descriptor, by the name, in a listing, and under another name.
    fs::hard_link(&path, directory.join("other")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    assert_eq!(fs::metadata(directory.join("other")).unwrap().len(), 1 << 20);
    assert!(fs::metadata(&path).unwrap().blocks() >= 2048);

    // Length both ways while it is open, and appending.
    file.set_len(10).unwrap();
    file.set_len(100_000).unwrap();
    let read = File::open(&path).unwrap();
    let mut text = Vec::new();
    (&read).read_to_end(&mut text).unwrap();
    assert_eq!(text, [&[7; 10][..], &[0; 99_990][..]].concat());
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"end").unwrap();
    assert_eq!(read.metadata().unwrap().len(), 100_003);
    assert_eq!(own.volume.counters().bytes_read, 0);
    // A layout cannot go away below the kernel.
    let open_and_empty = File::create(directory.join("empty")).unwrap();
    assert_eq!(set_attribute(&directory.join("empty"), "stripe_count", "2"), Err(rustix::io::Errno::BUSY));
    drop(open_and_empty);
    set_attribute(&directory.join("empty"), "stripe_count", "2").unwrap();

    // What the last close leaves, and what a second mount finds.
    drop((file, read));
    let seen = fs::metadata(&path).unwrap();
    assert_eq!(own.mounted.take().unwrap().unmount().unwrap(), Unmount::Clean);
    drop(own);
    let own = Own::over(&roots, SpaceRule::Hard);
    let again = fs::metadata(own.point.path().join("second/file")).unwrap();
    assert_eq!((again.len(), again.mtime(), again.mtime_nsec()), (100_003, seen.mtime(), seen.mtime_nsec()));
    assert_eq!(&fs::read(own.point.path().join("second/other")).unwrap()[100_000..], b"end");
}

#[test]
fn times_of_a_passed_file_on_another_fragment_are_a_local_files() {
    let image = XfsImage::new("320M");
    let own = Own::over(&two_roots(&image), SpaceRule::Hard);
    let path = directory_on_the_second(own.point.path()).join("file");
    let past = std::fs::FileTimes::new()
        .set_accessed(std::time::UNIX_EPOCH)
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(5, 6));
    let mtime = || fs::metadata(&path).map(|meta| (meta.mtime(), meta.mtime_nsec())).unwrap();
    for _ in 0..50 {
        // A write within the same tick of the clock as the one before counts all the same.
        let file = File::create(&path).unwrap();
        file.write_all_at(b"one", 0).unwrap();
        file.set_times(past).unwrap();
        assert_eq!(mtime(), (5, 6));
        file.write_all_at(b"two", 0).unwrap();
        assert!(mtime().0 > 5);
        file.set_times(past).unwrap();
        drop(file);
        assert_eq!(mtime(), (5, 6));
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(mtime(), (5, 6));
        assert_eq!(file.read_at(&mut [0; 3], 0).unwrap(), 3);
        assert_eq!(mtime(), (5, 6), "reading changes no time of the content");
        assert!(fs::metadata(&path).unwrap().atime() > 5, "relatime: it was read after it was changed");
        file.write_all_at(b"3", 0).unwrap();
        drop(file);
        assert!(mtime().0 > 5);
    }
    assert_eq!(own.volume.counters().bytes_written, 0, "all by the kernel");
}

#[test]
fn a_killed_server_loses_nothing_of_passed_files_on_another_fragment() {
    let image = XfsImage::new("320M");
    let roots = two_roots(&image);
    let server = Place::new(User::Root).serve(&roots, &["--passthrough"]);
    let directory = directory_on_the_second(&server.mountpoint());
    fs::write(directory.join("old"), "before").unwrap();
    File::open(directory.join("old"))
        .unwrap()
        .set_times(std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH))
        .unwrap();
    let old = OpenOptions::new().write(true).open(directory.join("old")).unwrap();
    let new = File::create(directory.join("new")).unwrap();
    next_tick(); // a time of the same tick as the one that was set would tell nothing
    old.write_all_at(b"after!", 0).unwrap();
    new.write_all_at(&[5; 70_000], 30_000).unwrap();
    let place = server.kill();
    drop((old, new));
    while support::is_mounted(&place.mountpoint()) {
        rustix::mount::unmount(place.mountpoint(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
    let server = place.serve(&roots, &["--passthrough"]);
    let directory = server.mountpoint().join("second");
    assert_eq!(fs::read(directory.join("old")).unwrap(), b"after!");
    assert!(fs::metadata(directory.join("old")).unwrap().mtime() > 0, "the time of the last write");
    let new = fs::read(directory.join("new")).unwrap();
    assert_eq!((new.len(), &new[29_999..30_001]), (100_000, &[0, 5][..]));
    server.stop();
}

#[test]
fn whole_files_on_another_fragment_stand_a_crowd() {
    let image = XfsImage::new("320M");
    let server = Place::new(User::Root).serve(&two_roots(&image), &["--passthrough"]);
    directory_on_the_second(&server.mountpoint());
    server.python(
        "
os.chdir('second')
children = []
for rank in range(4):
    pid = os.fork()
    if pid == 0:
        for n in range(200):
            fd = os.open('shared', os.O_CREAT | os.O_RDWR)
            os.pwrite(fd, bytes([rank]) * 100, 1000 * (n * 4 + rank))
            assert os.pread(fd, 100, 1000 * (n * 4 + rank)) == bytes([rank]) * 100
            assert os.fstat(fd).st_size >= 1000 * (n * 4 + rank) + 100
            if n % 5 == rank: os.fsync(fd)
            if n % 7 == rank:
                m = mmap.mmap(fd, 100); m[rank] = 65; m.close()
            os.close(fd)
            name = f'own{rank}'
            fd = os.open(name, os.O_CREAT | os.O_RDWR)
            os.write(fd, b'x' * 5000)
            os.unlink(name)
            assert os.fstat(fd).st_size == 5000 and os.pread(fd, 9, 4998) == b'xx'
            os.close(fd)
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
assert os.stat('shared').st_size == 1000 * 799 + 100
",
    );
    server.sh("cd second; head -c 3000000 /dev/urandom > a; cp a b; cmp a b; truncate -s 10 a; fallocate -p -o 4096 -l 100000 b; fallocate -l 5000000 b; test $(stat -c %s a b | tr '\\n' ' ' | tr -d ' ') = 105000000; git init -q g; cd g; cp ../b .; git add b; git -c user.name=n -c user.email=e commit -qm m; git fsck");
    server.stop();
}

#[test]
fn striped_files_are_served_by_requests_beside_passed_ones() {
    let image = XfsImage::new("320M");
    let server =
        Place::new(User::Root).serve(&two_roots(&image), &["--passthrough", "--stripe-size", "65536"]);
    server.sh("head -c 1000000 /dev/zero | tr '\\0' x > striped; test $(tr -d x < striped | wc -c) = 0");
    assert_eq!(server.sh("stat -c %s striped"), "1000000\n");
    server.stop();
}
