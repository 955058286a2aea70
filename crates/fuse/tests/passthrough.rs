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
        let fragments = Fragments::open(&[FragmentSpec { root: image.fragment(), space }]).unwrap();
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

#[test]
fn striped_files_are_served_by_requests_beside_passed_ones() {
    let image = XfsImage::new("320M");
    let roots = ["a", "b"].map(|name| image.root().join(name));
    roots.iter().for_each(|root| fs::create_dir(root).unwrap());
    let server = Place::new(User::Root).serve(&roots, &["--passthrough", "--stripe-size", "65536"]);
    server.sh("head -c 1000000 /dev/zero | tr '\\0' x > striped; test $(tr -d x < striped | wc -c) = 0");
    assert_eq!(server.sh("stat -c %s striped"), "1000000\n");
    server.stop();
}
