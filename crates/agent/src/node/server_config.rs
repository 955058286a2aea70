//! The configuration of a server.
//!
//! ```toml
//! listen = ["10.1.0.3:7070"]          # 0 for any free port
//! socket = "/run/forebay/server"      # also here, for clients on this machine
//! state = "/run/forebay/state"        # which process serves, and at which addresses
//! keep_awake = "in-guests"            # processors stay awake while there are many requests: in virtual machines; "always", "never"
//! grace_s = 30                        # how long what a client holds is kept when it is not heard of
//!
//! [[instance]]
//! id = 17
//! name = "job4711"
//! fragment = "/ssd/forebay/17"
//! space = "hard"                      # or a size, which is then counted
//! position = 0                        # which of the servers this one is
//! token_file = "/run/forebay/17.token"
//! seal_file = "/run/forebay/17.seal"
//! final_s = 300                       # how long another server is waited for that is not heard of
//! write_window_length_s = 86400       # within so many seconds
//! write_window_multiplier = 10        # so many times the size of the fragment may be written;
//! write_window_policy = "error"       # more is refused; "log": is logged; "both"
//!
//! [[instance.server]]                 # all servers of the instance in the order of their positions, this one too
//! address = "10.1.0.3:7070"
//! socket = "/run/forebay/server"      # its Unix socket, for those on its machine
//!
//! [[instance.server]]
//! address = "10.1.0.4:7070"
//!
//! [[instance.namespace]]
//! name = "c1"
//! home = 0                            # the server that keeps its names
//! stripe_size = "8MiB"
//! stripe_count = 2
//! substripes = 3
//! first_server = 0
//! max_file_size = "1TiB"
//! max_file_size_policy = "error"      # as above
//! max_files = 1000000
//! max_files_policy = "error"
//!
//! [[instance.template]]               # a namespace for each client: `c2-n<number>-h<home>` is made when a client first names it
//! name = "c2"                         # layout and limits as above
//! ```
//!
//! An instance may also have `owner` and `group`: whom the roots of its new namespaces belong to.
//!
//! What is left out has a default; the effective configuration is what [`ServerConfig::render`] writes, and reading that
//! gives the same configuration.

use super::document::Document;
use super::{Endpoint, KeepAwake, NodeError};
use forebay_model::capacity::format::exact;
use forebay_model::capacity::text::SizeText;
use forebay_model::ids::InstanceId;
use forebay_model::layout::{LayoutChoice, SERVERS_MAX};
use forebay_model::limits::{
    Policies, Policy, WINDOW_LENGTH_MAX_S, WINDOW_LENGTH_S, WINDOW_MULTIPLIER, WINDOW_MULTIPLIER_MAX,
    WriteWindow,
};
use forebay_model::units::Bytes;
use forebay_server::local::{Limits, NamespaceSpec, SpaceRule};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// Most addresses of one server.
const LISTEN_MAX: usize = 16;
/// Most instances of one server.
const INSTANCES_MAX: usize = 1024;
/// Most namespaces, and most templates, of one instance.
const NAMESPACES_MAX: usize = 64;
/// Ids are 63 bits wide, as the registry keeps them.
const ID_MAX: u64 = i64::MAX as u64;
/// The word for [`SpaceRule::Hard`].
const HARD: &str = "hard";
/// How long the state of a client that is not heard of is kept, unless the file says otherwise.
const GRACE_DEFAULT: Duration = Duration::from_secs(30);
/// How long a server is waited for that is not heard of, unless the file says otherwise.
pub(super) const FINAL_DEFAULT: Duration = Duration::from_secs(300);
/// Longest of both, in seconds: a day.
const WAIT_MAX_S: u64 = 86_400;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The file.
    pub source: PathBuf,
    /// Where it listens.
    pub listen: Vec<Endpoint>,
    /// Unix socket that it listens at.
    pub socket: Option<PathBuf>,
    /// Directory of what it says about itself while it runs.
    pub state: PathBuf,
    /// How long the locks and open files of a client that is not heard of are kept.
    pub grace: Duration,
    /// Whether the machine's processors stay awake while there are many requests.
    pub keep_awake: KeepAwake,
    /// What it serves.
    pub instances: Vec<InstanceConfig>,
}

