//! Sockets, of which there are none: their descriptors are placeholders for ends of connections in [`super::network`].
//!
//! Only what the product asks for is there; anything else about a socket ends the simulation with a word about it.

use super::dispatch::raw;
use super::faults::Fault;
use super::files;
use super::network::{End, Found};
use super::real::{fail, real};
use super::schedule::{self, Key, Process, Schedule};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Mutex, PoisonError};

/// Fastest and slowest ordinary way of a message, in nanoseconds.
const WAY_NS: std::ops::Range<u64> = 20_000..400_000;
/// Slowest way of a slow one.
const SLOW_NS_MAX: u64 = 3_000_000_000;

/// Where those are who ask: 10.1.0.0.
const CLIENTS_FROM: u32 = 0x0a01_0000;
const CLIENT_PORT: u16 = 40_000;

#[derive(Clone, Copy, Debug)]
enum Object {
    /// A socket that is nothing yet, or is going to listen there.
    New(Option<SocketAddrV4>),
    Listener(SocketAddrV4),
    End(End),
    /// A counter to poll for.
    Event {
        count: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Placeholder {
    object: Object,
    read_within_ns: Option<u64>,
}

/// By descriptor.
static PLACEHOLDERS: Mutex<BTreeMap<i32, Placeholder>> = Mutex::new(BTreeMap::new());

fn placeholders<T>(look: impl FnOnce(&mut BTreeMap<i32, Placeholder>) -> T) -> T {
    // With the schedule, so that the mutex is a real one.
    schedule::with(|_| look(&mut PLACEHOLDERS.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn placeholder(descriptor: i32) -> Option<Placeholder> {
    schedule::own()?;
    placeholders(|all| all.get(&descriptor).copied())
}

fn add(object: Object) -> i32 {
    let eventfd = real!(eventfd(u32, i32) -> i32);
    // Safe: it is a descriptor and nothing else.
    let descriptor = unsafe { eventfd(0, libc::EFD_CLOEXEC) };
    assert!(descriptor >= 0, "the process has no descriptor left for the simulation");
    placeholders(|all| all.insert(descriptor, Placeholder { object, read_within_ns: None }));
    descriptor
}

fn replace(descriptor: i32, object: Object) {
    placeholders(|all| all.get_mut(&descriptor).expect("a placeholder").object = object);
}

/// The time at which something that is sent now arrives.
fn arrival(schedule: &mut Schedule) -> u64 {
    let slow = schedule.faults.slow;
    let most = if slow > 0 && schedule.dice.one_in(slow) { SLOW_NS_MAX } else { WAY_NS.end };
    schedule.now() + WAY_NS.start + schedule.dice.below(most - WAY_NS.start)
}

fn wake(schedule: &mut Schedule, end: End) {
    schedule.wake(Key::End(end), usize::MAX);
}

/// Sends a message, unless the connection is cut at it.
fn send_message(end: End, bytes: &[u8]) -> Option<()> {
    schedule::pass();
    schedule::with(|schedule| {
        let arrives_at = arrival(schedule);
        let cut = schedule.faults.cut;
        let is_cut = cut > 0 && schedule.dice.one_in(cut);
        let is_heard = is_cut && schedule.dice.one_in(2);
        if is_cut && !is_heard {
            schedule.note(|| format!("cut {end} before {} bytes", bytes.len()));
            schedule.network.reset(end);
        }
        let sent = schedule.network.send(end, bytes, arrives_at);
        schedule.note(|| format!("send {end} {} {sent:?}", bytes.len()));
        if is_heard {
            schedule.note(|| format!("cut {end} after it"));
            schedule.network.lose_answers(end, arrives_at);
        }
        if is_cut {
            schedule.happened(if is_heard { Fault::CutAfter } else { Fault::CutBefore });
        }
        wake(schedule, end);
        wake(schedule, end ^ 1);
        sent.map(drop)
    })
}

/// Receives what is there, or waits for it.
fn receive(descriptor: i32, end: End, most: usize) -> Result<Vec<u8>, i32> {
    schedule::pass();
    let patience = placeholder(descriptor).and_then(|placeholder| placeholder.read_within_ns);
    let give_up_at = patience.map(|patience| schedule::now() + patience);
    loop {
        let found = schedule::with(|schedule| {
            let now = schedule.now();
            // Part of it only, now and then: as a network does.
            let most =
                if schedule.dice.one_in(16) { most.min(1 + schedule.dice.below(40) as usize) } else { most };
            let found = schedule.network.receive(end, most, now);
            match &found {
                Found::Bytes(bytes) => schedule.note(|| format!("receive {end} {}", bytes.len())),
                Found::End | Found::Reset => schedule.note(|| format!("receive {end} {found:?}")),
                Found::Nothing(_) => {}
            }
            found
        });
        let later = match found {
            Found::Bytes(bytes) => return Ok(bytes),
            Found::End => return Ok(Vec::new()),
            Found::Reset => return Err(libc::ECONNRESET),
            Found::Nothing(at) => at,
        };
        if give_up_at.is_some_and(|at| at <= schedule::now()) {
            return Err(libc::EAGAIN);
        }
        schedule::wait(Key::End(end), later.into_iter().chain(give_up_at).min());
    }
}

/// # Safety
/// `address` is one.
unsafe fn address_of(address: *const libc::sockaddr) -> SocketAddrV4 {
    // Safe: the caller says so; the family says what it is.
    let address = unsafe {
        assert_eq!(i32::from((*address).sa_family), libc::AF_INET, "only IPv4 is simulated");
        *address.cast::<libc::sockaddr_in>()
    };
    SocketAddrV4::new(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)), u16::from_be(address.sin_port))
}

/// # Safety
/// There is room for an address, and a length.
unsafe fn put_address(of: SocketAddrV4, to: *mut libc::sockaddr, length: *mut libc::socklen_t) {
    if to.is_null() {
        return;
    }
    // Safe: the caller says so.
    unsafe {
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as u16;
        address.sin_port = of.port().to_be();
        address.sin_addr.s_addr = u32::from(*of.ip()).to_be();
        *to.cast() = address;
        *length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    }
}

/// Takes the place of a function of the C library for simulated threads and placeholders. `$ours` says what happens then;
/// everything else is passed on.
macro_rules! stand_in {
    ($(fn $name:ident($descriptor:ident: i32 $(, $argument:ident: $type:ty)*) -> $result:ty, $placeholder:ident => $ours:block)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($descriptor: i32 $(, $argument: $type)*) -> $result {
            let Some($placeholder) = placeholder($descriptor) else {
                let function = real!($name(i32 $(, $type)*) -> $result);
                // Safe: passed on.
                return unsafe { function($descriptor $(, $argument)*) };
            };
            // Safe: what the arguments point to is there, as the caller says.
            #[allow(unused_unsafe)]
            unsafe { $ours }
        }
    )*};
}

unsafe fn gather(parts: *const libc::iovec, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Safe: the caller says that there are so many parts.
    for part in unsafe { std::slice::from_raw_parts(parts, count) } {
        // Safe: and that each is there.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len)
        });
    }
    bytes
}

