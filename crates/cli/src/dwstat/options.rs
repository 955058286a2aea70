//! The command line of `dwstat`.
//!
//! Read by hand: the original's single letters are units, several objects may be named, and every refusal lists what
//! there is.

use super::object::Object;
use forebay_model::capacity::format::{SizeStyle, SizeUnit};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use thiserror::Error;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The usage text.
    Help,
    /// The version.
    Version,
    /// Tables or JSON.
    Show(Show),
}

/// What is to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Show {
    /// Which kinds, in the order given, none twice.
    pub objects: Vec<Object>,
    /// How sizes are written.
    pub sizes: SizeStyle,
    /// `--cd`
    pub cache_details: bool,
    /// `--json`
    pub json: bool,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
}

/// A command line that cannot be carried out. The caller corrects it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsageError {
    /// Not one of the objects.
    #[error("there is no object {word:?}; objects are {OBJECTS}")]
    UnknownObject {
        /// What was given.
        word: String,
    },
    /// Not one of the options.
    #[error("there is no option {option:?}; options are {OPTIONS}")]
    UnknownOption {
        /// What was given.
        option: String,
    },
    /// Two ways to write sizes.
    #[error("{first} and {second} cannot be given together: sizes are written in one way")]
    TwoSizes {
        /// The earlier option.
        first: String,
        /// The later one.
        second: String,
    },
    /// Sizes in JSON are bytes.
    #[error("{option} and --json cannot be given together: sizes in JSON are always bytes")]
    SizeWithJson {
        /// The option.
        option: String,
    },
    /// `--state-dir` without a directory.
    #[error("--state-dir needs a directory: --state-dir DIR")]
    NoDirectory,
}

/// For messages.
pub const OBJECTS: &str = "most, all, pools, sessions, instances, configurations, registrations, activations, fragments, namespaces, nodes";
/// For messages.
pub const OPTIONS: &str = "-b, -H, -k, -K, -m, -M, -g, -G, -t, -T, -p, -P, -e, -E, --cd, --json, --state-dir DIR, --help, --version";

/// The text of `--help`.
pub const USAGE: &str = "\
usage: dwstat [options] [object ...]

Shows the state of the burst buffer; without an object: pools.

objects:
  pools           space, and what of it is free
  sessions        jobs and owners of persistent instances
  instances       allocated space
  configurations  how instances are used
  registrations   which session may use which configuration
  activations     mounts
  fragments       the pieces of instances on storage nodes
  namespaces      metadata trees
  nodes           storage nodes
  most            the first six
  all             everything

options:
  -b              sizes in bytes
  -H              sizes in kB, MB, GB, ... as fits (without an option: KiB, MiB, GiB, ...)
  -k -m -g -t -p -e   sizes in KiB, MiB, GiB, TiB, PiB, EiB
  -K -M -G -T -P -E   sizes in KB, MB, GB, TB, PB, EB
  --cd            configurations with access mode and backing path
  --json          JSON instead of tables
  --state-dir DIR where the state is kept ($FOREBAY_STATE_DIR, $XDG_STATE_HOME/forebay, ~/.local/state/forebay)
  -h, --help      this text
  -V, --version   the version
";

/// Reads the arguments behind the program's name.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Request, UsageError> {
    let mut show = Show::default();
    let mut size: Option<String> = None;
    let mut args = args.into_iter();
    let mut only_objects = false;
    while let Some(arg) = args.next() {
        match arg.as_bytes() {
            b"--" if !only_objects => only_objects = true,
            b"--help" | b"-h" if !only_objects => return Ok(Request::Help),
            b"--version" | b"-V" if !only_objects => return Ok(Request::Version),
            b"--cd" if !only_objects => show.cache_details = true,
            b"--json" if !only_objects => show.json = true,
            b"--state-dir" if !only_objects => show.state_dir = Some(directory(args.next())?),
            [b'-', b'-', rest @ ..] if !only_objects && rest.starts_with(b"state-dir=") => {
                let given = OsStr::from_bytes(&rest["state-dir=".len()..]).to_owned();
                show.state_dir = Some(directory(Some(given))?);
            }
            [b'-', _, ..] if !only_objects => letters(&arg, &mut show, &mut size)?,
            _ => objects(&arg, &mut show.objects)?,
        }
    }
    if let (Some(option), true) = (size, show.json) {
        return Err(UsageError::SizeWithJson { option });
    }
    if show.objects.is_empty() {
        show.objects.push(Object::Pools);
    }
    Ok(Request::Show(show))
}

fn directory(given: Option<OsString>) -> Result<PathBuf, UsageError> {
    given.filter(|given| !given.is_empty()).map(PathBuf::from).ok_or(UsageError::NoDirectory)
}

