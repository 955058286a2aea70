//! The configuration of an agent.
//!
//! ```toml
//! node = "nid00003"                   # as the workload manager calls it; default: the name of the host
//! controller = "control:7600"         # or "unix:/run/forebay/controller.sock"; default: as for the commands
//! registry = "forebay"                # the controller's; fragments of another one are never touched
//! state = "/var/lib/forebay/agent"
//! keep_awake = "in-guests"            # processors stay awake while calls are answered: in virtual machines; "always", "never"
//!
//! [mounts]
//! holders = "kill"                    # what still uses a mount at the end of a job; "leave" lets it go on
//! io_uring = "if-on"                  # requests over io_uring where root has switched that on; "switch-on", "never"
//!
//! [storage]                           # a node that gives space; without it, it only mounts
//! pool = "wlm_pool"
//! directory = "/ssd/forebay"          # an existing directory on the disk
//! kind = "image"                      # fragments of fixed size; "lvm" too; "directory" counts what is written
//! overcommit = false                  # images take space only as they are written, and a full disk ends them
//! volume_group = "fast"               # with kind = "lvm": where volumes are made
//! capacity = "1600GB"
//! granularity = "20GiB"               # smallest piece that is handed out
//! listen = "10.1.0.3:7070"
//! address = "nid00003:7070"           # where others reach it, if that is not `listen`
//! socket = "/run/forebay/server"      # for clients on this machine
//! grace_s = 30                        # how long what a client holds is kept when it is not heard of
//! ```
//!
//! Unknown keys are refused with their line. What [`AgentConfig::render`] writes has all defaults and reads as the same.

use super::records::Form;
use crate::error::AgentError;
use crate::fragment::image::Room;
use crate::fragment::volume;
use crate::node::document::Document;
use crate::node::{Endpoint, IoUring, KeepAwake, NodeError};
use forebay_model::capacity::format::exact;
use forebay_model::capacity::text::SizeText;
use forebay_model::units::Bytes;
use serde::Deserialize;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// Where the agent's state is kept, unless the file says otherwise.
const STATE_DEFAULT: &str = "/var/lib/forebay/agent";
/// Name of the registry, unless the file says otherwise; the controller has the same default.
const REGISTRY_DEFAULT: &str = "forebay";
/// Unix socket of the file server, unless the file says otherwise.
const SOCKET_DEFAULT: &str = "/run/forebay/server";
/// How long the state of a client that is not heard of is kept, unless the file says otherwise.
const GRACE_DEFAULT_S: u64 = 30;
/// Longest, in seconds: a day.
const GRACE_MAX_S: u64 = 86_400;
/// Longest name of a node that Linux has, in bytes.
const NODE_MAX: usize = 64;
/// Longest name of a volume group, in bytes: with the name of a volume, hyphens doubled, the kernel takes 127.
const GROUP_MAX: usize = 32;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Name of the node.
    pub node: String,
    /// The controller's address; `None`: where the commands find it.
    pub controller: Option<String>,
    /// The registry that this node's fragments belong to.
    pub registry: String,
    /// The agent's directory.
    pub state: PathBuf,
    /// Whether the processors stay awake while mounts or the file server answer many calls.
    pub keep_awake: KeepAwake,
    /// What is done about processes that use a mount that is to go.
    pub holders: Holding,
    /// Whether mounts take their requests over io_uring.
    pub io_uring: IoUring,
    /// What it gives, if anything.
    pub storage: Option<StorageConfig>,
}

/// Space on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageConfig {
    /// The pool that it is in.
    pub pool: String,
    /// Where fragments are made.
    pub directory: PathBuf,
    /// Of what form.
    pub kind: StorageKind,
    /// How much of the disk may be used.
    pub capacity: Bytes,
    /// Smallest piece that is handed out.
    pub granularity: Bytes,
    /// Where the file server listens.
    pub listen: Endpoint,
    /// Where others reach it.
    pub address: Endpoint,
    /// Its Unix socket.
    pub socket: PathBuf,
    /// How long what a client holds is kept when it is not heard of.
    pub grace: Duration,
}