unsafe fn scatter(bytes: &[u8], parts: *const libc::iovec, count: usize) {
    let mut rest = bytes;
    // Safe: as in `gather`.
    for part in unsafe { std::slice::from_raw_parts(parts, count) } {
        let (here, later) = rest.split_at(rest.len().min(part.iov_len));
        // Safe: it is no more than the part has.
        unsafe { std::ptr::copy_nonoverlapping(here.as_ptr(), part.iov_base.cast(), here.len()) };
        rest = later;
    }
}

fn sent(end: End, bytes: &[u8]) -> isize {
    match send_message(end, bytes) {
        Some(()) => bytes.len() as isize,
        None => fail(libc::EPIPE) as isize,
    }
}

unsafe fn received(descriptor: i32, end: End, parts: *const libc::iovec, count: usize) -> isize {
    // Safe: as in `gather`.
    let most = unsafe { std::slice::from_raw_parts(parts, count) }.iter().map(|part| part.iov_len).sum();
    match receive(descriptor, end, most) {
        Ok(bytes) => {
            // Safe: it is no more than there is room for.
            unsafe { scatter(&bytes, parts, count) };
            bytes.len() as isize
        }
        Err(errno) => fail(errno) as isize,
    }
}

fn part(start: *const c_void, length: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast_mut(), iov_len: length }
}

fn not_simulated<T>(what: &str, placeholder: Placeholder) -> T {
    panic!("{what} of {placeholder:?} is not simulated")
}

