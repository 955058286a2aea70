//! The same mount with requests over io_uring: content, many callers at once, slow requests beside fast ones, and the
//! death of the server, whose connection the kernel cuts a moment later than the process ends.

mod support;

use support::switch::SwitchedOn;
use support::{Place, Server, USERS, User, is_mounted};

fn start(user: User, options: &[&str]) -> (SwitchedOn, Server) {
    let switched = SwitchedOn::new();
    let server = Server::start(user, 4, options);
    assert!(server.features.contains("io_uring: true"), "{}", server.features);
    (switched, server)
}

#[test]
fn contents_and_names_are_as_over_the_device() {
    for user in USERS {
        let (_switched, server) = start(user, &["--stripe-size", "65536"]);
        server.python(
            "
for size in (0, 1, 4096, 65537, (1 << 20) + 1, 5_000_000):
    data = os.urandom(size)
    open('file', 'wb').write(data)
    assert open('file', 'rb').read() == data, size
os.rename('file', 'other'); os.symlink('other', 'link'); os.link('other', 'hard'); os.mkdir('dir')
os.setxattr('other', 'user.note', b'v' * 1000); assert os.getxattr('link', 'user.note') == b'v' * 1000
assert sorted(os.listdir('.')) == ['dir', 'hard', 'link', 'other']
for n in range(1000): open(f'dir/{n}', 'w').close()
assert len(os.listdir('dir')) == 1000 and sum(1 for e in os.scandir('dir') if e.stat().st_size == 0) == 1000
m = mmap.mmap(os.open('other', os.O_RDWR), 4096); m[:3] = b'map'; m.flush(); m.close()
assert open('other', 'rb').read(3) == b'map'
",
        );
        server.stop();
    }
}

#[test]
fn more_callers_than_places_are_all_served() {
    let (_switched, server) = start(User::Root, &[]);
    server.python(
        "
children = []
for rank in range(16):
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
        fd = os.open(f'f{rank}', os.O_CREAT | os.O_RDWR)
        for n in range(40):
            os.pwrite(fd, bytes([rank]) * 20_000, n * 20_000)
            if n % 8 == 0: os.fsync(fd)
            assert os.pread(fd, 20_000, n * 20_000) == bytes([rank]) * 20_000
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
",
    );
    server.stop();
}

#[test]
fn the_mount_of_a_killed_server_is_replaced_at_once() {
    let _switched = SwitchedOn::new();
    let mut server = Place::new(User::Root).serve_one();
    for _ in 0..10 {
        server.sh("echo kept > file");
        server = server.kill().serve_one();
        assert_eq!(server.sh("cat file"), "kept\n");
    }
    let path = server.mountpoint();
    server.stop();
    assert!(!is_mounted(&path));
}

#[test]
fn it_can_be_declined() {
    let _switched = SwitchedOn::new();
    let server = Server::start(User::Root, 1, &["--no-io-uring"]);
    assert!(server.features.contains("io_uring: false"), "{}", server.features);
    server.sh("echo text > file; cat file");
    server.stop();
}

impl Place {
    fn serve_one(self) -> Server {
        let fragment = self.make("f0");
        self.serve(&[fragment], &[])
    }
}