fn objects(arg: &OsStr, objects: &mut Vec<Object>) -> Result<(), UsageError> {
    let unknown = || UsageError::UnknownObject { word: arg.to_string_lossy().into_owned() };
    for object in arg.to_str().and_then(Object::named).ok_or_else(unknown)? {
        if !objects.contains(object) {
            objects.push(*object);
        }
    }
    Ok(())
}

/// `-b`, `-G` and the like; several letters may stand together, if they agree.
fn letters(arg: &OsStr, show: &mut Show, size: &mut Option<String>) -> Result<(), UsageError> {
    let unknown = || UsageError::UnknownOption { option: arg.to_string_lossy().into_owned() };
    let letters = arg.to_str().and_then(|arg| arg.strip_prefix('-')).ok_or_else(unknown)?;
    for letter in letters.chars() {
        let style = match letter {
            'b' => SizeStyle::Bytes,
            'H' => SizeStyle::Si,
            _ => SizeStyle::Fixed(SizeUnit::from_option(letter).ok_or_else(unknown)?),
        };
        let option = format!("-{letter}");
        match size {
            Some(first) if *first != option => {
                return Err(UsageError::TwoSizes { first: first.clone(), second: option });
            }
            _ => *size = Some(option),
        }
        show.sizes = style;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Request, UsageError> {
        parse(args.iter().map(OsString::from))
    }

    fn show(args: &[&str]) -> Show {
        match read(args) {
            Ok(Request::Show(show)) => show,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn objects_come_in_the_order_given_and_once() {
        assert_eq!(show(&[]).objects, [Object::Pools]);
        assert_eq!(show(&["nodes", "pools", "nodes"]).objects, [Object::Nodes, Object::Pools]);
        assert_eq!(show(&["most"]).objects, Object::ALL[..6]);
        assert_eq!(show(&["fragments", "all"]).objects.len(), 9);
    }

    #[test]
    fn options_may_stand_anywhere() {
        let shown = show(&["-G", "configurations", "--cd", "--state-dir", "/s"]);
        assert_eq!(shown.sizes, SizeStyle::Fixed(SizeUnit::GB));
        assert!(shown.cache_details);
        assert_eq!(shown.state_dir, Some("/s".into()));
        assert_eq!(show(&["--state-dir=/t"]).state_dir, Some("/t".into()));
        assert_eq!(show(&["-b"]).sizes, SizeStyle::Bytes);
        assert_eq!(show(&["-H", "-H"]).sizes, SizeStyle::Si);
        assert_eq!(read(&["pools", "-h"]), Ok(Request::Help));
        assert_eq!(read(&["-V"]), Ok(Request::Version));
    }

    #[test]
    fn every_unit_of_the_original_is_known() {
        for letter in "kKmMgGtTpPeE".chars() {
            assert!(matches!(show(&[&format!("-{letter}")]).sizes, SizeStyle::Fixed(_)), "-{letter}");
        }
    }

    #[test]
    fn refusals_list_what_there_is() {
        let message = |args: &[&str]| read(args).unwrap_err().to_string();
        assert_eq!(
            message(&["sesions"]),
            "there is no object \"sesions\"; objects are most, all, pools, sessions, instances, configurations, \
             registrations, activations, fragments, namespaces, nodes"
        );
        let options = "options are -b, -H, -k, -K, -m, -M, -g, -G, -t, -T, -p, -P, -e, -E, --cd, --json, \
             --state-dir DIR, --help, --version";
        assert_eq!(message(&["--csv"]), format!("there is no option \"--csv\"; {options}"));
        assert_eq!(message(&["-bx"]), format!("there is no option \"-bx\"; {options}"));
        assert_eq!(
            message(&["-b", "-G"]),
            "-b and -G cannot be given together: sizes are written in one way"
        );
        assert_eq!(
            message(&["-g", "--json"]),
            "-g and --json cannot be given together: sizes in JSON are always bytes"
        );
        assert_eq!(message(&["--state-dir"]), "--state-dir needs a directory: --state-dir DIR");
        assert_eq!(message(&["--state-dir="]), "--state-dir needs a directory: --state-dir DIR");
        assert!(message(&["--", "-b"]).starts_with("there is no object \"-b\""));
        assert!(message(&["-"]).starts_with("there is no object \"-\""));
    }

    #[test]
    fn the_lists_in_messages_are_complete() {
        for object in Object::ALL {
            assert!(OBJECTS.split(", ").any(|word| word == object.name()));
            assert!(USAGE.contains(&format!("\n  {} ", object.name())));
        }
        for word in OBJECTS.split(", ") {
            assert!(Object::named(word).is_some(), "{word}");
        }
    }
}