stand_in! {
    fn connect(descriptor: i32, to: *const libc::sockaddr, _length: libc::socklen_t) -> i32, _placeholder => {
        let to = address_of(to);
        schedule::pass();
        let (made, arrives_at) = schedule::with(|schedule| {
            let arrives_at = arrival(schedule);
            let cut = schedule.faults.cut;
            let is_lost = cut > 0 && schedule.dice.one_in(cut);
            let process = schedule.process();
            let made = if is_lost { None } else { schedule.network.connect(to, process, arrives_at) };
            schedule.note(|| format!("connect {to} {made:?}"));
            schedule.wake(Key::Poll, usize::MAX);
            (made, arrives_at)
        });
        schedule::wait(Key::Time, Some(arrives_at));
        match made {
            Some(end) => {
                replace(descriptor, Object::End(end));
                0
            }
            None => fail(libc::ECONNREFUSED),
        }
    }

    fn bind(descriptor: i32, to: *const libc::sockaddr, _length: libc::socklen_t) -> i32, _placeholder => {
        replace(descriptor, Object::New(Some(address_of(to))));
        0
    }

    fn listen(descriptor: i32, _backlog: i32) -> i32, placeholder => {
        let Object::New(Some(at)) = placeholder.object else { not_simulated("listening", placeholder) };
        let is_free = schedule::with(|schedule| {
            let process = schedule.process();
            schedule.network.listen(at, process)
        });
        if !is_free {
            return fail(libc::EADDRINUSE);
        }
        replace(descriptor, Object::Listener(at));
        0
    }

    fn accept4(descriptor: i32, from: *mut libc::sockaddr, length: *mut libc::socklen_t, _flags: i32) -> i32,
        placeholder =>
    {
        let Object::Listener(at) = placeholder.object else { not_simulated("accepting", placeholder) };
        schedule::pass();
        let Some(end) = schedule::with(|schedule| {
            let now = schedule.now();
            schedule.network.accept(at, now)
        }) else {
            return fail(libc::EAGAIN);
        };
        let peer = schedule::with(|schedule| schedule.network.owner(end ^ 1));
        put_address(machine_of(peer), from, length);
        add(Object::End(end))
    }

    fn getsockname(descriptor: i32, to: *mut libc::sockaddr, length: *mut libc::socklen_t) -> i32, placeholder => {
        let Object::Listener(at) = placeholder.object else { not_simulated("the address", placeholder) };
        put_address(at, to, length);
        0
    }

    fn getpeername(descriptor: i32, to: *mut libc::sockaddr, length: *mut libc::socklen_t) -> i32, placeholder => {
        let Object::End(end) = placeholder.object else { return fail(libc::ENOTCONN) };
        let peer = schedule::with(|schedule| schedule.network.owner(end ^ 1));
        put_address(machine_of(peer), to, length);
        0
    }

    fn setsockopt(descriptor: i32, level: i32, option: i32, value: *const c_void, _length: libc::socklen_t) -> i32,
        _placeholder =>
    {
        if level == libc::SOL_SOCKET && option == libc::SO_RCVTIMEO {
            let time = *value.cast::<libc::timeval>();
            let within = time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
            let within = (within > 0).then_some(within);
            placeholders(|all| all.get_mut(&descriptor).expect("a placeholder").read_within_ns = within);
        }
        0
    }

    fn shutdown(descriptor: i32, _how: i32) -> i32, placeholder => {
        let Object::End(end) = placeholder.object else { return fail(libc::ENOTCONN) };
        schedule::with(|schedule| {
            let (seen_at, now) = (arrival(schedule), schedule.now());
            schedule.note(|| format!("shut down {end}"));
            schedule.network.shut_down(end, seen_at, now);
            wake(schedule, end);
            wake(schedule, end ^ 1);
        });
        schedule::pass();
        0
    }

    fn send(descriptor: i32, bytes: *const c_void, length: usize, _flags: i32) -> isize, placeholder => {
        let Object::End(end) = placeholder.object else { not_simulated("sending", placeholder) };
        sent(end, &gather(&part(bytes, length), 1))
    }

    fn writev(descriptor: i32, parts: *const libc::iovec, count: i32) -> isize, placeholder => {
        let Object::End(end) = placeholder.object else { not_simulated("writing", placeholder) };
        sent(end, &gather(parts, count as usize))
    }

    fn recv(descriptor: i32, to: *mut c_void, length: usize, flags: i32) -> isize, placeholder => {
        let Object::End(end) = placeholder.object else { not_simulated("receiving", placeholder) };
        if flags & libc::MSG_PEEK != 0 {
            let is_silent = schedule::with(|schedule| {
                let now = schedule.now();
                schedule.network.is_silent(end, now)
            });
            return if is_silent { fail(libc::EAGAIN) as isize } else { 0 };
        }
        received(descriptor, end, &part(to, length), 1)
    }

    fn read(descriptor: i32, to: *mut c_void, length: usize) -> isize, placeholder => {
        let Object::End(end) = placeholder.object else { not_simulated("reading", placeholder) };
        received(descriptor, end, &part(to, length), 1)
    }

    fn readv(descriptor: i32, parts: *const libc::iovec, count: i32) -> isize, placeholder => {
        let Object::End(end) = placeholder.object else { not_simulated("reading", placeholder) };
        received(descriptor, end, parts, count as usize)
    }

    fn close(descriptor: i32) -> i32, placeholder => {
        placeholders(|all| all.remove(&descriptor));
        schedule::with(|schedule| close_object(schedule, placeholder.object));
        let close = real!(close(i32) -> i32);
        close(descriptor)
    }

    fn fcntl(descriptor: i32, command: i32, argument: usize) -> i32, placeholder => {
        let fcntl = real!(fcntl(i32, i32, usize) -> i32);
        let result = fcntl(descriptor, command, argument);
        if command == libc::F_DUPFD_CLOEXEC {
            if let Object::End(end) = placeholder.object {
                schedule::with(|schedule| schedule.network.add_descriptor(end));
            }
            placeholders(|all| all.insert(result, placeholder));
        }
        result
    }

    fn ioctl(descriptor: i32, _request: u64, _argument: usize) -> i32, _placeholder => {
        0
    }
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: i32, bytes: *const c_void, length: usize) -> isize {
    let Some(placeholder) = placeholder(descriptor) else {
        let write = real!(write(i32, *const c_void, usize) -> isize);
        if schedule::own().is_none() {
            // Safe: passed on.
            return unsafe { write(descriptor, bytes, length) };
        }
        let a = [descriptor as usize, bytes as usize, length, 0, 0, 0];
        // Safe: the same, or less of it.
        let make = |a: [usize; 6]| raw(unsafe { write(descriptor, bytes, a[2]) } as i64);
        let result = files::change("write", libc::SYS_write, a, make);
        return if result < 0 { fail(-result as i32) as isize } else { result as isize };
    };
    match placeholder.object {
        Object::End(end) => {
            let part = part(bytes, length);
            // Safe: the caller says that they are there.
            sent(end, &unsafe { gather(&part, 1) })
        }
        Object::Event { count } => {
            replace(descriptor, Object::Event { count: count + 1 });
            schedule::with(|schedule| schedule.wake(Key::Poll, usize::MAX));
            length as isize
        }
        _ => not_simulated("writing", placeholder),
    }
}

