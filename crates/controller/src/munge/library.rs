//! `libmunge.so.2`, loaded by hand: the only unsafe code of the crate.
//!
//! Invariants: a [`Context`] frees its C context once; what the library allocates is copied and freed (and overwritten
//! before, since it may be a secret) before a call returns; the functions' types are those of munge.h 0.5.

#![allow(unsafe_code)]

use super::{Decoded, MAX_CREDENTIAL, MungeError};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const NAME: &str = "libmunge.so.2";

// Options of a context.
const OPT_TTL: c_int = 4;
const OPT_ENCODE_TIME: c_int = 6;
const OPT_DECODE_TIME: c_int = 7;
const OPT_SOCKET: c_int = 8;
const OPT_UID_RESTRICTION: c_int = 9;

// Errors that are told apart.
const SUCCESS: c_int = 0;
const NO_DAEMON: c_int = 6;
const TIMEOUT: c_int = 7;
const EXPIRED: c_int = 15;
const REWOUND: c_int = 16;
const REPLAYED: c_int = 17;
const UNAUTHORIZED: c_int = 18;

type Ctx = *mut c_void;
type Encode = unsafe extern "C" fn(*mut *mut c_char, Ctx, *const c_void, c_int) -> c_int;
type Decode =
    unsafe extern "C" fn(*const c_char, Ctx, *mut *mut c_void, *mut c_int, *mut u32, *mut u32) -> c_int;
type Create = unsafe extern "C" fn() -> Ctx;
type Destroy = unsafe extern "C" fn(Ctx);
type Option = unsafe extern "C" fn(Ctx, c_int, ...) -> c_int;
type Text = unsafe extern "C" fn(c_int) -> *const c_char;
type Free = unsafe extern "C" fn(*mut c_void);

/// The functions.
pub(super) struct Library {
    encode: Encode,
    decode: Decode,
    create: Create,
    destroy: Destroy,
    get: Option,
    set: Option,
    strerror: Text,
    free: Free,
    /// The functions live as long as this.
    _file: libloading::Library,
}

impl Library {
    /// Loads it.
    pub fn load() -> Result<Library, String> {
        let text = |error: libloading::Error| error.to_string();
        // SAFETY: the initialisers of libmunge and libc do nothing that depends on us; the types are those of munge.h.
        unsafe {
            let file = libloading::Library::new(NAME).map_err(text)?;
            // The C library's `free` is found through the library that it allocates for.
            Ok(Library {
                encode: *file.get::<Encode>(b"munge_encode\0").map_err(text)?,
                decode: *file.get::<Decode>(b"munge_decode\0").map_err(text)?,
                create: *file.get::<Create>(b"munge_ctx_create\0").map_err(text)?,
                destroy: *file.get::<Destroy>(b"munge_ctx_destroy\0").map_err(text)?,
                get: *file.get::<Option>(b"munge_ctx_get\0").map_err(text)?,
                set: *file.get::<Option>(b"munge_ctx_set\0").map_err(text)?,
                strerror: *file.get::<Text>(b"munge_strerror\0").map_err(text)?,
                free: *file.get::<Free>(b"free\0").map_err(text)?,
                _file: file,
            })
        }
    }

    fn error(&self, code: c_int) -> MungeError {
        // SAFETY: the library gives a static string for every number.
        let reason = unsafe { CStr::from_ptr((self.strerror)(code)) }.to_string_lossy().into_owned();
        match code {
            NO_DAEMON | TIMEOUT => MungeError::NoDaemon { socket: None, reason },
            EXPIRED => MungeError::Expired,
            REWOUND => MungeError::FromTheFuture,
            REPLAYED => MungeError::Replayed,
            UNAUTHORIZED => MungeError::Unauthorized,
            _ => MungeError::Invalid { reason },
        }
    }

    /// Overwrites and frees what the library allocated.
    ///
    /// # Safety
    /// `memory` is null, or was allocated by the library, has at least `length` bytes and is not used afterwards.
    unsafe fn release(&self, memory: *mut c_void, length: usize) {
        if memory.is_null() {
            return;
        }
        // SAFETY: as promised by the caller.
        unsafe {
            std::ptr::write_bytes(memory.cast::<u8>(), 0, length);
            (self.free)(memory);
        }
    }
}

