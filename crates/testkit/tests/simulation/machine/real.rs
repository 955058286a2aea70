//! The functions of the C library that ours stand in front of.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The next definition of a symbol after ours, remembered in `known`.
///
/// # Panics
/// If there is none: then this program cannot do anything.
pub(super) fn find(name: &CStr, known: &AtomicUsize) -> usize {
    let found = known.load(Relaxed);
    if found != 0 {
        return found;
    }
    // Safe: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    assert!(found != 0, "the C library has no {name:?}");
    known.store(found, Relaxed);
    found
}

/// `real!(name(arguments of types) -> result)`: the function of this name of the C library, as a pointer.
macro_rules! real {
    ($name:ident($($type:ty),*) -> $result:ty) => {{
        static KNOWN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let name = const {
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name with a zero"),
            }
        };
        // Safe: this is the type that the C library documents for the name.
        unsafe {
            std::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> $result>(
                crate::machine::real::find(name, &KNOWN),
            )
        }
    }};
}
pub(super) use real;

/// Fails as a function of the C library does.
pub(super) fn fail(errno: i32) -> i32 {
    // Safe: the place belongs to this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}