/// Every process is on a machine of its own.
fn machine_of(process: Process) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(CLIENTS_FROM + process.0 as u32), CLIENT_PORT)
}

fn close_object(schedule: &mut Schedule, object: Object) {
    match object {
        Object::End(end) if schedule.network.drop_descriptor(end) => {
            let (seen_at, now) = (arrival(schedule), schedule.now());
            schedule.network.shut_down(end, seen_at, now);
            wake(schedule, end ^ 1);
        }
        Object::Listener(at) => {
            let others = schedule.network.stop_listening(at);
            others.into_iter().for_each(|end| wake(schedule, end));
        }
        _ => {}
    }
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(family: i32, kind: i32, protocol: i32) -> i32 {
    if schedule::own().is_none() || family != libc::AF_INET {
        let socket = real!(socket(i32, i32, i32) -> i32);
        // Safe: passed on.
        return unsafe { socket(family, kind, protocol) };
    }
    add(Object::New(None))
}

/// A counter that somebody polls for.
pub(super) fn new_event() -> i32 {
    add(Object::Event { count: 0 })
}

/// Whether a descriptor is one of ours.
pub(super) fn is_ours(descriptor: i32) -> bool {
    placeholder(descriptor).is_some()
}

/// Waits until one of the descriptors is ready; `until`: no longer.
pub(super) fn poll(descriptors: &mut [libc::pollfd], until: Option<u64>) -> i32 {
    loop {
        schedule::pass();
        let mut next = until;
        let mut count = 0;
        for asked in descriptors.iter_mut() {
            let object = placeholder(asked.fd).expect("a placeholder is polled for").object;
            let (is_ready, later) = schedule::with(|schedule| match object {
                Object::Event { count } => (count > 0, None),
                Object::Listener(at) => {
                    let arrival = schedule.network.next_arrival(at);
                    (arrival.is_some_and(|at| at <= schedule.now()), arrival)
                }
                Object::End(end) => (!schedule.network.is_silent(end, schedule.now()), None),
                Object::New(_) => (true, None),
            });
            asked.revents = if is_ready { asked.events & (libc::POLLIN | libc::POLLOUT) } else { 0 };
            count += i32::from(is_ready);
            next = next.into_iter().chain(later).min();
        }
        if count > 0 || until.is_some_and(|until| until <= schedule::now()) {
            return count;
        }
        schedule::wait(Key::Poll, next);
    }
}