/// The settings of one call.
pub(super) struct Context<'l> {
    library: &'l Library,
    ctx: Ctx,
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed here only.
        unsafe { (self.library.destroy)(self.ctx) };
    }
}

impl<'l> Context<'l> {
    /// For the munged at this socket.
    pub fn new(library: &'l Library, socket: std::option::Option<&Path>) -> Result<Context<'l>, MungeError> {
        // SAFETY: takes nothing; null is checked.
        let ctx = unsafe { (library.create)() };
        if ctx.is_null() {
            return Err(MungeError::Invalid { reason: "out of memory".into() });
        }
        let context = Context { library, ctx };
        if let Some(socket) = socket {
            let path = CString::new(socket.as_os_str().as_bytes()).map_err(|_| MungeError::Invalid {
                reason: "the socket has a zero byte in its path".into(),
            })?;
            // SAFETY: the option takes a string, which it copies.
            context.check(unsafe { (library.set)(ctx, OPT_SOCKET, path.as_ptr()) })?;
        }
        Ok(context)
    }

    fn check(&self, code: c_int) -> Result<(), MungeError> {
        if code == SUCCESS { Ok(()) } else { Err(self.library.error(code)) }
    }

    /// Seconds that a credential lives.
    pub fn set_ttl(&self, seconds: i32) -> Result<(), MungeError> {
        // SAFETY: the option takes an int.
        self.check(unsafe { (self.library.set)(self.ctx, OPT_TTL, seconds as c_int) })
    }

    /// Only this uid can read the credential.
    pub fn set_uid_restriction(&self, uid: u32) -> Result<(), MungeError> {
        // SAFETY: the option takes a uid_t.
        self.check(unsafe { (self.library.set)(self.ctx, OPT_UID_RESTRICTION, uid) })
    }

    fn time(&self, option: c_int) -> Result<i64, MungeError> {
        let mut time: libc_time = 0;
        // SAFETY: the option gives a time_t.
        self.check(unsafe { (self.library.get)(self.ctx, option, &raw mut time) })?;
        Ok(time)
    }

    /// A credential with this payload.
    pub fn encode(&self, payload: &[u8]) -> Result<String, MungeError> {
        let length = c_int::try_from(payload.len()).map_err(|_| MungeError::TooLong)?;
        let mut made: *mut c_char = std::ptr::null_mut();
        // SAFETY: payload has `length` bytes; `made` is written on success with a string that is freed below.
        unsafe {
            let code = (self.library.encode)(&raw mut made, self.ctx, payload.as_ptr().cast(), length);
            if made.is_null() {
                self.check(code)?;
                return Err(MungeError::Invalid { reason: "no credential was made".into() });
            }
            let text = CStr::from_ptr(made).to_string_lossy().into_owned();
            self.library.release(made.cast(), text.len());
            self.check(code)?;
            Ok(text)
        }
    }

    /// What is in a credential.
    pub fn decode(&self, credential: &str) -> Result<Decoded, MungeError> {
        let text = CString::new(credential)
            .map_err(|_| MungeError::Invalid { reason: "it has a zero byte".into() })?;
        let (mut payload, mut length): (*mut c_void, c_int) = (std::ptr::null_mut(), 0);
        let (mut uid, mut gid) = (u32::MAX, u32::MAX);
        // SAFETY: all pointers are to variables of the types of munge.h; `payload` is freed here, also on errors.
        let (code, payload) = unsafe {
            let code = (self.library.decode)(
                text.as_ptr(),
                self.ctx,
                &raw mut payload,
                &raw mut length,
                &raw mut uid,
                &raw mut gid,
            );
            let length = usize::try_from(length).unwrap_or(0);
            let bytes = match payload.is_null() || length > MAX_CREDENTIAL {
                true => Vec::new(),
                false => std::slice::from_raw_parts(payload.cast::<u8>(), length).to_vec(),
            };
            self.library.release(payload, length);
            (code, bytes)
        };
        self.check(code)?;
        let (encoded_at, decoded_at) = (self.time(OPT_ENCODE_TIME)?, self.time(OPT_DECODE_TIME)?);
        Ok(Decoded { uid, gid, payload, encoded_at, decoded_at })
    }
}

/// `time_t` of Linux on 64 bits, on which this runs.
#[allow(non_camel_case_types)]
type libc_time = i64;