/// This server's part of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceConfig {
    /// Which instance.
    pub id: InstanceId,
    /// Its name, for messages.
    pub name: String,
    /// Directory of the fragment.
    pub fragment: PathBuf,
    /// How the capacity of the fragment is kept.
    pub space: SpaceRule,
    /// Which of the servers this one is.
    pub position: u32,
    /// All servers of the instance, in the order of their positions.
    pub servers: Vec<ServerAddress>,
    /// Where the token of the clients is.
    pub token_file: PathBuf,
    /// Where the secret that only the servers share is.
    pub seal_file: PathBuf,
    /// How long another server is waited for when it is not heard of.
    pub final_wait: Duration,
    /// How much may be written to the fragment.
    pub write_window: Option<WriteWindow>,
    /// Its namespaces, also those whose names are kept elsewhere.
    pub namespaces: Vec<NamespaceConfig>,
    /// What namespaces are like that clients get for themselves.
    pub templates: Vec<NamespaceSpec>,
    /// Whom the roots of new namespaces belong to; `None`: whoever runs the server.
    pub owner: Option<Owner>,
}

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Where a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// From everywhere.
    pub address: Endpoint,
    /// From its own machine.
    pub socket: Option<PathBuf>,
}

/// A namespace of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Position of the server that keeps its names.
    pub home: u32,
    /// Name, layout and limits.
    pub spec: NamespaceSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerToml {
    #[serde(default)]
    listen: Vec<Spanned<String>>,
    socket: Option<Spanned<String>>,
    state: Spanned<String>,
    grace_s: Option<Spanned<u64>>,
    #[serde(default)]
    keep_awake: KeepAwake,
    #[serde(default)]
    instance: Vec<Spanned<InstanceToml>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InstanceToml {
    id: Spanned<u64>,
    name: Spanned<String>,
    fragment: Spanned<String>,
    space: Spanned<SizeText>,
    position: Spanned<u32>,
    token_file: Spanned<String>,
    seal_file: Spanned<String>,
    final_s: Option<Spanned<u64>>,
    write_window_length_s: Option<Spanned<u64>>,
    write_window_multiplier: Option<Spanned<u64>>,
    write_window_policy: Option<Spanned<String>>,
    #[serde(default)]
    server: Vec<AddressToml>,
    #[serde(default)]
    namespace: Vec<Spanned<NamespaceToml>>,
    #[serde(default)]
    template: Vec<Spanned<NamespaceToml>>,
    owner: Option<u32>,
    group: Option<u32>,
}

/// A server, in both files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressToml {
    address: Spanned<String>,
    socket: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceToml {
    name: Spanned<String>,
    home: Option<Spanned<u32>>,
    stripe_size: Option<Spanned<SizeText>>,
    stripe_count: Option<u32>,
    substripes: Option<u32>,
    first_server: Option<u32>,
    max_file_size: Option<Spanned<SizeText>>,
    max_file_size_policy: Option<Spanned<String>>,
    max_files: Option<u64>,
    max_files_policy: Option<Spanned<String>>,
}

impl ServerConfig {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<ServerConfig, NodeError> {
        ServerConfig::of(&Document::open(path)?)
    }

    fn of(document: &Document) -> Result<ServerConfig, NodeError> {
        let file: ServerToml = document.parse()?;
        if let Some(last) = file.instance.get(INSTANCES_MAX) {
            let value = file.instance.len().to_string();
            let problem = format!("at most {INSTANCES_MAX} are possible");
            return Err(document.refuse_at(last.span().start, "instance", value, problem));
        }
        let config = ServerConfig {
            source: document.source().to_owned(),
            listen: listen(document, &file)?,
            socket: file.socket.as_ref().map(|socket| document.path("socket", socket)).transpose()?,
            state: document.path("state", &file.state)?,
            grace: wait(document, "grace_s", file.grace_s.as_ref(), GRACE_DEFAULT)?,
            keep_awake: file.keep_awake,
            instances: file
                .instance
                .iter()
                .map(|instance| instance_config(document, instance))
                .collect::<Result<_, _>>()?,
        };
        unique(document, "id", file.instance.iter().map(|instance| &instance.get_ref().id))?;
        unique(document, "name", file.instance.iter().map(|instance| &instance.get_ref().name))?;
        unique(document, "fragment", file.instance.iter().map(|instance| &instance.get_ref().fragment))?;
        Ok(config)
    }

    /// The configuration as a file, with all defaults.
    pub fn render(&self) -> String {
        // Writing to a string cannot fail.
        let mut text = format!("# from {}\n", self.source.display());
        let _ = writeln!(text, "listen = {}", list(&self.listen));
        if let Some(socket) = &self.socket {
            let _ = writeln!(text, "socket = {}", quoted(socket));
        }
        let _ = writeln!(text, "state = {}\ngrace_s = {}", quoted(&self.state), self.grace.as_secs());
        let _ = writeln!(text, "keep_awake = {:?}", self.keep_awake.word());
        for instance in &self.instances {
            instance.render(&mut text);
        }
        text
    }
}

/// A file with one instance.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneToml {
    instance: [Spanned<InstanceToml>; 1],
}