/// The form of fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// XFS images of fixed size.
    Image {
        /// They take space only as they are written: more can be promised than the disk has.
        overcommit: bool,
    },
    /// LVM volumes with XFS.
    Lvm {
        /// The group that they are made in.
        volume_group: String,
    },
    /// Directories; what is written is counted.
    Directory,
}

/// The word of `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindWord {
    Image,
    Lvm,
    Directory,
}

/// What is done about processes that use a mount that is to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holding {
    /// They are ended.
    #[default]
    Kill,
    /// They go on with what they have open; the path is free at once.
    Leave,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentToml {
    node: Option<Spanned<String>>,
    controller: Option<String>,
    registry: Option<Spanned<String>>,
    state: Option<Spanned<String>>,
    #[serde(default)]
    keep_awake: KeepAwake,
    #[serde(default)]
    mounts: MountsToml,
    storage: Option<StorageToml>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MountsToml {
    #[serde(default)]
    holders: Holding,
    #[serde(default)]
    io_uring: IoUring,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StorageToml {
    pool: Spanned<String>,
    directory: Spanned<String>,
    kind: Option<Spanned<KindWord>>,
    overcommit: Option<Spanned<bool>>,
    volume_group: Option<Spanned<String>>,
    capacity: Spanned<SizeText>,
    granularity: Spanned<SizeText>,
    listen: Spanned<String>,
    address: Option<Spanned<String>>,
    socket: Option<Spanned<String>>,
    grace_s: Option<Spanned<u64>>,
}

impl AgentConfig {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<AgentConfig, NodeError> {
        AgentConfig::of(&Document::open(path)?)
    }

    fn of(document: &Document) -> Result<AgentConfig, NodeError> {
        let file: AgentToml = document.parse()?;
        let state = file.state.as_ref().map(|state| document.path("state", state)).transpose()?;
        let registry = file.registry.as_ref().map(|name| document.name("registry", name)).transpose()?;
        Ok(AgentConfig {
            node: node(document, file.node.as_ref())?,
            controller: file.controller,
            registry: registry.unwrap_or_else(|| REGISTRY_DEFAULT.to_owned()),
            state: state.unwrap_or_else(|| STATE_DEFAULT.into()),
            keep_awake: file.keep_awake,
            holders: file.mounts.holders,
            io_uring: file.mounts.io_uring,
            storage: file.storage.map(|storage| self::storage(document, &storage)).transpose()?,
        })
    }

    /// The configuration as a file, with all defaults.
    pub fn render(&self) -> String {
        // Writing to a string cannot fail.
        let mut text = format!("node = {:?}\n", self.node);
        if let Some(controller) = &self.controller {
            let _ = writeln!(text, "controller = {}", quoted(controller));
        }
        let _ = writeln!(text, "registry = {:?}\nstate = {}", self.registry, quoted_path(&self.state));
        let _ = writeln!(text, "keep_awake = {:?}", self.keep_awake.word());
        let holders = match self.holders {
            Holding::Kill => "kill",
            Holding::Leave => "leave",
        };
        let _ = writeln!(text, "\n[mounts]\nholders = {holders:?}\nio_uring = {:?}", self.io_uring.word());
        if let Some(storage) = &self.storage {
            storage.render(&mut text);
        }
        text
    }
}

impl StorageKind {
    fn word(&self) -> KindWord {
        match self {
            StorageKind::Image { .. } => KindWord::Image,
            StorageKind::Lvm { .. } => KindWord::Lvm,
            StorageKind::Directory => KindWord::Directory,
        }
    }

    /// What new fragments are made of.
    pub(super) fn form(&self) -> Form {
        match self {
            StorageKind::Image { overcommit: true } => Form::Image(Room::Sparse),
            StorageKind::Image { overcommit: false } => Form::Image(Room::Reserved),
            StorageKind::Lvm { volume_group } => Form::Volume { group: volume_group.clone() },
            StorageKind::Directory => Form::Directory,
        }
    }
}

impl Display for KindWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KindWord::Image => "image",
            KindWord::Lvm => "lvm",
            KindWord::Directory => "directory",
        })
    }
}

