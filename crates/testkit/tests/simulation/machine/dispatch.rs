//! System calls that do not go through the C library: rustix makes them itself.
//!
//! The kernel hands them to us: *syscall user dispatch* (Linux 5.11 and later, prctl(2)) raises a signal in the thread for
//! every system call that is not made from the C library's own code. The handler does what the call asks for, simulated or
//! not, and writes the result where the call would have left it. It may switch threads: the signal is synchronous, so
//! whatever was interrupted waits for nothing but this call.

use super::real::real;
use super::{disk, files, schedule, sockets};
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
const PR_SYS_DISPATCH_ON: usize = 1;
/// What the thread's selector says: hand calls over.
const BLOCK: u8 = 1;

/// Calls of a descriptor that may be a socket.
const OF_SOCKETS: [i64; 14] = [
    libc::SYS_write,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_shutdown,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
];

/// Always the same: the code outside of the C library is to be handed over.
static SELECTOR: u8 = BLOCK;
static C_LIBRARY: OnceLock<(usize, usize)> = OnceLock::new();

/// Where the code of the C library is: begin and length.
fn c_library() -> (usize, usize) {
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> i32 {
        // Safe: the C library gives what it says, and `found` is ours.
        unsafe {
            if !CStr::from_ptr((*info).dlpi_name).to_string_lossy().contains("/libc.so") {
                return 0;
            }
            let headers = std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
            for header in headers {
                if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 {
                    let begin = ((*info).dlpi_addr + header.p_vaddr) as usize;
                    *found.cast() = (begin, header.p_memsz as usize);
                }
            }
        }
        1
    }
    *C_LIBRARY.get_or_init(|| {
        let mut found = (0usize, 0usize);
        // Safe: `look` gets what it expects.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
        assert!(found.1 > 0, "the C library is found in this process");
        found
    })
}

/// Says who gets the signal. Once, before any thread.
pub(super) fn prepare() {
    c_library();
    // Safe: the handler is one for this signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        assert_eq!(libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()), 0);
    }
}

/// This thread's calls are handed over from now on.
pub(super) fn enter() {
    let (begin, length) = c_library();
    // Safe: the selector lives for ever.
    let refused = unsafe {
        libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, begin, length, &raw const SELECTOR)
    };
    assert_eq!(refused, 0, "the simulation needs Linux 5.11 or later, with syscall user dispatch");
}

/// What the handler gets of a signal of this kind.
#[repr(C)]
struct Called {
    signal: i32,
    errno: i32,
    code: i32,
    address: usize,
    number: i32,
    architecture: u32,
}

unsafe extern "C" fn handle(_signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Safe: the kernel gives what it says; the registers are those of the call.
    unsafe {
        let number = i64::from((*info.cast::<Called>()).number);
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let argument = |register: i32| registers[register as usize] as usize;
        let arguments =
            [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];
        let errno = *libc::__errno_location();
        let result = carry_out(number, arguments.map(argument));
        *libc::__errno_location() = errno;
        registers[libc::REG_RAX as usize] = result;
    }
}

/// A result as the kernel gives it.
pub(super) fn raw(result: i64) -> i64 {
    // Safe: the place belongs to this thread.
    if result == -1 { -i64::from(unsafe { *libc::__errno_location() }) } else { result }
}

/// # Safety
/// The arguments are those of a system call of this number.
unsafe fn carry_out(number: i64, a: [usize; 6]) -> i64 {
    if schedule::own().is_none() {
        // Safe: passed on.
        return unsafe { forward(number, a) };
    }
    let descriptor = a[0] as i32;
    // Safe: our functions take what the system calls of these numbers take.
    let result = unsafe {
        match number {
            libc::SYS_poll | libc::SYS_ppoll => {
                let polled = std::slice::from_raw_parts_mut(a[0] as *mut libc::pollfd, a[1]);
                if !polled.iter().all(|polled| sockets::is_ours(polled.fd)) {
                    return forward(number, a);
                }
                i64::from(sockets::poll(polled, until(number, a[2])))
            }
            libc::SYS_eventfd2 => i64::from(sockets::new_event()),
            libc::SYS_futex | libc::SYS_getrandom => {
                super::waits::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5])
            }
            libc::SYS_close => i64::from(sockets::close(descriptor)),
            _ if !OF_SOCKETS.contains(&number) || !sockets::is_ours(descriptor) => return change(number, a),
            libc::SYS_write => sockets::write(descriptor, a[1] as *const c_void, a[2]) as i64,
            libc::SYS_read => sockets::read(descriptor, a[1] as *mut c_void, a[2]) as i64,
            libc::SYS_recvfrom => sockets::recv(descriptor, a[1] as *mut c_void, a[2], a[3] as i32) as i64,
            libc::SYS_setsockopt => i64::from(sockets::setsockopt(
                descriptor,
                a[1] as i32,
                a[2] as i32,
                a[3] as *const c_void,
                a[4] as u32,
            )),
            libc::SYS_shutdown => i64::from(sockets::shutdown(descriptor, a[1] as i32)),
            libc::SYS_fcntl => i64::from(sockets::fcntl(descriptor, a[1] as i32, a[2])),
            // They are not asked for anything else.
            other => panic!("system call {other} of a socket is not simulated"),
        }
    };
    raw(result)
}

