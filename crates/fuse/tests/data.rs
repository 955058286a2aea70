//! Contents through the mount: several processes, mappings, full instances, sparse files, set-id bits; as root and as an
//! ordinary user, striped over four fragments.

mod support;

use support::{Server, USERS, User};

const STRIPED: &[&str] = &["--stripe-size", "65536"];

#[test]
fn two_processes_write_one_shared_file() {
    for user in USERS {
        let server = Server::start(user, 4, STRIPED);
        server.python(
            "
block = 200_001
def content(n): return bytes([n % 251]) * block
children = []
for rank in range(2):
    pid = os.fork()
    if pid == 0:
        fd = os.open('shared', os.O_CREAT | os.O_WRONLY)
        for n in range(rank, 60, 2):
            assert os.pwrite(fd, content(n), n * block) == block
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
assert os.stat('shared').st_size == 60 * block
with open('shared', 'rb') as f:
    for n in range(60):
        assert f.read(block) == content(n), n
",
        );
    }
}

/// Large reads come from the page cache without a copy by the server; a write at the same time is seen whole or not at all
/// within a stripe nevertheless, as on the local file system.
#[test]
fn a_read_sees_no_half_of_a_write() {
    let image = support::xfs::XfsImage::new("400M");
    let fragments: Vec<_> = (0..4).map(|n| image.fragment().join(n.to_string())).collect();
    fragments.iter().for_each(|fragment| std::fs::create_dir(fragment).unwrap());
    let server = support::Place::new(User::Root).serve(&fragments, &["--stripe-size", "8388608"]);
    // What fits into any pipe is spliced; what does not is copied where no larger one can be had.
    for block in ["512 << 10", "1 << 20"] {
        server.python(&READS_BESIDE_WRITES.replace("BLOCK", block));
    }
}

/// Buffers begin on a page: what lies on one more page than a request has is two requests.
const READS_BESIDE_WRITES: &str = "
import mmap, time
block = BLOCK
def buffer(byte):
    made = mmap.mmap(-1, block)
    made.write(bytes([byte]) * block)
    return made
fd = os.open('shared', os.O_CREAT | os.O_RDWR)
os.pwrite(fd, bytes(block), 3 * block)
writer = os.fork()
if writer == 0:
    contents = [buffer(n) for n in range(8)]
    while True:
        for content in contents:
            os.pwrite(fd, content, 3 * block)