impl StorageConfig {
    /// What keeps this machine from making fragments of this kind, as far as it can be known beforehand.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self) -> Result<(), AgentError> {
        match &self.kind {
            StorageKind::Lvm { volume_group } => volume::check(volume_group),
            StorageKind::Image { .. } | StorageKind::Directory => Ok(()),
        }
    }

    /// What the operator has to know at every start.
    pub fn warning(&self) -> Option<String> {
        (self.kind == StorageKind::Image { overcommit: true }).then(|| {
            format!(
                "overcommit = true: fragments in {} take space only as they are written. When the disk is full, the file \
                 systems of jobs that write end, and what was not synced is lost: watch its free space",
                self.directory.display()
            )
        })
    }

    fn render(&self, text: &mut String) {
        let _ = writeln!(text, "\n[storage]\npool = {}", quoted(&self.pool));
        let _ =
            writeln!(text, "directory = {}\nkind = \"{}\"", quoted_path(&self.directory), self.kind.word());
        let _ = match &self.kind {
            StorageKind::Image { overcommit } => writeln!(text, "overcommit = {overcommit}"),
            StorageKind::Lvm { volume_group } => writeln!(text, "volume_group = {}", quoted(volume_group)),
            StorageKind::Directory => Ok(()),
        };
        let _ = writeln!(text, "capacity = {:?}", exact(self.capacity));
        let _ = writeln!(text, "granularity = {:?}", exact(self.granularity));
        let _ = writeln!(text, "listen = \"{}\"\naddress = \"{}\"", self.listen, self.address);
        let _ = writeln!(text, "socket = {}\ngrace_s = {}", quoted_path(&self.socket), self.grace.as_secs());
    }
}

fn node(document: &Document, name: Option<&Spanned<String>>) -> Result<String, NodeError> {
    let Some(name) = name else {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        return Ok(host.split('.').next().unwrap_or_default().to_owned());
    };
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let text = name.get_ref();
    if !text.is_empty() && text.len() <= NODE_MAX && text.chars().all(fits) {
        return Ok(text.clone());
    }
    Err(document.refuse(
        "node",
        name,
        format!("1 to {NODE_MAX} letters, digits, `-`, `_` and `.` are possible"),
    ))
}

fn storage(document: &Document, file: &StorageToml) -> Result<StorageConfig, NodeError> {
    let listen = endpoint(document, "listen", &file.listen)?;
    let address = match &file.address {
        Some(address) => endpoint(document, "address", address)?,
        None if ["0.0.0.0", "::"].contains(&listen.host()) => {
            let problem = "it is reached at any address: say in `address` at which one others are to ask";
            return Err(document.refuse("listen", &file.listen, problem));
        }
        None => listen.clone(),
    };
    let socket = file.socket.as_ref().map(|socket| document.path("socket", socket)).transpose()?;
    let grace = file.grace_s.as_ref().map(|grace| document.number("grace_s", grace, 1, GRACE_MAX_S));
    let capacity = document.size("capacity", &file.capacity)?;
    let granularity = document.size("granularity", &file.granularity)?;
    if granularity.0 == 0 || granularity > capacity {
        return Err(document.refuse(
            "granularity",
            &file.granularity,
            "more than nothing, and not more than `capacity`",
        ));
    }
    Ok(StorageConfig {
        pool: file.pool.get_ref().clone(),
        directory: document.path("directory", &file.directory)?,
        kind: kind(document, file)?,
        capacity,
        granularity,
        listen,
        address,
        socket: socket.unwrap_or_else(|| SOCKET_DEFAULT.into()),
        grace: Duration::from_secs(grace.transpose()?.unwrap_or(GRACE_DEFAULT_S)),
    })
}