impl InstanceConfig {
    /// Reads a file that has this instance alone, as [`InstanceConfig::file`] writes it.
    pub(crate) fn read(path: &Path) -> Result<InstanceConfig, NodeError> {
        let document = Document::open(path)?;
        let file: OneToml = document.parse()?;
        instance_config(&document, &file.instance[0])
    }

    /// The text of such a file.
    pub(crate) fn file(&self) -> String {
        let mut text = String::new();
        self.render(&mut text);
        text
    }

    fn render(&self, text: &mut String) {
        let space = match self.space {
            SpaceRule::Hard => HARD.to_owned(),
            SpaceRule::Metered(bytes) => exact(bytes),
        };
        let _ = writeln!(text, "\n[[instance]]\nid = {}\nname = {:?}", self.id.0, self.name);
        let _ = writeln!(text, "fragment = {}\nspace = {space:?}", quoted(&self.fragment));
        let _ = writeln!(text, "position = {}", self.position);
        let _ = writeln!(text, "token_file = {}", quoted(&self.token_file));
        let _ = writeln!(text, "seal_file = {}", quoted(&self.seal_file));
        let _ = writeln!(text, "final_s = {}", self.final_wait.as_secs());
        if let Some(WriteWindow { length_s, multiplier, policy }) = self.write_window {
            let _ =
                writeln!(text, "write_window_length_s = {length_s}\nwrite_window_multiplier = {multiplier}");
            let _ = writeln!(text, "write_window_policy = {:?}", policy.name());
        }
        if let Some(Owner { uid, gid }) = self.owner {
            let _ = writeln!(text, "owner = {uid}\ngroup = {gid}");
        }
        for server in &self.servers {
            let _ = writeln!(text, "\n[[instance.server]]\naddress = \"{}\"", server.address);
            if let Some(socket) = &server.socket {
                let _ = writeln!(text, "socket = {}", quoted(socket));
            }
        }
        for namespace in &self.namespaces {
            let _ = writeln!(text, "\n[[instance.namespace]]\nhome = {}", namespace.home);
            render_namespace(&namespace.spec, text);
        }
        for template in &self.templates {
            let _ = writeln!(text, "\n[[instance.template]]");
            render_namespace(template, text);
        }
    }
}