try:
    end, seen, read = time.monotonic() + 1.5, set(), buffer(0)
    while time.monotonic() < end:
        assert os.preadv(fd, [read], 3 * block) == block
        parts = set(read[::block // 64])
        assert len(parts) == 1, 'half of a write'
        seen.add(read[0])
    assert len(seen) > 1, seen
finally:
    os.kill(writer, 9)
    os.waitpid(writer, 0)
";

/// Neither a cut nor a removal leaves old bytes to large reads, and none of them holds space.
#[test]
fn large_reads_follow_what_happens_to_the_file() {
    let image = support::xfs::XfsImage::new("400M");
    let fragments: Vec<_> = (0..4).map(|n| image.fragment().join(n.to_string())).collect();
    fragments.iter().for_each(|fragment| std::fs::create_dir(fragment).unwrap());
    let server = support::Place::new(User::Root).serve(&fragments, &["--stripe-size", "8388608"]);
    server.python(
        "
mib = 1 << 20
def free(): return os.statvfs('.').f_bfree * os.statvfs('.').f_frsize
def content(n): return bytes([n]) * mib
buffer = mmap.mmap(-1, mib)
# Into a buffer that begins on a page: one request.
def read(fd, offset): return buffer[:os.preadv(fd, [buffer], offset)]
fd = os.open('file', os.O_CREAT | os.O_RDWR)
other = os.open('file', os.O_RDONLY)
for n in range(64):
    os.pwrite(fd, content(n), n * mib)
for n in range(64):
    assert read(fd, n * mib) == content(n), n
for n in range(64):
    os.pwrite(fd, content(n + 1), n * mib)
    assert read(other, n * mib) == content(n + 1), n
assert read(fd, 7 * mib + 4097) == (content(8) + content(9))[4097:][:mib]
os.ftruncate(fd, 20 * mib + 7)
assert read(other, 20 * mib) == content(21)[:7]
assert read(other, 21 * mib) == b''
os.ftruncate(fd, 40 * mib)
assert read(other, 20 * mib) == content(21)[:7] + bytes(mib - 7)
assert read(other, 30 * mib) == bytes(mib)
before = free()
os.unlink('file')
assert read(other, 3 * mib) == content(4)
os.close(fd)
assert read(other, 3 * mib) == content(4)
os.close(other)
import time
end = time.monotonic() + 20
while free() < before + 20 * mib:
    assert time.monotonic() < end, (before, free())
    time.sleep(0.01)
",
    );
}

#[test]
fn appends_of_two_processes_are_all_there() {
    for user in USERS {
        let server = Server::start(user, 4, STRIPED);
        server.sh("for r in a b; do (i=0; while [ $i -lt 300 ]; do echo $r$i >> log; i=$((i+1)); done) & done; wait");
        let lines = server.sh("sort -u log | wc -l; wc -l < log");
        assert_eq!(lines, "600\n600\n", "{user:?}");
    }
}

#[test]
fn mappings_and_calls_see_each_other() {
    for user in USERS {
        let server = Server::start(user, 4, STRIPED);
        server.python(
            "
size = 300_000
fd = os.open('file', os.O_CREAT | os.O_RDWR)
os.pwrite(fd, b'.' * size, 0)
m = mmap.mmap(fd, size)
m[100_000:100_003] = b'map'
assert os.pread(fd, 3, 100_000) == b'map', 'a read sees what was stored'
other = os.open('file', os.O_RDWR)
os.pwrite(other, b'call', 200_000)
assert m[200_000:200_004] == b'call', 'the mapping sees what was written'
private = mmap.mmap(fd, size, access=mmap.ACCESS_COPY)
private[0:3] = b'own'
assert os.pread(fd, 3, 0) == b'...', 'a private mapping stays private'
m[0:5] = b'final'
m.close(); private.close(); os.close(fd); os.close(other)
",
        );
        let fragments: Vec<_> = (0..4).map(|n| format!("f{n}")).collect();
        let place = server.stop();
        let roots: Vec<_> = fragments.iter().map(|name| place.make(name)).collect();
        let server = place.serve(&roots, STRIPED);
        server.python(
            "d = open('file', 'rb').read(); assert d[:5] == b'final' and d[100000:100003] == b'map', d[:9]",
        );
    }
}

#[test]
fn a_full_instance_says_so_and_loses_nothing() {
    for user in USERS {
        let server = Server::start(user, 2, &["--stripe-size", "65536", "--metered", "8388608"]);
        server.python(
            "
before = os.urandom(1 << 20)
open('before', 'wb').write(before)
fd = os.open('big', os.O_CREAT | os.O_WRONLY)
written = 0
try:
    while True:
        written += os.write(fd, b'x' * (1 << 20))
        assert written < 64 << 20, 'the limit is not kept'
except OSError as e:
    assert e.errno == errno.ENOSPC, e
assert written > 4 << 20, written
assert os.stat('big').st_size >= written
fs = os.statvfs('.')
assert fs.f_blocks * fs.f_frsize == 16 << 20, (fs.f_blocks, fs.f_frsize)
os.close(fd)
assert open('before', 'rb').read() == before
os.unlink('big')
open('after', 'wb').write(b'y' * (4 << 20))
assert os.stat('after').st_size == 4 << 20
",
        );
    }
}

#[test]
fn open_flags_mean_what_they_say() {
    for user in USERS {
        let server = Server::start(user, 4, STRIPED);
        server.python(
            "
def refused(number, *call):
    try: call[0](*call[1:])
    except OSError as e: assert e.errno in number, e
    else: raise AssertionError(('not refused', call))
open('file', 'w').write('0123456789')
refused([errno.EEXIST], os.open, 'file', os.O_CREAT | os.O_EXCL | os.O_WRONLY)
fd = os.open('file', os.O_WRONLY | os.O_TRUNC); assert os.fstat(fd).st_size == 0; os.close(fd)
fd = os.open('file', os.O_CREAT | os.O_WRONLY | os.O_APPEND)
os.write(fd, b'ab'); os.pwrite(fd, b'cd', 0); os.close(fd)
assert open('file').read() == 'abcd'
fd = os.open('file', os.O_RDONLY); refused([errno.EBADF], os.write, fd, b'x'); os.close(fd)
fd = os.open('file', os.O_WRONLY | os.O_SYNC); os.write(fd, b'S'); os.close(fd)
fd = os.open('file', os.O_WRONLY | os.O_DSYNC); os.write(fd, b'D'); os.fsync(fd); os.close(fd)
assert open('file').read() == 'Dbcd'
m = mmap.mmap(-1, 1 << 20); m[:] = b'direct  ' * (1 << 17)
fd = os.open('direct', os.O_CREAT | os.O_RDWR | os.O_DIRECT)
assert os.pwritev(fd, [m], 0) == 1 << 20
back = mmap.mmap(-1, 1 << 20)
assert os.preadv(fd, [back], 0) == 1 << 20 and back[:] == m[:]
refused([errno.EOPNOTSUPP, errno.EISDIR], os.open, '.', os.O_TMPFILE | os.O_RDWR)
refused([errno.ENOTDIR], os.open, 'file', os.O_DIRECTORY)
os.symlink('file', 'link')
refused([errno.ELOOP], os.open, 'link', os.O_NOFOLLOW)
",
        );
    }
}

#[test]
fn sparse_files_stay_sparse_and_copies_are_right() {
    for user in USERS {
        let server = Server::start(user, 4, STRIPED);
        server.python(
            "
size = 4 << 20
fd = os.open('sparse', os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, size)
assert os.fstat(fd).st_blocks == 0
os.pwrite(fd, b'd' * 65536, 1 << 20)
assert os.lseek(fd, 0, os.SEEK_DATA) == 1 << 20
assert os.lseek(fd, 1 << 20, os.SEEK_HOLE) == (1 << 20) + 65536
try: os.lseek(fd, 2 << 20, os.SEEK_DATA)
except OSError as e: assert e.errno == errno.ENXIO
else: raise AssertionError('data in a hole')
to = os.open('copy', os.O_CREAT | os.O_RDWR)
done = 0
while True:
    n = os.copy_file_range(fd, to, size - done, done, done)
    if n == 0: break
    done += n
assert done == size and open('copy', 'rb').read() == open('sparse', 'rb').read()
FICLONE = 0x40049409
try: fcntl.ioctl(to, FICLONE, fd)
except OSError as e: assert e.errno in (errno.EOPNOTSUPP, errno.ENOTTY), e
else: raise AssertionError('cloned')
try: fcntl.ioctl(fd, 0x5401, bytearray(64))
except OSError as e: assert e.errno == errno.ENOTTY, e
os.posix_fallocate(fd, size, 65536)
assert os.fstat(fd).st_size == size + 65536
",
        );
        server.sh("fallocate -p -o 1048576 -l 65536 sparse; fallocate -l 1048576 -n sparse; cp sparse s2; cmp sparse s2");
        assert_eq!(server.sh("tr -d '\\0' < sparse | wc -c").trim(), "0");
    }
}

#[test]
fn locks_exclude_other_processes() {
    for user in USERS {
        let server = Server::start(user, 1, &[]);
        server.python(
            "
def taken(lock):
    pid = os.fork()
    if pid == 0:
        f = open('file', 'r+')
        try: lock(f)
        except OSError as e: os._exit(1 if e.errno in (errno.EAGAIN, errno.EACCES) else 2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
whole = lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
part = lambda start: lambda f: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, start)
f = open('file', 'w+')
whole(f); assert taken(whole) == 1
fcntl.flock(f, fcntl.LOCK_UN); assert taken(whole) == 0
part(0)(f); assert taken(part(5)) == 1; assert taken(part(10)) == 0
",
        );
    }
}

#[test]
fn set_id_bits_go_when_the_content_changes() {
    let server = Server::start(User::Root, 4, &["--stripe-size", "65536", "--allow-other"]);
    server.sh("chmod 777 .; for f in write truncate open own; do echo x > $f; chown 65534:65534 $f; chmod 6775 $f; done");
    server.sh("mkdir -m 2775 dir; chown 65534:65534 dir; stat -c %a dir | grep -qx 2775; chown 0 own");
    let as_nobody = "import os
fd = os.open('write', os.O_WRONLY); os.write(fd, b'y')
os.truncate('truncate', 100)
os.close(os.open('open', os.O_WRONLY | os.O_TRUNC))";
    let mut command = User::Nobody.command("/bin/sh");
    command.args(["-c", "exec python3 -c \"$0\"", as_nobody]).current_dir(server.mountpoint());
    let status = command.status().unwrap();
    assert!(status.success());
    assert_eq!(server.sh("stat -c %a write truncate open own"), "775\n775\n775\n775\n");
    // Root keeps them, as on a local file system.
    server.sh("chmod 6755 write; echo z >> write; test $(stat -c %a write) = 6755");
}

#[test]
fn times_are_kept_to_the_nanosecond_also_before_1970() {
    for user in USERS {
        let server = Server::start(user, 1, &[]);
        server.python(
            "
open('file', 'w').close()
for at in (-1_200_000_000, 0, 1, 1_700_000_000_123_456_789):
    os.utime('file', ns=(at, at + 1))
    s = os.stat('file')
    assert (s.st_atime_ns, s.st_mtime_ns) == (at, at + 1), (at, s.st_atime_ns, s.st_mtime_ns)
",
        );
    }
}

#[test]
fn times_no_clock_holds_do_not_harm_the_mount() {
    for user in USERS {
        let server = Server::start(user, 1, &[]);
        server.python(
            "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Time(ctypes.Structure): _fields_ = [('secs', ctypes.c_int64), ('nanos', ctypes.c_long)]
open('file', 'w').close()
for secs in (-2**63, 2**63 - 1):
    times = (Time * 2)(Time(secs, 0), Time(secs, 999_999_999))
    if libc.utimensat(-100, b'file', times, 0) != 0:
        assert ctypes.get_errno() in (errno.EINVAL, errno.ERANGE, errno.EOVERFLOW), ctypes.get_errno()
    subprocess = os.spawnlp(os.P_WAIT, 'stat', 'stat', '-c', '%y', 'file')
    assert subprocess == 0
os.utime('file', ns=(5, 7)); assert os.stat('file').st_mtime_ns == 7
",
        );
        assert!(!server.log().contains("panic"), "{}", server.log());
        server.stop();
    }
}

#[test]
fn extended_attributes_are_kept_where_they_mean_something() {
    for user in USERS {
        let server = Server::start(user, 1, &[]);
        server.python(
            "
open('file', 'w').close()
os.setxattr('file', 'user.note', b'v' * 1000)
assert os.getxattr('file', 'user.note') == b'v' * 1000
assert os.listxattr('file') == ['user.note']
def refused(number, call, *args):
    try: call(*args)
    except OSError as e: assert e.errno == number, e
    else: raise AssertionError('not refused')
refused(errno.EEXIST, os.setxattr, 'file', 'user.note', b'', os.XATTR_CREATE)
refused(errno.ENODATA, os.setxattr, 'file', 'user.other', b'', os.XATTR_REPLACE)
os.removexattr('file', 'user.note')
refused(errno.ENODATA, os.getxattr, 'file', 'user.note')
refused(errno.ENODATA, os.getxattr, 'file', 'security.capability')
entries = ((1, 6, -1), (2, 7, 1000), (4, 4, -1), (16, 7, -1), (32, 4, -1))
acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *entry) for entry in entries)
refused(errno.EOPNOTSUPP, os.setxattr, 'file', 'system.posix_acl_access', acl)
",
        );
    }
}

