//! A script that is started and held: it has its process and its group, and runs nothing yet.
//!
//! What recovery cannot find it cannot end, and a script that nobody ends writes on while its burst buffer is taken away
//! under it. So the group of a script has to be written down before its first line runs. A process has no id before it is
//! started, and `Command` does not come back before it runs its program; so what is started first is this program with a
//! hidden subcommand, which waits for one word on a socket and then becomes the script. By then it holds nothing of
//! forebay's but that socket: leases and connections are closed when a program is started.
//!
//! Order of events: forebay starts the process, in a group of its own - writes its group down - says the word - the process
//! becomes the script, which closes the socket; where it cannot, it answers with the errno and ends. Killed before the
//! word: the socket closes, the process ends, the script never ran. Killed after it: the group is written down, and
//! recovery ends it.

use super::script::{Input, Script, ScriptCommand, ScriptGroup};
use rustix::io::FdFlags;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The program that this process runs, also when its file was replaced by a newer one meanwhile.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// The hidden subcommand.
const SUBCOMMAND: &str = "script-process";

/// The word.
const BEGIN: [u8; 1] = *b"b";

/// Status of a command line that is not one of ours, `EX_USAGE`.
const USAGE: u8 = 64;

/// A script that has its process, and waits.
#[derive(Debug)]
pub struct Held {
    script: Script,
    /// Closed without the word it ends the process.
    socket: UnixStream,
}

impl ScriptCommand {
    /// Starts its process, which waits. `forebay` is the program that does that: [`THIS_PROGRAM`].
    pub fn hold(&self, forebay: &Path) -> io::Result<Held> {
        let (socket, theirs) = UnixStream::pair()?;
        let child = self.command(forebay, theirs.as_fd()).spawn()?;
        drop(theirs);
        let script = Script::new(child, self.input);
        Ok(Held { script, socket })
    }

    fn command(&self, forebay: &Path, socket: BorrowedFd<'_>) -> Command {
        let number = socket.as_raw_fd();
        let mut command = Command::new(forebay);
        command
            .arg0("forebay")
            .args([SUBCOMMAND, &number.to_string()])
            .arg(&self.program)
            .args(&self.arguments)
            .current_dir(&self.directory)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .process_group(0);
        if self.input == Input::Nothing {
            command.stdin(Stdio::null());
        }
        // SAFETY: fcntl is async-signal-safe and nothing else runs between fork and exec; the caller keeps the socket open
        // until the process is started.
        unsafe {
            command.pre_exec(move || {
                Ok(rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(number), FdFlags::empty())?)
            });
        }
        command
    }
}

impl Held {
    /// Its process, the leader of its group.
    pub fn pid(&self) -> u32 {
        self.script.pid()
    }

    /// Its group, for the interrupt hook.
    pub fn group(&self) -> ScriptGroup {
        self.script.group()
    }

    /// Lets it run. An error says why it cannot be started.
    pub fn begin(mut self) -> io::Result<Script> {
        match ask_to_begin(&mut self.socket) {
            None => Ok(self.script),
            Some(error) => {
                self.forgo();
                Err(error)
            }
        }
    }

    /// Ends it. It has not run.
    pub fn forgo(self) {
        drop(self.socket);
        // How the process ended is of no interest: it was not the script.
        let _ = self.script.wait();
    }
}

/// Says the word; gives the error of a script that cannot be started. No answer: it runs, or a signal has ended it, which
/// its end tells.
fn ask_to_begin(socket: &mut UnixStream) -> Option<io::Error> {
    socket.write_all(&BEGIN).ok()?;
    let mut errno = [0; size_of::<i32>()];
    socket.read_exact(&mut errno).ok()?;
    Some(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
}

/// The process that waits: `<socket> <program> [arguments]`. Comes back only when it does not become the script.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let socket = arguments.next().and_then(|number| number.to_str()?.parse().ok()).and_then(inherited);
    let (Some(mut socket), Some(program)) = (socket, arguments.next()) else {
        crate::say::note(format_args!("{SUBCOMMAND} is started by forebay only"));
        return ExitCode::from(USAGE);
    };
    if socket.read_exact(&mut [0; BEGIN.len()]).is_err() {
        return ExitCode::FAILURE;
    }
    let error = Command::new(program).args(arguments).exec();
    // Who asked is gone if this fails, and with him the question.
    let _ = socket.write_all(&error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes());
    ExitCode::FAILURE
}

/// The socket that was inherited; closed when the script begins.
fn inherited(number: RawFd) -> Option<UnixStream> {
    if number <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: nothing else of this process has a descriptor yet; a number that is none fails here.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(given, FdFlags::CLOEXEC).ok()?;
    // SAFETY: it is open, and it was left to this process alone.
    Some(UnixStream::from(unsafe { OwnedFd::from_raw_fd(number) }))
}
