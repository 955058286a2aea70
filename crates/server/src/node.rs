//! One fragment of an instance whose fragments are on several machines, opened by the process that serves it.
//!
//! ```text
//! NodeInstance ─┬─ data(namespace): the shares of its files that are on this fragment
//!               └─ tree(namespace): its names, if this fragment is its home
//! ```
//!
//! The data services of the other fragments are given to a tree from above. Opening a tree calls none of them: it can be
//! served while they are still away.
//!
//! Order of events at open: as in [`crate::local`], for this fragment alone. If it was not closed cleanly, or the machine
//! was started anew, the names and data on it are walked ([`crate::recover`]); what the other fragments hold is looked
//! at through their services, file by file as they are used, and at once by [`Tree::sweep`]. A crash at any point means that the
//! next open walks.
//!
//! Any thread may call.

use crate::data::LocalData;
use crate::descriptors::DataDescriptors;
use crate::fragment::{Fragment, identity, state};
use crate::home::Home;
use crate::ids::{FileIds, Loss};
use crate::local::{FragmentSpec, NamespaceSpec, check_namespace_name, open_fragment, open_namespace};
use crate::recover;
use forebay_model::layout::SERVERS_MAX;
use forebay_model::limits::WriteWindow;
use forebay_wire::{DataService, FsError, Result, Sharing};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

pub use crate::data::LocalData as NodeData;
pub use crate::local::SpaceRule;
pub use crate::metadata::{Claim, OpenFile, Tree};

/// How long those who still have an instance that closes are waited for, and the pause between two looks at them.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
const CLOSE_PAUSE: Duration = Duration::from_millis(2);

/// Longest word for an instance, in bytes.
const INSTANCE_MAX: usize = 64;

/// Which fragment of an instance to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Directory that holds it.
    pub root: PathBuf,
    /// Which instance it is a part of, the same word for all of its fragments: hexadecimal digits. A fragment of another
    /// instance is refused.
    pub instance: String,
    /// How its capacity is kept.
    pub space: SpaceRule,
    /// Its position among the fragments of the instance.
    pub position: u32,
    /// How many fragments the instance has.
    pub servers: u32,
}

/// See the module.
pub struct NodeInstance {
    fragment: Arc<Fragment>,
    home: Arc<Home>,
    descriptors: Arc<DataDescriptors>,
    servers: u32,
    data: Mutex<HashMap<String, Weak<LocalData>>>,
}

impl NodeInstance {
    /// Opens the fragment, and makes the structure on disk where it is absent. `Busy` when another process has it open.
    pub fn open(spec: &NodeSpec) -> Result<Arc<NodeInstance>> {
        let is_digit = |c: char| c.is_ascii_hexdigit();
        if spec.instance.is_empty()
            || spec.instance.len() > INSTANCE_MAX
            || !spec.instance.chars().all(is_digit)
        {
            return Err(FsError::InvalidArgument);
        }
        if spec.servers == 0 || spec.servers > SERVERS_MAX || spec.position >= spec.servers {
            return Err(FsError::InvalidArgument);
        }
        let fragment = open_fragment(&FragmentSpec { root: spec.root.clone(), space: spec.space })?;
        identity::check_or_write_one(&fragment, &spec.instance, spec.position, spec.servers)?;
        let (state, next_file) = state::read(std::slice::from_ref(&fragment))?;
        let (state, walked) = match state {
            Some(state) => (state, BTreeMap::new()),
            None => {
                let extent = recover::Extent::OwnFragment(spec.position);
                let walked = recover::walk(std::slice::from_ref(&fragment), extent, next_file)?;
                (walked.state, walked.stubs)
            }
        };
        fragment.meter.start_at(state.used.first().copied().unwrap_or(0));
        let ids = FileIds::start(&fragment, state.next_file, Loss::Hidden)?;
        let fragment = Arc::new(fragment);
        let moved = state.moved();
        let counters = (state.created, moved);
        let home = Home::new(fragment.clone(), spec.position, ids, counters, walked);
        Ok(Arc::new(NodeInstance {
            fragment,
            home: Arc::new(home),
            descriptors: DataDescriptors::of_process(),
            servers: spec.servers,
            data: Mutex::default(),
        }))
    }

