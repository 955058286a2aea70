//! `forebay mount`: a namespace of an instance on a client node.
//!
//! In the foreground it says in one line on standard output that it is mounted, and ends when it is unmounted, by whom ever;
//! SIGTERM, SIGINT and SIGHUP unmount. What is in use then leaves its path at once and is served until its last user is gone; a second
//! signal ends that too.
//!
//! In the background the same is done by a process of its own, in a session of its own: the command starts it, waits until it
//! is mounted, and returns. What goes wrong before that is said on the command's standard error; afterwards in the log, if
//! there is one.

use crate::args::Mount;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::say;
use forebay_agent::node::{ClientMount, InstanceFile, MountWishes};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Mounts.
pub fn mount(mount: &Mount) -> Result<Exit, CommandError> {
    if mount.background { in_background(mount) } else { in_foreground(mount) }
}

fn in_foreground(mount: &Mount) -> Result<Exit, CommandError> {
    let file = InstanceFile::read(&mount.instance)?;
    rustix::process::umask(rustix::fs::Mode::empty());
    // Before the mount, so that a signal that comes early is not lost.
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(CommandError::Signals)?;
    let wishes = MountWishes {
        allow_other: mount.allow_other,
        io_uring: mount.io_uring,
        keep_awake: mount.keep_awake,
    };
    let mounted = ClientMount::start(&file, &mount.mountpoint, wishes)?;
    let point = mounted.mountpoint().display();
    say::answer(format!("forebay: mounted {}/{} at {point}\n", file.name, file.namespace))
        .map_err(CommandError::Output)?;
    if mount.detached {
        leave_the_terminal(mount.log.as_deref())?;
    }
    unmount_on_signals(signals, &mounted)?;
    mounted.wait()?;
    Ok(Exit::Success)
}

fn unmount_on_signals(mut signals: Signals, mounted: &ClientMount) -> Result<(), CommandError> {
    let unmounter = mounted.unmounter();
    let wait = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(i32::from(Exit::Software.status()));
            }
            if let Err(error) = unmounter.unmount() {
                say::note(error);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(CommandError::Signals)?;
    Ok(())
}

fn in_background(mount: &Mount) -> Result<Exit, CommandError> {
    let program = std::env::current_exe().map_err(CommandError::file("find", "/proc/self/exe"))?;
    let mut command = Command::new(&program);
    command.args(["mount", "--detached", "--instance"]).arg(&mount.instance);
    command.args(mount.allow_other.then_some("--allow-other"));
    command.args(["--io-uring", mount.io_uring.word()]);
    command.args(["--keep-awake", mount.keep_awake.word()]);
    if let Some(log) = &mount.log {
        command.arg("--log").arg(log);
    }
    command.arg(&mount.mountpoint).stdin(Stdio::null()).stdout(Stdio::piped());
    // SAFETY: setsid is async-signal-safe, and nothing else runs between fork and exec.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(std::io::Error::from));
    }
    let mut child = command.spawn().map_err(CommandError::file("start", &program))?;
    let mut said = String::new();
    let read = child.stdout.take().map(|pipe| BufReader::new(pipe).read_line(&mut said));
    if matches!(read, Some(Ok(length)) if length > 0) {
        say::answer(said).map_err(CommandError::Output)?;
        return Ok(Exit::Success);
    }
    // It said why on standard error, which it shares with this process until it is mounted.
    let ended = child.wait().map_err(CommandError::file("wait for", &program))?;
    let status = ended.code().and_then(|code| u8::try_from(code).ok());
    Ok(status.map_or(Exit::Software, Exit::Script))
}

/// Whoever reads what the command says must not wait for the end of the mount.
fn leave_the_terminal(log: Option<&Path>) -> Result<(), CommandError> {
    let path = log.unwrap_or(Path::new("/dev/null"));
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    let file = file.map_err(CommandError::file("open", path))?;
    let failed = |errno: rustix::io::Errno| CommandError::file("write", path)(errno.into());
    rustix::stdio::dup2_stdout(&file).map_err(failed)?;
    rustix::stdio::dup2_stderr(&file).map_err(failed)
}