fn kind(document: &Document, file: &StorageToml) -> Result<StorageKind, NodeError> {
    let word = file.kind.as_ref().map_or(KindWord::Image, |word| *word.get_ref());
    let overcommit = file.overcommit.as_ref().filter(|wanted| *wanted.get_ref());
    if let Some(wanted) = overcommit.filter(|_| word != KindWord::Image) {
        return Err(document.refuse("overcommit", wanted, "only for kind = \"image\""));
    }
    if let Some(group) = file.volume_group.as_ref().filter(|_| word != KindWord::Lvm) {
        return Err(document.refuse("volume_group", group, "only for kind = \"lvm\""));
    }
    let image = StorageKind::Image { overcommit: overcommit.is_some() };
    let Some(word) = &file.kind else { return Ok(image) };
    match (word.get_ref(), &file.volume_group) {
        (KindWord::Image, _) => Ok(image),
        (KindWord::Directory, _) => Ok(StorageKind::Directory),
        (KindWord::Lvm, Some(group)) => Ok(StorageKind::Lvm { volume_group: volume_group(document, group)? }),
        (KindWord::Lvm, None) => {
            Err(document.refuse("kind", word, "it needs volume_group, the group that volumes are made in"))
        }
    }
}

fn volume_group(document: &Document, group: &Spanned<String>) -> Result<String, NodeError> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "+_.-".contains(letter);
    let text = group.get_ref();
    let is_name = !text.is_empty() && text.len() <= GROUP_MAX && text.chars().all(fits);
    if is_name && !text.starts_with(['-', '.']) {
        return Ok(text.clone());
    }
    let problem = format!(
        "1 to {GROUP_MAX} letters, digits, `+`, `_`, `.` and `-`, the last two not at the beginning, are possible"
    );
    Err(document.refuse("volume_group", group, problem))
}

