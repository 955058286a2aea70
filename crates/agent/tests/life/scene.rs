//! A place for one test: an agent with directories of its own, which leaves nothing behind however the test ends.

use crate::{leaks, roles};
use forebay_agent::{
    Agent, Attachment, Capabilities, ConfigurationDescription, FragmentDescription, InstanceDescription,
    Serving,
};
use forebay_model::ids::{ConfigurationId, FragmentId, InstanceId};
use forebay_model::objects::AccessMode;
use forebay_model::units::{Bytes, MIB};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long processes may take to end whose end is known.
const END_LIMIT: Duration = Duration::from_secs(5);
/// The instance of every scene.
pub const INSTANCE: InstanceId = InstanceId(42);
/// Its first configuration.
pub const CONFIGURATION: ConfigurationId = ConfigurationId(7);

/// See the module.
pub struct Scene {
    root: PathBuf,
    /// Some roles only visit a scene that a test has made.
    owned: bool,
}

impl Scene {
    /// A new, empty place.
    pub fn new() -> Scene {
        let root =
            tempfile::Builder::new().prefix("agent-life-").tempdir().unwrap().keep().canonicalize().unwrap();
        // Ordinary users have to get to their own part of it.
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
        Scene { root, owned: true }
    }

    /// The same place, from another process.
    pub fn visit(root: &Path) -> Scene {
        Scene { root: root.to_owned(), owned: false }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// An agent as the machine allows it.
    pub fn agent(&self) -> Agent {
        self.agent_with(Capabilities::detect())
    }

    pub fn agent_with(&self, capabilities: Capabilities) -> Agent {
        Agent::new(self.path("instances"), capabilities).with_program(roles::instance_program(&self.root))
    }

    /// An instance of `fragments` fragments of `capacity` each.
    pub fn description(&self, fragments: u64, capacity: u64) -> InstanceDescription {
        let fragment = |number| FragmentDescription {
            id: FragmentId(100 + number),
            node: format!("node{number}"),
            directory: self.path(&format!("pool{number}/fragment")),
            capacity: Bytes(capacity),
        };
        InstanceDescription {
            instance: INSTANCE,
            label: "I42-0".into(),
            fragments: (0..fragments).map(fragment).collect(),
            configurations: vec![ConfigurationDescription {
                id: CONFIGURATION,
                access_mode: AccessMode::Striped,
                max_file_size: None,
                max_files: None,
                mount: self.path("mounts/striped"),
            }],
            stripe_size: Bytes(MIB),
            substripes: if fragments == 1 { 1 } else { 2 },
            write_window: None,
            policies: Default::default(),
        }
    }

    /// Makes the instance and attaches it.
    pub fn attached(&self, fragments: u64, capacity: u64, wanted: Option<Serving>) -> (Agent, Attachment) {
        let agent = self.agent();
        agent.create_instance(&self.description(fragments, capacity), wanted).unwrap();
        let attachment = agent.attach(INSTANCE).unwrap();
        (agent, attachment)
    }

    /// Nothing of the scene is mounted, looped or running.
    pub fn assert_nothing_lives(&self) {
        // A process gives back what it holds, by which its end is known, a moment before it ends.
        let begin = Instant::now();
        while !leaks::of(&self.root).is_empty() && begin.elapsed() < END_LIMIT {
            std::thread::yield_now();
        }
        assert_eq!(leaks::of(&self.root), Vec::<String>::new());
    }

    /// That, and no file of an instance is left.
    pub fn assert_nothing_is_left(&self) {
        self.assert_nothing_lives();
        let agent = self.agent();
        assert_eq!(agent.instances().unwrap(), []);
        for entry in leaks::files(&self.root) {
            let allowed = ["instances", "mounts", "role.sh"].iter().any(|name| entry == self.path(name))
                || entry.parent() == Some(&self.root)
                    && entry.file_name().unwrap().to_str().unwrap().starts_with("pool")
                || entry.starts_with(self.path("pfs"));
            assert!(allowed, "{entry:?} is left");
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        leaks::end_all(&self.root);
        if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("{:?} could not be removed: {error}", self.root);
        }
    }
}