    /// What is written to the fragment is held against a window from now on. To be called before any namespace is opened.
    pub fn limit_writes(&self, rule: WriteWindow) -> Result<()> {
        self.fragment.limit_writes(rule, None)
    }

    /// The data of a namespace on this fragment; the directory is made when absent. All who ask get the same service while
    /// somebody holds it.
    pub fn data(&self, namespace: &str) -> Result<Arc<NodeData>> {
        check_namespace_name(namespace)?;
        let mut open = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(data) = open.get(namespace).and_then(Weak::upgrade) {
            return Ok(data);
        }
        let directory = open_namespace(&self.fragment, namespace)?;
        let data = LocalData::open(self.fragment.clone(), &directory, self.descriptors.clone())?;
        open.insert(namespace.to_owned(), Arc::downgrade(&data));
        Ok(data)
    }

    /// The names of a namespace whose home this fragment is, made when absent; `data` are the data services of all
    /// fragments, in order, with this fragment's own at its position. One namespace may be open only once at a time.
    pub fn tree(&self, spec: &NamespaceSpec, data: Vec<Arc<dyn DataService>>) -> Result<Arc<Tree>> {
        check_namespace_name(&spec.name)?;
        if data.len() != self.servers as usize {
            return Err(FsError::InvalidArgument);
        }
        Tree::open(self.home.clone(), Sharing::Shared, data, spec)
    }

    /// Closes the fragment and records its counters, so that the next open need not walk. `Busy` while a tree or a data
    /// service of it is still in use; the fragment stays open by those, and the next open walks. Whoever is about to let go
    /// of it is waited for: a thread that looked at it a moment ago may not have run since.
    pub fn close(self: Arc<NodeInstance>) -> Result<()> {
        let end = Instant::now() + CLOSE_WAIT;
        while self.is_in_use() && Instant::now() < end {
            std::thread::sleep(CLOSE_PAUSE);
        }
        let node = Arc::try_unwrap(self).map_err(|_| FsError::Busy)?;
        let open = node.data.into_inner().unwrap_or_else(PoisonError::into_inner);
        if open.values().any(|data| data.strong_count() > 0) {
            return Err(FsError::Busy);
        }
        node.fragment.traffic.save(&node.fragment.root);
        node.home.close(vec![node.fragment.meter.used()])
    }

    /// Somebody else has it, or a service of it.
    fn is_in_use(self: &Arc<NodeInstance>) -> bool {
        let open = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = open.values().any(|data| data.strong_count() > 0);
        is_held || Arc::strong_count(self) > 1 || Arc::strong_count(&self.home) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn spec(root: PathBuf) -> NodeSpec {
        NodeSpec { root, instance: "17".into(), space: SpaceRule::Hard, position: 0, servers: 1 }
    }

    #[test]
    fn who_is_about_to_let_go_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let node = NodeInstance::open(&spec(directory.path().to_owned())).unwrap();
        let data = node.data("c1").unwrap();
        let (closing, begins) = channel();
        let holder = std::thread::spawn(move || {
            begins.recv().unwrap();
            // A thread that was not given a processor for a while.
            std::thread::sleep(CLOSE_PAUSE * 20);
            drop(data);
        });
        closing.send(()).unwrap();
        assert_eq!(node.close(), Ok(()));
        holder.join().unwrap();
        NodeInstance::open(&spec(directory.path().to_owned())).unwrap().close().unwrap();
    }

    #[test]
    fn who_keeps_it_lets_the_next_open_walk() {
        let directory = tempfile::tempdir().unwrap();
        let node = NodeInstance::open(&spec(directory.path().to_owned())).unwrap();
        let data = node.data("c1").unwrap();
        assert_eq!(node.close(), Err(FsError::Busy));
        drop(data);
    }
}
