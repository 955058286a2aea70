//! The description of an instance for its clients.
//!
//! ```toml
//! id = 17
//! name = "job4711"
//! namespace = "c1"
//! home = 0                            # the server that keeps its names
//! token_file = "/run/forebay/17.token"
//! cache = "none"                      # or "close-to-open"
//! final_s = 300                       # how long a server is waited for that is not heard of
//!
//! [[server]]                          # in the order of their positions
//! address = "10.1.0.3:7070"
//! socket = "/run/forebay/server"      # its Unix socket, for clients on its machine
//!
//! [[server]]
//! address = "10.1.0.4:7070"
//! ```

use super::NodeError;
use super::document::Document;
use super::server_config::{AddressToml, FINAL_DEFAULT, ServerAddress, instance_id, servers, wait};
use forebay_model::ids::InstanceId;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// What a client may keep of files, so that it need not ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Nothing: a completed write is seen by the next read on every node.
    #[default]
    None,
    /// What was read, while a file is open and until somebody changes it: what others write is seen by who opens the file
    /// after they closed it.
    CloseToOpen,
}

/// The words of the file for it.
const CACHE_NONE: &str = "none";
const CACHE_CLOSE_TO_OPEN: &str = "close-to-open";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceFile {
    /// The file.
    pub source: PathBuf,
    /// The instance.
    pub id: InstanceId,
    /// Its name, for messages and the mount table.
    pub name: String,
    /// Its servers, in the order of their positions.
    pub servers: Vec<ServerAddress>,
    /// Which of its namespaces.
    pub namespace: String,
    /// Position of the server that keeps its names.
    pub home: u32,
    /// Where the token is.
    pub token_file: PathBuf,
    /// What may be kept.
    pub cache: Cache,
    /// How long a server is waited for that is not heard of; then what was asked of it fails.
    pub final_wait: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InstanceToml {
    id: Spanned<u64>,
    name: Spanned<String>,
    namespace: Spanned<String>,
    home: Option<Spanned<u32>>,
    token_file: Spanned<String>,
    cache: Option<Spanned<String>>,
    final_s: Option<Spanned<u64>>,
    #[serde(default)]
    server: Vec<AddressToml>,
}

impl InstanceFile {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<InstanceFile, NodeError> {
        InstanceFile::of(&Document::open(path)?)
    }

    fn of(document: &Document) -> Result<InstanceFile, NodeError> {
        let file: InstanceToml = document.parse()?;
        let servers = servers(document, 0, &file.server)?;
        let last = servers.len() as u32 - 1;
        let home = file.home.as_ref().map(|home| document.number("home", home, 0, last)).transpose()?;
        Ok(InstanceFile {
            source: document.source().to_owned(),
            id: instance_id(document, &file.id)?,
            name: document.name("name", &file.name)?,
            servers,
            namespace: document.name("namespace", &file.namespace)?,
            home: home.unwrap_or(0),
            token_file: document.path("token_file", &file.token_file)?,
            cache: cache(document, file.cache.as_ref())?,
            final_wait: wait(document, "final_s", file.final_s.as_ref(), FINAL_DEFAULT)?,
        })
    }
}

fn cache(document: &Document, word: Option<&Spanned<String>>) -> Result<Cache, NodeError> {
    match word.map(|word| (word, word.get_ref().as_str())) {
        None => Ok(Cache::default()),
        Some((_, CACHE_NONE)) => Ok(Cache::None),
        Some((_, CACHE_CLOSE_TO_OPEN)) => Ok(Cache::CloseToOpen),
        Some((word, _)) => {
            let problem = format!("{CACHE_NONE:?} or {CACHE_CLOSE_TO_OPEN:?} is possible");
            Err(document.refuse("cache", word, problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "id = 17\nname = \"job4711\"\nnamespace = \"c1\"\nhome = 1\ntoken_file = \"/run/t\"\n\
        cache = \"none\"\nfinal_s = 10\n[[server]]\naddress = \"10.1.0.3:7070\"\nsocket = \"/run/s\"\n\
        [[server]]\naddress = \"10.1.0.4:7070\"\n";

    fn parse(text: &str) -> Result<InstanceFile, NodeError> {
        InstanceFile::of(&Document::of_text(Path::new("/i.toml"), text))
    }

    #[test]
    fn a_whole_file() {
        let file = parse(WHOLE).unwrap();
        assert_eq!((file.id, file.name.as_str(), file.cache), (InstanceId(17), "job4711", Cache::None));
        assert_eq!(file.servers[1].address.to_string(), "10.1.0.4:7070");
        assert_eq!(file.servers[0].socket.as_deref(), Some(Path::new("/run/s")));
        assert_eq!((file.home, file.final_wait), (1, Duration::from_secs(10)));
        assert_eq!(parse(&WHOLE.replace("cache = \"none\"\n", "")).unwrap().cache, Cache::None);
        assert_eq!(parse(&WHOLE.replace("none", "close-to-open")).unwrap().cache, Cache::CloseToOpen);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let cases = [
            ("name = \"job4711\"", "nam = \"x\"", "line 2, column 1"),
            ("name = \"job4711\"", "nam = \"x\"", "unknown field `nam`, expected one of `id`, `name`"),
            ("id = 17\n", "", "missing field `id`"),
            ("id = 17", "id = \"x\"", "line 1, column 6"),
            ("id = 17", "id = 0", "line 1: id = 0: 1 to 9223372036854775807"),
            ("job4711", "a/b", "line 2: name = a/b: 1 to 64 letters"),
            ("\"c1\"", "\"..\"", "line 3: namespace = ..: 1 to 64 letters"),
            ("home = 1", "home = 2", "line 4: home = 2: 0 to 1"),
            ("/run/t", "run/t", "line 5: token_file = run/t: an absolute path"),
            ("none", "writeback", "line 6: cache = writeback: \"none\" or \"close-to-open\" is possible"),
            ("final_s = 10", "final_s = 0", "line 7: final_s = 0: 1 to"),
            ("/run/s", "s", "line 10: socket = s: an absolute path"),
            ("10.1.0.4:7070", "10.1.0.4", "line 12: address = 10.1.0.4: a host and a port are needed"),
            ("10.1.0.4:7070", "10.1.0.4:0", "line 12: address = 10.1.0.4:0: a port that is known"),
            ("10.1.0.4:7070", "10.1.0.3:7070", "line 12: address = 10.1.0.3:7070: it is given twice"),
        ];
        for (from, to, wanted) in cases {
            let message = parse(&WHOLE.replace(from, to)).unwrap_err().to_string();
            assert!(message.contains(wanted) && message.contains("\"/i.toml\""), "{wanted}: {message}");
        }
        let none = parse(&WHOLE[..WHOLE.find("[[server]]").unwrap()]).unwrap_err().to_string();
        assert!(none.contains("server = 0 servers: 1 to 4096"), "{none}");
    }
}
