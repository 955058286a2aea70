//! Which program runs a script.
//!
//! Usually the kernel finds it in the `#!` line. Where the state directory lies on a file system whose files may not be
//! run (`noexec`), the program of that line is started with the script as its argument, as the kernel would do. Reads the
//! script's first line only.

use rustix::fs::StatVfsMountFlags;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longest `#!` line that Linux looks at.
const LINE_LIMIT: u64 = 256;

/// What a `#!` line names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interpreter {
    program: PathBuf,
    /// The kernel passes all that follows as one.
    argument: Option<OsString>,
}

/// The program to start and its arguments. A script without a `#!` line is one of /bin/sh, as for a shell.
pub fn command(script: PathBuf, arguments: &[OsString]) -> (PathBuf, Vec<OsString>) {
    let interpreter = match of(&script) {
        Some(_) if may_be_run(&script) => return (script, arguments.to_vec()),
        Some(interpreter) => interpreter,
        None => Interpreter { program: "/bin/sh".into(), argument: None },
    };
    let all = interpreter.argument.into_iter().chain([script.into_os_string()]);
    (interpreter.program, all.chain(arguments.iter().cloned()).collect())
}

/// What to do about a program that could not be started; empty where nothing is known.
pub fn advice(program: &Path) -> String {
    let Some(interpreter) = of(program) else { return String::new() };
    let name = interpreter.program;
    if name.exists() {
        return String::new();
    }
    if name.as_os_str().as_bytes().ends_with(b"\r") {
        return "; its lines end in CR LF, which belongs to the interpreter's name: convert it with dos2unix"
            .into();
    }
    format!("; its first line names {name:?}, which does not exist here")
}

fn of(script: &Path) -> Option<Interpreter> {
    let mut line = Vec::new();
    std::fs::File::open(script).ok()?.take(LINE_LIMIT).read_to_end(&mut line).ok()?;
    parse(line.split(|byte| *byte == b'\n').next()?)
}

fn parse(line: &[u8]) -> Option<Interpreter> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let rest = trim(line.strip_prefix(b"#!")?);
    let end = rest.iter().position(is_blank).unwrap_or(rest.len());
    let (program, argument) = rest.split_at(end);
    let argument = Some(trim(argument)).filter(|argument| !argument.is_empty());
    let text = |bytes| OsStr::from_bytes(bytes).to_owned();
    (!program.is_empty()).then(|| Interpreter { program: text(program).into(), argument: argument.map(text) })
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// A file system that cannot be asked is taken for an ordinary one: the kernel has the last word.
fn may_be_run(script: &Path) -> bool {
    rustix::fs::statvfs(script).map_or(true, |space| !space.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<(String, Option<String>)> {
        let text = |value: OsString| value.into_string().unwrap();
        parse(line.as_bytes()).map(|one| (text(one.program.into()), one.argument.map(text)))
    }

    #[test]
    fn the_line_is_taken_apart_as_the_kernel_does() {
        let some = |program: &str, argument: Option<&str>| Some((program.into(), argument.map(String::from)));
        assert_eq!(parsed("#!/bin/sh"), some("/bin/sh", None));
        assert_eq!(parsed("#! /usr/bin/env  -S bash -e \t"), some("/usr/bin/env", Some("-S bash -e")));
        assert_eq!(parsed("#!/bin/sh\r"), some("/bin/sh\r", None));
        assert_eq!(parsed("#!"), None);
        assert_eq!(parsed("echo"), None);
    }

    #[test]
    fn a_script_without_a_line_is_one_of_the_shell() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        std::fs::write(&script, "echo").unwrap();
        let (program, arguments) = command(script.clone(), &["a b".into()]);
        assert_eq!(
            (program.as_path(), &arguments[..]),
            (Path::new("/bin/sh"), &[script.into(), "a b".into()][..])
        );
    }

    #[test]
    fn a_missing_interpreter_is_named() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        std::fs::write(&script, "#!/no/such/shell -x\n").unwrap();
        assert!(advice(&script).contains("\"/no/such/shell\""), "{}", advice(&script));
        std::fs::write(&script, "#!/bin/sh\r\n").unwrap();
        assert!(advice(&script).contains("dos2unix"), "{}", advice(&script));
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(advice(&script), "");
    }
}
