//! The words behind `dw_wlm_cli`, in any order, long or short.
//!
//! Pure. Read by hand, since nothing may be written to standard error and every refusal is one line that ends in
//! `scontrol show job`. Which options a verb needs is judged in [`super::call`]; what a verb does not need is accepted,
//! because callers give the same options to all of them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// An option that may be given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// The verb.
    Function,
    /// Job id, or name of a persistent instance.
    Token,
    /// Who asks.
    Caller,
    /// Uid of the owner.
    User,
    /// Gid of the owner.
    GroupId,
    /// `POOL:SIZE`
    Capacity,
    /// Access modes.
    Access,
    /// `scratch` or `cache`.
    Type,
    /// The job script.
    Job,
    /// File to be written with the job's variables.
    PathFile,
    /// File with one node name a line.
    NodeHostNameFile,
    /// File with Cray node numbers.
    NidListFile,
    /// File with login nodes, of which nothing is needed.
    JobExecutionNodeFile,
    /// Give up what is not staged out. Takes no value.
    Hurry,
}

/// Every spelling.
const SPELLINGS: [(&str, Name); 25] = [
    ("--function", Name::Function),
    ("-f", Name::Function),
    ("--token", Name::Token),
    ("-t", Name::Token),
    ("--caller", Name::Caller),
    ("-c", Name::Caller),
    ("--user", Name::User),
    ("-u", Name::User),
    ("--groupid", Name::GroupId),
    ("--group", Name::GroupId),
    ("-g", Name::GroupId),
    ("--capacity", Name::Capacity),
    ("-C", Name::Capacity),
    ("--access", Name::Access),
    ("-a", Name::Access),
    ("--type", Name::Type),
    ("-T", Name::Type),
    ("--job", Name::Job),
    ("-j", Name::Job),
    ("--pathfile", Name::PathFile),
    ("-p", Name::PathFile),
    ("--nodehostnamefile", Name::NodeHostNameFile),
    ("--nidlistfile", Name::NidListFile),
    ("--jobexecutionnodefile", Name::JobExecutionNodeFile),
    ("--hurry", Name::Hurry),
];

impl Name {
    /// Its long form.
    pub fn long(self) -> &'static str {
        SPELLINGS.iter().find(|(_, name)| *name == self).map_or("", |(long, _)| long)
    }
}

/// Why the words cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Not one of the options.
    #[error("unknown option {word:?}: dw_wlm_cli --help lists them")]
    Unknown {
        /// What was given.
        word: String,
    },
    /// A word that belongs to no option.
    #[error("unexpected word {word:?}: every value follows an option")]
    Stray {
        /// What was given.
        word: String,
    },
    /// An option at the end, without its value.
    #[error("option {option} needs a value")]
    NoValue {
        /// Which one.
        option: String,
    },
    /// A value where none belongs.
    #[error("option --hurry takes no value")]
    HurryWithValue,
    /// Two values.
    #[error("option {option} is given twice")]
    Twice {
        /// Which one.
        option: String,
    },
}

/// The options with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<Name, OsString>,
    /// `--hurry`
    pub hurry: bool,
    /// `--help`
    pub help: bool,
    /// `--version`
    pub version: bool,
}

impl Options {
    /// Reads the words behind the program's name.
    ///
    /// # Errors
    /// [`OptionError`]
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Options, OptionError> {
        let mut options = Options::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.as_bytes() {
                b"--help" | b"-h" => options.help = true,
                b"--version" | b"-V" => options.version = true,
                _ => options.add(&word, &mut words)?,
            }
        }
        Ok(options)
    }

    fn add(&mut self, word: &OsStr, words: &mut impl Iterator<Item = OsString>) -> Result<(), OptionError> {
        let (spelling, value) = split(word);
        let Some((_, name)) = SPELLINGS.iter().find(|(known, _)| known.as_bytes() == spelling) else {
            return Err(unknown(word));
        };
        let option = String::from_utf8_lossy(spelling).into_owned();
        if *name == Name::Hurry {
            self.hurry = true;
            return if value.is_none() { Ok(()) } else { Err(OptionError::HurryWithValue) };
        }
        let value = value.or_else(|| words.next()).ok_or(OptionError::NoValue { option: option.clone() })?;
        match self.values.insert(*name, value) {
            None => Ok(()),
            Some(_) => Err(OptionError::Twice { option }),
        }
    }

    /// The value of an option, if it was given.
    pub fn get(&self, name: Name) -> Option<&OsStr> {
        self.values.get(&name).map(OsString::as_os_str)
    }
}

/// `--option=value` in its parts; a short option stands alone.
fn split(word: &OsStr) -> (&[u8], Option<OsString>) {
    let bytes = word.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=').filter(|_| bytes.starts_with(b"--")) {
        Some(at) => (&bytes[..at], Some(OsString::from_vec(bytes[at + 1..].to_vec()))),
        None => (bytes, None),
    }
}

fn unknown(word: &OsStr) -> OptionError {
    let shown = word.to_string_lossy().into_owned();
    if shown.starts_with('-') {
        OptionError::Unknown { word: shown }
    } else {
        OptionError::Stray { word: shown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(words: &[&str]) -> Result<Options, OptionError> {
        Options::read(words.iter().map(OsString::from))
    }

    #[test]
    fn long_short_and_joined_forms_mean_the_same() {
        let long = read(&["--function", "setup", "--token", "7", "--groupid", "5", "--hurry"]).unwrap();
        assert_eq!(long, read(&["--hurry", "-g", "5", "-t", "7", "-f", "setup"]).unwrap());
        assert_eq!(long, read(&["--token=7", "--group=5", "--hurry", "--function=setup"]).unwrap());
        assert_eq!(long.get(Name::Token), Some(OsStr::new("7")));
        assert_eq!(long.get(Name::Job), None);
    }

    #[test]
    fn values_are_taken_as_they_are() {
        let options = read(&["-t", "--hurry", "-j", "a=b;$(rm -rf /)", "--capacity=p:1=2"]).unwrap();
        assert_eq!(options.get(Name::Token), Some(OsStr::new("--hurry")));
        assert_eq!(options.get(Name::Job), Some(OsStr::new("a=b;$(rm -rf /)")));
        assert_eq!(options.get(Name::Capacity), Some(OsStr::new("p:1=2")));
        assert!(!options.hurry);
    }

    #[test]
    fn mistakes_are_told() {
        let text = |words: &[&str]| read(words).unwrap_err().to_string();
        assert_eq!(text(&["--tokne", "7"]), "unknown option \"--tokne\": dw_wlm_cli --help lists them");
        assert_eq!(text(&["setup"]), "unexpected word \"setup\": every value follows an option");
        assert_eq!(text(&["--token"]), "option --token needs a value");
        assert_eq!(text(&["-t", "7", "--token", "8"]), "option --token is given twice");
        assert_eq!(text(&["--hurry=no"]), "option --hurry takes no value");
        assert_eq!(text(&["-t7"]), "unknown option \"-t7\": dw_wlm_cli --help lists them");
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(words in proptest::collection::vec(".{0,12}", 0..8)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Err(error) = read(&words) {
                prop_assert!(error.to_string().starts_with(|c: char| c.is_ascii_lowercase()));
            }
        }
    }
}