/// Until when a poll waits.
unsafe fn until(number: i64, time: usize) -> Option<u64> {
    if number == libc::SYS_poll {
        let milliseconds = u64::try_from(time as i32).ok()?;
        return Some(schedule::now() + milliseconds * 1_000_000);
    }
    // Safe: it is a time or none.
    let time = unsafe { (time as *const libc::timespec).as_ref() }?;
    Some(schedule::now() + super::clock::nanoseconds(time))
}

/// A call of a file. One that sets times counts for nothing here: whether it is made depends on the kernel's clock, by which
/// files get their times.
unsafe fn change(number: i64, a: [usize; 6]) -> i64 {
    const WRITES: usize = (libc::O_CREAT | libc::O_TRUNC) as usize;
    let what = match number {
        libc::SYS_openat if a[2] & WRITES != 0 => Some("create"),
        libc::SYS_write => Some("write"),
        libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => Some("pwrite"),
        libc::SYS_fallocate => Some("fallocate"),
        libc::SYS_copy_file_range => Some("copy"),
        libc::SYS_mkdirat => Some("mkdir"),
        libc::SYS_mknodat => Some("mknod"),
        libc::SYS_symlinkat => Some("symlink"),
        libc::SYS_linkat => Some("link"),
        libc::SYS_fsetxattr | libc::SYS_setxattr | libc::SYS_lsetxattr => Some("set xattr"),
        libc::SYS_fremovexattr | libc::SYS_removexattr => Some("remove xattr"),
        libc::SYS_unlinkat => Some("unlink"),
        libc::SYS_renameat | libc::SYS_renameat2 => Some("rename"),
        libc::SYS_ftruncate => Some("truncate"),
        libc::SYS_fsync => Some("fsync"),
        libc::SYS_fdatasync => Some("fdatasync"),
        libc::SYS_syncfs => Some("syncfs"),
        libc::SYS_fchmod | libc::SYS_fchmodat => Some("chmod"),
        libc::SYS_fchown | libc::SYS_fchownat => Some("chown"),
        _ => None,
    };
    // Safe: passed on.
    let make = |a| unsafe { forward(number, a) };
    match what {
        Some(name) => files::change(name, number, a, make),
        None => {
            let result = disk::around(number, a, || make(a));
            if result >= 0 {
                // Safe: the kernel has written the answer.
                unsafe { look_away(number, a) };
            }
            result
        }
    }
}

/// What the simulation of a disk needs is not shown: a second name of a file, and that its file system has no log.
unsafe fn look_away(number: i64, a: [usize; 6]) {
    // Safe: the caller says that these are answers of such calls.
    unsafe {
        match number {
            libc::SYS_fstat | libc::SYS_newfstatat => {
                let at = if number == libc::SYS_fstat { 1 } else { 2 };
                let found = &mut *(a[at] as *mut libc::stat);
                found.st_nlink -= u64::from(disk::hides_a_link(found.st_ino));
            }
            libc::SYS_statx => {
                let found = &mut *(a[4] as *mut libc::statx);
                found.stx_nlink -= u32::from(disk::hides_a_link(found.stx_ino));
            }
            libc::SYS_fstatfs => {
                if let Some(kind) = disk::shown_kind(a[0] as i32) {
                    (*(a[1] as *mut libc::statfs)).f_type = kind;
                }
            }
            _ => {}
        }
    }
}

/// Lets the kernel do it.
unsafe fn forward(number: i64, a: [usize; 6]) -> i64 {
    let syscall = real!(syscall(i64, usize, usize, usize, usize, usize, usize) -> i64);
    // Safe: the caller says that the arguments are those of such a call.
    raw(unsafe { syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) })
}
