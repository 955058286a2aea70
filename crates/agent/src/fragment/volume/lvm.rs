//! What is said to LVM, and what it answers.
//!
//! Texts and their meaning only: which program with which words, and how a report is read. [`Lvm::run`] is the one place where
//! a program is started. LVM keeps a lock of its own, so any process and any thread may call; a program that is killed leaves the
//! group as it was before or after, never in between.

use crate::capabilities::find_program;
use crate::error::AgentError;
use forebay_model::units::Bytes;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The kernel's device mapper, as LVM reaches it.
const CONTROL: &str = "/dev/mapper/control";
/// Every volume of ours has it.
const TAG: &str = "forebay";
/// Begins the tag that says whose numbers are in the volume's name.
const REGISTRY_TAG: &str = "forebay_registry=";
/// So much of what a program says is kept.
const SAID_MAX: usize = 2000;

/// A volume group, and how it is spoken to.
#[derive(Clone, Debug)]
pub(crate) struct Lvm {
    group: String,
    #[cfg(test)]
    pub without_kernel: bool,
}

/// A volume as LVM reports it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Size.
    pub size: Bytes,
    tags: Vec<String>,
}

/// A program and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub program: &'static str,
    pub words: Vec<String>,
}

impl Found {
    /// It was made for fragments of this registry.
    pub fn is_of(&self, registry: &str) -> bool {
        let has = |tag: &str| self.tags.iter().any(|known| known == tag);
        has(TAG) && has(&format!("{REGISTRY_TAG}{registry}"))
    }
}

impl Lvm {
    /// The group of this name.
    pub fn new(group: &str) -> Lvm {
        Lvm {
            group: group.to_owned(),
            #[cfg(test)]
            without_kernel: false,
        }
    }

    /// Where the kernel shows a volume.
    pub fn device(&self, volume: &str) -> PathBuf {
        Path::new("/dev").join(&self.group).join(volume)
    }

    /// Says what is missing before anything is tried: the programs, the kernel's part, the group.
    pub fn check(&self) -> Result<(), AgentError> {
        program("lvcreate")?;
        let control = Path::new(CONTROL);
        let opened = std::fs::File::options().read(true).write(true).open(control);
        opened.map_err(|source| AgentError::NoDeviceMapper { control: control.to_owned(), source })?;
        self.free().map(drop)
    }

    /// Space that no volume has.
    pub fn free(&self) -> Result<Bytes, AgentError> {
        let report = self.run(&self.report_group())?;
        read_group(&report).ok_or_else(|| self.not_understood("vgs", &report))
    }

    /// The volume of this name, if there is one.
    pub fn find(&self, volume: &str) -> Result<Option<Found>, AgentError> {
        let report = self.run(&self.report_volume(volume))?;
        read_volume(&report).ok_or_else(|| self.not_understood("lvs", &report))
    }

    /// Makes a volume whose space is its own from the beginning.
    pub fn create(&self, volume: &str, size: Bytes, registry: &str) -> Result<(), AgentError> {
        self.run(&self.creation(volume, size, registry)).map(drop)
    }

    /// Has the kernel show a volume.
    pub fn activate(&self, volume: &str) -> Result<(), AgentError> {
        self.run(&self.activation(volume)).map(drop)
    }

    /// Removes a volume and tells the disk that its blocks are free.
    pub fn remove(&self, volume: &str) -> Result<(), AgentError> {
        self.run(&self.removal(volume)).map(drop)
    }

    fn report_group(&self) -> Call {
        let words = ["--reportformat", "json", "--units", "b", "--nosuffix", "--options", "vg_free"];
        self.call("vgs", &words, &self.group)
    }

    /// By selection: a volume that is not there is an empty report then, and no failure.
    fn report_volume(&self, volume: &str) -> Call {
        let select = format!("lv_name={volume}");
        let options = "lv_name,lv_tags,lv_size";
        let words = ["--reportformat", "json", "--units", "b", "--nosuffix", "--options", options];
        let mut call = self.call("lvs", &words, &self.group);
        call.words.splice(call.words.len() - 1..call.words.len() - 1, ["--select".to_owned(), select]);
        call
    }