#[test]
fn long_directories_are_listed_once_each_also_while_they_change() {
    for user in USERS {
        let server = Server::start(user, 1, &[]);
        server.python(
            "
for n in range(5000): open(f'file{n:05}', 'w').close()
names = os.listdir('.')
assert len(names) == 5000 and len(set(names)) == 5000
sizes = {e.name: e.stat().st_ino for e in os.scandir('.')}
assert len(sizes) == 5000 and len(set(sizes.values())) == 5000
seen = []
for e in os.scandir('.'):
    seen.append(e.name); os.unlink(e.name)
assert len(set(seen)) == len(seen)
assert sorted(seen) == sorted(names), 'none is missed when what was listed is removed'
assert os.listdir('.') == []
",
        );
    }
}

#[test]
fn removed_files_live_until_they_are_closed() {
    for user in USERS {
        let server = Server::start(user, 4, STRIPED);
        server.python(
            "
fd = os.open('gone', os.O_CREAT | os.O_RDWR)
os.write(fd, b'x' * 300_000)
os.unlink('gone')
assert not os.path.exists('gone')
os.pwrite(fd, b'tail', 500_000)
assert os.fstat(fd).st_size == 500_004 and os.fstat(fd).st_nlink == 0
assert os.pread(fd, 4, 500_000) == b'tail'
open('a', 'w').write('A'); open('b', 'w').write('B')
b = open('b'); os.rename('a', 'b')
assert b.read() == 'B' and open('b').read() == 'A' and not os.path.exists('a')
",
        );
    }
}

#[test]
fn mapped_stores_are_in_the_fragment_after_close() {
    let server = Server::start(User::Root, 1, &[]);
    server.python(
        "
fd = os.open('file', os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, 1 << 20)
m = mmap.mmap(fd, 1 << 20)
m[500_000:500_006] = b'stored'
m.close(); os.close(fd)
",
    );
    let local = support::xfs::tree(&server.fragment(0)).join("file");
    assert_eq!(&std::fs::read(local).unwrap()[500_000..500_006], b"stored");
}
