//! Stores to mapped files that a disk refuses.
//!
//! A store to a mapped page of a file whose file system has shut down, or whose disk fails, is answered by the kernel with
//! SIGBUS, which ends the whole process with all instances that it serves. Here it is caught: memory of the process's own takes
//! the place of the file, the store is made again and goes there, and the range says that it is lost. Nothing that was
//! in the file is in that memory: whoever has a range knows its words by himself.
//!
//! Ranges stand in a list that only grows, of entries that are used again: the handler of the signal walks it without a lock.
//! A SIGBUS of anything else goes to whoever handled it before. Any thread may call.

use std::io;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A range, or a free place for one: then it has no bytes.
struct Entry {
    start: AtomicUsize,
    bytes: AtomicUsize,
    is_lost: AtomicBool,
    next: *const Entry,
}

// SAFETY: `next` is set before the entry is shown, and never changed; entries are never freed.
unsafe impl Sync for Entry {}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(null_mut());
static FREE: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());
/// Who handled the signal before.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// A mapping whose stores never end the process, until it is dropped: before it is unmapped.
pub(super) struct Guarded(&'static Entry);

impl Guarded {
    /// Guards a mapping, which begins with a page and belongs to the caller.
    pub(super) fn new(start: usize, bytes: usize) -> io::Result<Guarded> {
        handle_the_signal()?;
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = free.pop().unwrap_or_else(add);
        entry.is_lost.store(false, SeqCst);
        entry.start.store(start, SeqCst);
        entry.bytes.store(bytes, SeqCst);
        Ok(Guarded(entry))
    }

    /// A store was refused: what is stored goes nowhere.
    pub(super) fn is_lost(&self) -> bool {
        self.0.is_lost.load(SeqCst)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.0.bytes.store(0, SeqCst);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

/// One more entry of the list. Called with the lock of those that are free.
fn add() -> &'static Entry {
    let (start, bytes, is_lost) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let entry = Box::leak(Box::new(Entry { start, bytes, is_lost, next: FIRST.load(SeqCst) }));
    FIRST.store(entry, SeqCst);
    entry
}

/// Once for the process.
fn handle_the_signal() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        // SAFETY: all zeros are a value of it.
        let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
        let before = Box::leak(Box::new(ours));
        ours.sa_sigaction = refused as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both are places of this kind.
        let result = unsafe { libc::sigaction(libc::SIGBUS, null_mut(), before) };
        BEFORE.store(before, SeqCst);
        // SAFETY: as above, and the handler calls nothing that a handler may not.
        if result != 0 || unsafe { libc::sigaction(libc::SIGBUS, &ours, null_mut()) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
        }
        Ok(())
    });
    done.map_err(io::Error::from_raw_os_error)
}

/// The handler: takes no lock, allocates nothing and leaves `errno` alone.
extern "C" fn refused(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives it; of SIGBUS it has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let is_ours = entry_of(address).is_some_and(replace);
    if !is_ours {
        // SAFETY: these are the arguments of the handler before.
        unsafe { pass_on(signal, info, context) };
    }
}

fn entry_of(address: usize) -> Option<&'static Entry> {
    let mut at = FIRST.load(SeqCst).cast_const();
    // SAFETY: entries are never freed.
    while let Some(entry) = unsafe { at.as_ref() } {
        let start = entry.start.load(SeqCst);
        if (start..start.saturating_add(entry.bytes.load(SeqCst))).contains(&address) {
            return Some(entry);
        }
        at = entry.next;
    }
    None
}

/// Puts memory in the place of the file; `false`: there is none.
fn replace(entry: &Entry) -> bool {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    let (start, bytes) = (entry.start.load(SeqCst), entry.bytes.load(SeqCst));
    // SAFETY: the range is a mapping of its owner's, who is just storing to it. The place of `errno` is this thread's.
    unsafe {
        let errno = *libc::__errno_location();
        let at = libc::mmap(without_provenance_mut(start), bytes, access, kind, -1, 0);
        *libc::__errno_location() = errno;
        if at == libc::MAP_FAILED {
            return false;
        }
    }
    entry.is_lost.store(true, SeqCst);
    true
}

/// # Safety
/// The arguments are those of a handler of this signal.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: it was set before the handler was, and is never freed.
    let before = unsafe { &*BEFORE.load(SeqCst) };
    match before.sa_sigaction {
        // The store is made again when this returns, and ends the process.
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            // SAFETY: a value that was read from the system.
            libc::sigaction(signal, before, null_mut());
        },
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the flag says that it is a function of this kind.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag it is one of this kind.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