    /// Old signatures are wiped: what an earlier volume left must not look like a file system. Not skipped at activation,
    /// whatever the machine's defaults are, and one piece after the other, which every kernel with a device mapper can.
    fn creation(&self, volume: &str, size: Bytes, registry: &str) -> Call {
        let (size, registry_tag) = (format!("{}B", size.0), format!("{REGISTRY_TAG}{registry}"));
        let words = ["--yes", "--quiet", "--type", "linear", "--zero", "y", "--wipesignatures", "y"];
        let more = ["--activate", "y", "--setactivationskip", "n", "--name", volume, "--size", &size];
        let tags = ["--addtag", TAG, "--addtag", &registry_tag];
        self.call("lvcreate", &[&words[..], &more, &tags].concat(), &self.group)
    }

    fn activation(&self, volume: &str) -> Call {
        self.call("lvchange", &["--activate", "y", "--ignoreactivationskip"], &self.path(volume))
    }

    fn removal(&self, volume: &str) -> Call {
        let words = ["--yes", "--quiet", "--config", "devices{issue_discards=1}"];
        self.call("lvremove", &words, &self.path(volume))
    }

    fn path(&self, volume: &str) -> String {
        format!("{}/{volume}", self.group)
    }

    fn call(&self, program: &'static str, words: &[&str], last: &str) -> Call {
        let words = words.iter().map(|word| (*word).to_owned()).chain([last.to_owned()]).collect();
        Call { program, words }
    }

    /// Starts a program; what it printed, if it succeeded.
    fn run(&self, call: &Call) -> Result<String, AgentError> {
        let path = program(call.program)?;
        #[cfg(test)]
        let call = &if self.without_kernel { tests::without_kernel(call) } else { call.clone() };
        // Descriptors of ours that it inherits are no fault that it has to complain about.
        let output = Command::new(&path)
            .args(&call.words)
            .env_clear()
            .envs([
                ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
                ("LC_ALL", "C"),
                ("LVM_SUPPRESS_FD_WARNINGS", "1"),
            ])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| AgentError::system("run", path, error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = shortened(&String::from_utf8_lossy(&output.stderr));
        Err(AgentError::Program {
            program: call.program,
            path: PathBuf::from(&self.group),
            status: output.status,
            output: said,
        })
    }

    fn not_understood(&self, program: &'static str, report: &str) -> AgentError {
        AgentError::StrangeReport { program, group: self.group.clone(), report: shortened(report) }
    }
}

fn program(name: &'static str) -> Result<PathBuf, AgentError> {
    find_program(name).ok_or(AgentError::NoLvm { program: name })
}

/// In one line, and not too long.
fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(SAID_MAX).collect()
}

#[derive(Deserialize)]
struct Report<T> {
    report: Vec<T>,
}

#[derive(Deserialize)]
struct Groups {
    vg: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    vg_free: String,
}

#[derive(Deserialize)]
struct Volumes {
    lv: Vec<Volume>,
}

#[derive(Deserialize)]
struct Volume {
    lv_tags: String,
    lv_size: String,
}

/// Free bytes of the one group of a report.
fn read_group(report: &str) -> Option<Bytes> {
    let report: Report<Groups> = serde_json::from_str(report).ok()?;
    let [Groups { vg }] = &report.report[..] else { return None };
    let [Group { vg_free }] = &vg[..] else { return None };
    vg_free.parse().ok().map(Bytes)
}

/// The volume of a report that shows at most one. Outside: the report is none.
fn read_volume(report: &str) -> Option<Option<Found>> {
    let report: Report<Volumes> = serde_json::from_str(report).ok()?;
    let [Volumes { lv }] = &report.report[..] else { return None };
    match &lv[..] {
        [] => Some(None),
        [Volume { lv_tags, lv_size }] => {
            let tags = lv_tags.split(',').map(str::to_owned).collect();
            Some(Some(Found { size: Bytes(lv_size.parse().ok()?), tags }))
        }
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests;