fn render_namespace(spec: &NamespaceSpec, text: &mut String) {
    let (layout, limits) = (spec.layout, spec.limits);
    let _ = writeln!(text, "name = {:?}", spec.name);
    let mut line = |key: &str, value: Option<String>| {
        value.map(|value| {
            let _ = writeln!(text, "{key} = {value}");
        })
    };
    let size = |bytes: Bytes| format!("{:?}", exact(bytes));
    line("stripe_size", layout.stripe_size.map(|bytes| size(Bytes(bytes))));
    line("stripe_count", layout.stripe_count.map(|count| count.to_string()));
    line("substripes", layout.substripes.map(|count| count.to_string()));
    line("first_server", layout.first_server.map(|server| server.to_string()));
    line("max_file_size", limits.max_file_size.map(size));
    line("max_files", limits.max_files.map(|files| files.to_string()));
    let policy = |policy: Policy| (policy != Policy::default()).then(|| format!("{:?}", policy.name()));
    line("max_file_size_policy", policy(limits.policies.file_size));
    line("max_files_policy", policy(limits.policies.file_count));
}

/// A string of TOML.
fn quoted(path: &Path) -> String {
    toml::Value::String(path.to_string_lossy().into_owned()).to_string()
}

fn list(endpoints: &[Endpoint]) -> String {
    let quoted: Vec<String> = endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

fn listen(document: &Document, file: &ServerToml) -> Result<Vec<Endpoint>, NodeError> {
    if file.listen.is_empty() && file.socket.is_none() {
        let problem = "an address in `listen` or a `socket` is needed";
        return Err(document.refuse_at(0, "listen", "[]".into(), problem));
    }
    if let Some(last) = file.listen.get(LISTEN_MAX) {
        return Err(document.refuse("listen", last, format!("at most {LISTEN_MAX} addresses are possible")));
    }
    file.listen.iter().map(|text| endpoint(document, "listen", text)).collect()
}

fn endpoint(document: &Document, key: &'static str, text: &Spanned<String>) -> Result<Endpoint, NodeError> {
    text.get_ref()
        .parse()
        .map_err(|error: super::EndpointError| document.refuse(key, text, error.to_string()))
}

/// The id of an instance.
pub(super) fn instance_id(document: &Document, id: &Spanned<u64>) -> Result<InstanceId, NodeError> {
    document.number("id", id, 1, ID_MAX).map(InstanceId)
}

/// All servers of an instance, in order; `at` is where the list would be.
pub(super) fn servers(
    document: &Document,
    at: usize,
    list: &[AddressToml],
) -> Result<Vec<ServerAddress>, NodeError> {
    if list.is_empty() || list.len() > SERVERS_MAX as usize {
        let problem = format!("1 to {SERVERS_MAX} are possible");
        return Err(document.refuse_at(at, "server", format!("{} servers", list.len()), problem));
    }
    unique(document, "address", list.iter().map(|server| &server.address))?;
    unique(document, "socket", list.iter().filter_map(|server| server.socket.as_ref()))?;
    list.iter().map(|server| server_address(document, server)).collect()
}

fn server_address(document: &Document, server: &AddressToml) -> Result<ServerAddress, NodeError> {
    let address = endpoint(document, "address", &server.address)?;
    if address.port() == 0 {
        return Err(document.refuse("address", &server.address, "a port that is known is needed"));
    }
    let socket = server.socket.as_ref().map(|socket| document.path("socket", socket)).transpose()?;
    Ok(ServerAddress { address, socket })
}

fn instance_config(
    document: &Document,
    spanned: &Spanned<InstanceToml>,
) -> Result<InstanceConfig, NodeError> {
    let file = spanned.get_ref();
    let servers = servers(document, spanned.span().start, &file.server)?;
    let count = servers.len() as u32;
    Ok(InstanceConfig {
        id: instance_id(document, &file.id)?,
        name: document.name("name", &file.name)?,
        fragment: document.path("fragment", &file.fragment)?,
        space: space(document, &file.space)?,
        position: document.number("position", &file.position, 0, count - 1)?,
        servers,
        token_file: document.path("token_file", &file.token_file)?,
        seal_file: document.path("seal_file", &file.seal_file)?,
        final_wait: wait(document, "final_s", file.final_s.as_ref(), FINAL_DEFAULT)?,
        write_window: write_window(document, file)?,
        namespaces: namespaces(document, spanned, count)?,
        templates: templates(document, spanned, count)?,
        owner: owner(document, spanned)?,
    })
}

/// Each part has the original's default, but without any part there is no window.
fn write_window(document: &Document, file: &InstanceToml) -> Result<Option<WriteWindow>, NodeError> {
    let (length, multiplier) = (&file.write_window_length_s, &file.write_window_multiplier);
    if length.is_none() && multiplier.is_none() && file.write_window_policy.is_none() {
        return Ok(None);
    }
    let number = |key, value: &Option<Spanned<u64>>, most, default| match value {
        Some(value) => document.number(key, value, 1, most),
        None => Ok(default),
    };
    Ok(Some(WriteWindow {
        length_s: number("write_window_length_s", length, WINDOW_LENGTH_MAX_S, WINDOW_LENGTH_S)?,
        multiplier: number("write_window_multiplier", multiplier, WINDOW_MULTIPLIER_MAX, WINDOW_MULTIPLIER)?,
        policy: policy(document, "write_window_policy", file.write_window_policy.as_ref())?,
    }))
}

fn policy(
    document: &Document,
    key: &'static str,
    word: Option<&Spanned<String>>,
) -> Result<Policy, NodeError> {
    let Some(word) = word else { return Ok(Policy::default()) };
    Policy::of_name(word.get_ref()).ok_or_else(|| {
        let words = Policy::ALL.map(|policy| format!("{:?}", policy.name())).join(", ");
        document.refuse(key, word, format!("one of {words} is possible"))
    })
}

fn owner(document: &Document, spanned: &Spanned<InstanceToml>) -> Result<Option<Owner>, NodeError> {
    match (spanned.get_ref().owner, spanned.get_ref().group) {
        (None, None) => Ok(None),
        (Some(uid), Some(gid)) => Ok(Some(Owner { uid, gid })),
        (uid, gid) => {
            let value = uid.or(gid).unwrap_or_default().to_string();
            let problem = "both `owner` and `group` are needed, or none".to_owned();
            Err(document.refuse_at(spanned.span().start, "owner", value, problem))
        }
    }
}

fn space(document: &Document, word: &Spanned<SizeText>) -> Result<SpaceRule, NodeError> {
    if word.get_ref().0 == HARD {
        return Ok(SpaceRule::Hard);
    }
    document.size("space", word).map(SpaceRule::Metered).map_err(|error| match error {
        NodeError::Value { path, line, key, value, problem } => NodeError::Value {
            path,
            line,
            key,
            value,
            problem: format!("{HARD:?} or a size is needed: {problem}"),
        },
        other => other,
    })
}

/// A time in seconds.
pub(super) fn wait(
    document: &Document,
    key: &'static str,
    seconds: Option<&Spanned<u64>>,
    default: Duration,
) -> Result<Duration, NodeError> {
    let Some(seconds) = seconds else { return Ok(default) };
    document.number(key, seconds, 1, WAIT_MAX_S).map(Duration::from_secs)
}

fn namespaces(
    document: &Document,
    instance: &Spanned<InstanceToml>,
    servers: u32,
) -> Result<Vec<NamespaceConfig>, NodeError> {
    let list = &instance.get_ref().namespace;
    let least = usize::from(instance.get_ref().template.is_empty());
    if list.len() < least || list.len() > NAMESPACES_MAX {
        let value = format!("{} namespaces", list.len());
        let problem = format!("{least} to {NAMESPACES_MAX} [[instance.namespace]] are possible");
        return Err(document.refuse_at(instance.span().start, "namespace", value, problem));
    }
    unique(document, "name", list.iter().map(|namespace| &namespace.get_ref().name))?;
    list.iter().map(|namespace| namespace_config(document, namespace, servers)).collect()
}

fn templates(
    document: &Document,
    instance: &Spanned<InstanceToml>,
    servers: u32,
) -> Result<Vec<NamespaceSpec>, NodeError> {
    let list = &instance.get_ref().template;
    if let Some(last) = list.get(NAMESPACES_MAX) {
        let value = format!("{} templates", list.len());
        let problem = format!("at most {NAMESPACES_MAX} are possible");
        return Err(document.refuse_at(last.span().start, "template", value, problem));
    }
    unique(document, "name", list.iter().map(|template| &template.get_ref().name))?;
    let one = |template: &Spanned<NamespaceToml>| match &template.get_ref().home {
        None => namespace_spec(document, template, servers),
        Some(home) => {
            Err(document.refuse("home", home, "a template has none: the names of its namespaces say it"))
        }
    };
    list.iter().map(one).collect()
}

fn namespace_config(
    document: &Document,
    spanned: &Spanned<NamespaceToml>,
    servers: u32,
) -> Result<NamespaceConfig, NodeError> {
    let home = spanned.get_ref().home.as_ref();
    let home = home.map(|home| document.number("home", home, 0, servers - 1)).transpose()?;
    Ok(NamespaceConfig { home: home.unwrap_or(0), spec: namespace_spec(document, spanned, servers)? })
}

fn namespace_spec(
    document: &Document,
    spanned: &Spanned<NamespaceToml>,
    servers: u32,
) -> Result<NamespaceSpec, NodeError> {
    let file = spanned.get_ref();
    let size = |key, text: &Option<Spanned<SizeText>>| {
        text.as_ref().map(|text| document.size(key, text)).transpose()
    };
    let layout = LayoutChoice {
        stripe_size: size("stripe_size", &file.stripe_size)?.map(|bytes| bytes.0),
        stripe_count: file.stripe_count,
        first_server: file.first_server,
        substripes: file.substripes,
    };
    if let Err(error) = layout.settle(servers, 0) {
        let value = file.name.get_ref().clone();
        return Err(document.refuse_at(spanned.span().start, "namespace", value, error.to_string()));
    }
    let limits = Limits {
        max_file_size: size("max_file_size", &file.max_file_size)?,
        max_files: file.max_files,
        policies: Policies {
            file_size: policy(document, "max_file_size_policy", file.max_file_size_policy.as_ref())?,
            file_count: policy(document, "max_files_policy", file.max_files_policy.as_ref())?,
        },
    };
    Ok(NamespaceSpec { name: document.name("name", &file.name)?, layout, limits })
}

fn unique<'a, T: Ord + std::fmt::Display + 'a>(
    document: &Document,
    key: &'static str,
    values: impl Iterator<Item = &'a Spanned<T>>,
) -> Result<(), NodeError> {
    let mut seen = BTreeSet::new();
    for value in values {
        if !seen.insert(value.get_ref()) {
            return Err(document.refuse(key, value, "it is given twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"listen = ["10.1.0.3:0", "[fd00::3]:7070"]
socket = "/run/forebay/server"
state = "/run/forebay/state"
grace_s = 31

[[instance]]
id = 17
name = "job4711"
fragment = "/ssd/forebay/17"
space = "hard"
position = 1
token_file = "/run/forebay/17.token"
seal_file = "/run/forebay/17.seal"
final_s = 301
write_window_multiplier = 3
write_window_policy = "both"

[[instance.server]]
address = "10.1.0.3:7070"
socket = "/run/forebay/server"

[[instance.server]]
address = "10.1.0.4:7070"

[[instance.namespace]]
name = "c1"
home = 1
stripe_size = "1MiB"
stripe_count = 2
substripes = 4
first_server = 1
max_file_size = "1TiB"
max_files = 1000
max_files_policy = "log"

[[instance.namespace]]
name = "c2"
"#;

    fn parse(text: &str) -> Result<ServerConfig, NodeError> {
        ServerConfig::of(&Document::of_text(Path::new("/s.toml"), text))
    }

    #[test]
    fn a_whole_file() {
        let config = parse(WHOLE).unwrap();
        assert_eq!(config.listen[0].to_string(), "10.1.0.3:0");
        let instance = &config.instances[0];
        assert_eq!((instance.id, instance.position, instance.space), (InstanceId(17), 1, SpaceRule::Hard));
        assert_eq!((config.grace.as_secs(), instance.final_wait.as_secs()), (31, 301));
        assert_eq!(instance.servers[0].socket.as_deref(), Some(Path::new("/run/forebay/server")));
        assert_eq!((instance.namespaces[0].home, instance.namespaces[1].home), (1, 0));
        let namespace = &instance.namespaces[0].spec;
        assert_eq!((namespace.layout.stripe_size, namespace.layout.substripes), (Some(1 << 20), Some(4)));
        let policies = Policies { file_size: Policy::Error, file_count: Policy::Log };
        assert_eq!(
            namespace.limits,
            Limits { max_file_size: Some(Bytes(1 << 40)), max_files: Some(1000), policies }
        );
        let window = WriteWindow { length_s: 86_400, multiplier: 3, policy: Policy::Both };
        assert_eq!(instance.write_window, Some(window));
        assert_eq!(instance.namespaces[1].spec.layout, LayoutChoice::default());
    }

    #[test]
    fn what_is_printed_is_what_was_read() {
        let metered = WHOLE.replace("space = \"hard\"", "space = \"1536MiB\"");
        let short = metered.replace("grace_s = 31\n", "").replace("socket = \"/run/forebay/server\"\n", "");
        let asleep = WHOLE.replace("grace_s = 31", "keep_awake = \"never\"");
        assert_eq!(parse(&asleep).unwrap().keep_awake, KeepAwake::Never);
        let odd = WHOLE.replace("/ssd/forebay/17", "/ssd/a \\\"b\\\" \\\\c\\t\\u00e9");
        for text in [WHOLE, &metered, &short, &asleep, &odd] {
            let config = parse(text).unwrap();
            assert_eq!(parse(&config.render()).unwrap(), config, "{}", config.render());
        }
    }

    #[test]
    fn templates_and_an_owner() {
        let text = WHOLE.replace("final_s = 301\n", "final_s = 301\nowner = 1000\ngroup = 100\n")
            + "\n[[instance.template]]\nname = \"c3\"\nmax_files = 7\n";
        let config = parse(&text).unwrap();
        let instance = &config.instances[0];
        assert_eq!(instance.owner, Some(Owner { uid: 1000, gid: 100 }));
        assert_eq!(
            (instance.templates[0].name.as_str(), instance.templates[0].limits.max_files),
            ("c3", Some(7))
        );
        assert_eq!(parse(&config.render()).unwrap(), config, "{}", config.render());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("17.toml");
        std::fs::write(&file, instance.file()).unwrap();
        assert_eq!(InstanceConfig::read(&file).unwrap(), *instance);
        for (from, to, wanted) in [
            ("group = 100\n", "", "owner = 1000: both `owner` and `group` are needed"),
            ("name = \"c3\"", "name = \"c3\"\nhome = 1", "home = 1: a template has none"),
            ("name = \"c3\"", "name = \"c3\"\nstripe_count = 3", "stripe count 3"),
        ] {
            let error = parse(&text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
        let begin = text.find("[[instance.namespace]]").unwrap();
        let end = text.find("[[instance.template]]").unwrap();
        let private = parse(&(text[..begin].to_owned() + &text[end..])).unwrap();
        assert!(private.instances[0].namespaces.is_empty(), "templates alone are enough");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let cases = [
            (
                "socket =",
                "sock =",
                "unknown field `sock`, expected one of `listen`, `socket`, `state`, `grace_s`, `keep_awake`, `instance`",
            ),
            ("socket =", "sock =", "line 2, column 1"),
            ("grace_s = 31", "grace = 31", "unknown field `grace`"),
            ("max_files = 1000", "max_file = 1000", "unknown field `max_file`"),
            (
                "\"log\"",
                "\"ignore\"",
                "max_files_policy = ignore: one of \"log\", \"error\", \"both\" is possible",
            ),
            ("multiplier = 3", "multiplier = 0", "write_window_multiplier = 0: 1 to"),
            ("position = 1\n", "", "missing field `position`"),
            ("10.1.0.3:0", "10.1.0.3", "line 1: listen = 10.1.0.3: a host and a port are needed"),
            ("state = \"/run", "state = \"run", "line 3: state = run/forebay/state: an absolute path"),
            ("id = 17", "id = -1", "line 7"),
            ("id = 17", "id = 0", "line 7: id = 0"),
            ("job4711", "", "line 8: name = : 1 to 64 letters"),
            ("/ssd/forebay/17", "ssd", "line 9: fragment = ssd"),
            ("\"hard\"", "\"soft\"", "line 10: space = soft: \"hard\" or a size is needed"),
            ("\"hard\"", "\"1.5GiB\"", "write 1536MiB"),
            ("position = 1", "position = 2", "line 11: position = 2: 0 to 1 is possible"),
            ("10.1.0.4:7070", "10.1.0.3:7070", "line 23: address = 10.1.0.3:7070: it is given twice"),
            ("10.1.0.4:7070", "10.1.0.4:0", "line 23: address = 10.1.0.4:0: a port that is known"),
            (
                "address = \"10.1.0.4",
                "adress = \"10.1.0.4",
                "unknown field `adress`, expected `address` or `socket`",
            ),
            ("grace_s = 31", "keep_awake = \"no\"", "line 4"),
            ("grace_s = 31", "grace_s = 0", "line 4: grace_s = 0: 1 to 86400"),
            ("final_s = 301", "final_s = 86401", "line 14: final_s = 86401"),
            ("home = 1", "home = 2", "line 27: home = 2: 0 to 1 is possible"),
            ("stripe_size = \"1MiB\"", "stripe_size = \"1000\"", "line 25: namespace = c1: stripe size 1000"),
            ("stripe_size = \"1MiB\"", "stripe_size = 65536", "write \"64KiB\""),
            ("stripe_size = \"1MiB\"", "stripe_size = true", "expected a size in quotes, such as \"8MiB\""),
            ("stripe_count = 2", "stripe_count = 3", "stripe count 3: from 1 to the number of servers, 2"),
            ("name = \"c2\"", "name = \"c1\"", "line 37: name = c1: it is given twice"),
            ("name = \"c2\"", "name = \"c 2\"", "line 37: name = c 2"),
        ];
        for (from, to, wanted) in cases {
            let text = WHOLE.replacen(from, to, 1);
            assert_ne!(text, WHOLE, "{from} is not in the file");
            let message = parse(&text).unwrap_err().to_string();
            assert!(message.contains(wanted) && message.contains("\"/s.toml\""), "{wanted}: {message}");
        }
        let twice = format!("{WHOLE}{}", &WHOLE[WHOLE.find("[[instance]]").unwrap()..]);
        assert!(parse(&twice).unwrap_err().to_string().contains("id = 17: it is given twice"));
        let twice = twice.replacen("id = 17", "id = 18", 1);
        assert!(parse(&twice).unwrap_err().to_string().contains("name = job4711: it is given twice"));
        let none = parse("state = \"/s\"\n").unwrap_err().to_string();
        assert!(none.contains("an address in `listen` or a `socket` is needed"), "{none}");
        let empty = &WHOLE[..WHOLE.find("[[instance.namespace]]").unwrap()];
        let empty = parse(empty).unwrap_err().to_string();
        assert!(empty.contains("line 6: namespace = 0 namespaces: 1 to 64"), "{empty}");
    }
}