/// An address that is the same after every start, since clients have to find it again.
fn endpoint(document: &Document, key: &'static str, text: &Spanned<String>) -> Result<Endpoint, NodeError> {
    let parsed: Endpoint =
        text.get_ref().parse().map_err(|error| document.refuse(key, text, format!("{error}")))?;
    match parsed.port() {
        0 => Err(document.refuse(key, text, "a port that stays the same is needed")),
        _ => Ok(parsed),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"node = "nid00003"
controller = "control:7600"
registry = "cluster1"
state = "/var/lib/agent"

[mounts]
holders = "leave"
io_uring = "never"

[storage]
pool = "wlm_pool"
directory = "/ssd/forebay"
kind = "directory"
capacity = "1600GB"
granularity = "20GiB"
listen = "0.0.0.0:7070"
address = "nid00003:7070"
socket = "/run/f/server"
grace_s = 31
"#;

    fn parse(text: &str) -> Result<AgentConfig, NodeError> {
        AgentConfig::of(&Document::of_text(Path::new("/a.toml"), text))
    }

    #[test]
    fn what_is_printed_is_what_was_read() {
        let config = parse(WHOLE).unwrap();
        let storage = config.storage.clone().unwrap();
        assert_eq!((config.holders, storage.kind), (Holding::Leave, StorageKind::Directory));
        assert_eq!(config.io_uring, IoUring::Never);
        let asleep = format!("keep_awake = \"never\"\n{WHOLE}");
        assert_eq!(
            (config.keep_awake, parse(&asleep).unwrap().keep_awake),
            (KeepAwake::InGuests, KeepAwake::Never)
        );
        assert_eq!((storage.capacity, storage.grace.as_secs()), (Bytes(1_600_000_000_000), 31));
        assert_eq!(storage.address.to_string(), "nid00003:7070");
        for text in [
            WHOLE,
            &asleep,
            "",
            &WHOLE.replace("\"directory\"\ncap", "\"image\"\novercommit = true\ncap"),
            &WHOLE.replace("\"directory\"\ncap", "\"lvm\"\nvolume_group = \"fast-1\"\ncap"),
            "[storage]\npool = \"p\"\ndirectory = \"/d\"\ncapacity = \"1GiB\"\ngranularity = \"1MiB\"\nlisten = \"10.1.0.3:7070\"\n",
        ] {
            let config = parse(text).unwrap();
            assert_eq!(parse(&config.render()).unwrap(), config, "{}", config.render());
        }
        let short = parse("").unwrap();
        assert!(!short.node.is_empty() && !short.node.contains('.') && short.storage.is_none());
    }

    #[test]
    fn new_fragments_are_made_of_what_the_configuration_says() {
        let with = |lines: &str| {
            let text = WHOLE.replace("kind = \"directory\"\n", lines);
            parse(&text).unwrap().storage.unwrap()
        };
        for (lines, form) in [
            ("", Form::Image(Room::Reserved)),
            ("overcommit = false\n", Form::Image(Room::Reserved)),
            ("overcommit = true\n", Form::Image(Room::Sparse)),
            ("kind = \"directory\"\n", Form::Directory),
            ("kind = \"lvm\"\nvolume_group = \"fast\"\n", Form::Volume { group: "fast".into() }),
        ] {
            let storage = with(lines);
            let is_sparse = form == Form::Image(Room::Sparse);
            assert_eq!((storage.kind.form(), storage.warning().is_some()), (form, is_sparse), "{lines}");
        }
        let warning = with("overcommit = true\n").warning().unwrap();
        assert!(warning.contains("/ssd/forebay take space only"), "{warning}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (from, to, wanted) in [
            ("controller =", "controler =", "line 2"),
            ("nid00003\"\nc", "a b\"\nc", "line 1: node = a b"),
            ("cluster1", "", "line 3: registry = "),
            ("/var/lib/agent", "agent", "line 4: state = agent: an absolute path"),
            ("registry =", "keep_awake = \"no\"\nregistry =", "line 3"),
            ("leave", "shoot", "line 7"),
            ("never", "now", "line 8"),
            ("\"directory\"\ncap", "\"tape\"\ncap", "line 13"),
            ("\"directory\"\ncap", "\"lvm\"\ncap", "line 13: kind = lvm: it needs volume_group"),
            (
                "\"directory\"\ncap",
                "\"lvm\"\nvolume_group = \"-x\"\ncap",
                "line 14: volume_group = -x: 1 to 32 letters",
            ),
            ("capacity = ", "volume_group = \"g\"\ncapacity = ", "line 14: volume_group = g: only for kind"),
            ("capacity = ", "overcommit = true\ncapacity = ", "line 14: overcommit = true: only for kind"),
            ("\"1600GB\"", "1600000000000", "write \"1600GB\""),
            ("1600GB", "1600XB", "line 14: capacity = 1600XB"),
            ("20GiB", "2TB", "line 15: granularity = 2TB: more than nothing, and not more than `capacity`"),
            ("0.0.0.0:7070", "0.0.0.0:0", "line 16: listen = 0.0.0.0:0: a port that stays the same"),
            (
                "address = \"nid00003:7070\"\n",
                "",
                "line 16: listen = 0.0.0.0:7070: it is reached at any address",
            ),
            ("grace_s = 31", "grace_s = 0", "line 19: grace_s = 0"),
        ] {
            let text = WHOLE.replacen(from, to, 1);
            assert_ne!(text, WHOLE, "{from}");
            let message = parse(&text).map(|config| format!("{config:?}")).unwrap_err().to_string();
            assert!(message.contains(wanted) && message.contains("\"/a.toml\""), "{wanted}: {message}");
        }
    }
}
