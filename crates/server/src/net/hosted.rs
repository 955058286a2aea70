//! What a server serves: namespaces of instances, by name.

use super::home::Home;
use super::recovery::SessionsError;
use super::shares::ServedData;
use crate::node::Tree;
use forebay_wire::DataService;
use forebay_wire::proof::Secret;
use forebay_wire::ticket::TicketKey;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// The secrets of an instance.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Known to the instance's clients.
    pub token: Secret,
    /// Known to its servers only.
    pub seal: Secret,
}

/// The metadata of a namespace, where it is at home.
#[derive(Clone)]
pub struct HostedTree {
    /// Names and attributes.
    pub metadata: Arc<Tree>,
    /// The data services of all servers of the instance, in order.
    pub data: Vec<Arc<dyn DataService>>,
    /// Most files that may be created; none: no limit.
    pub max_files: Option<u64>,
    /// Where the list of sessions is kept; none: clients are not awaited after a start.
    pub sessions: Option<PathBuf>,
}

/// A namespace that is to be served.
#[derive(Clone)]
pub struct HostedNamespace {
    /// Its name.
    pub name: String,
    /// Content on this server.
    pub data: Arc<ServedData>,
    /// Names and attributes, if they are here.
    pub tree: Option<HostedTree>,
    /// Longest file in bytes.
    pub max_file_size: u64,
    /// Which of the instance's servers this one is.
    pub position: u32,
    /// How many there are.
    pub servers: u32,
    /// Clients on this machine may be given descriptors to write with.
    pub direct_writes: bool,
}

/// Why a namespace cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// It is served already.
    #[error("{instance}/{namespace} is served already")]
    AlreadyServed {
        /// The instance.
        instance: String,
        /// The namespace.
        namespace: String,
    },
    /// The sessions of before are not known.
    #[error(transparent)]
    Sessions(#[from] SessionsError),
}

/// A namespace that is served.
pub(crate) struct Hosted {
    pub(crate) secrets: Secrets,
    pub(crate) tickets: TicketKey,
    pub(crate) namespace: HostedNamespace,
    pub(crate) home: Option<Arc<Home>>,
}

/// By instance and namespace.
#[derive(Default)]
pub(crate) struct Register {
    served: RwLock<BTreeMap<(String, String), Arc<Hosted>>>,
}

/// What was asked for is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Instance,
    Namespace,
}

impl Register {
    pub(crate) fn add(&self, instance: &str, hosted: Hosted) -> Result<(), HostError> {
        let namespace = hosted.namespace.name.clone();
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        let key = (instance.to_owned(), namespace);
        if served.contains_key(&key) {
            let (instance, namespace) = key;
            return Err(HostError::AlreadyServed { instance, namespace });
        }
        served.insert(key, Arc::new(hosted));
        Ok(())
    }

    pub(crate) fn get(&self, instance: &str, namespace: &str) -> Result<Arc<Hosted>, Unknown> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        match served.get(&(instance.to_owned(), namespace.to_owned())) {
            Some(hosted) => Ok(hosted.clone()),
            None if served.keys().any(|(served, _)| served == instance) => Err(Unknown::Namespace),
            None => Err(Unknown::Instance),
        }
    }

    /// Takes an instance out.
    pub(crate) fn remove(&self, instance: &str) -> Vec<Arc<Hosted>> {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        served.extract_if(.., |(name, _), _| name == instance).map(|(_, hosted)| hosted).collect()
    }

    /// The namespaces of an instance.
    pub(crate) fn of(&self, instance: &str) -> Vec<Arc<Hosted>> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        served.iter().filter(|((name, _), _)| name == instance).map(|(_, hosted)| hosted.clone()).collect()
    }

    /// Takes all out.
    pub(crate) fn clear(&self) -> Vec<Arc<Hosted>> {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *served).into_values().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hosted>> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
