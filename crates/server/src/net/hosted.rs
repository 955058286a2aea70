//! What a server serves: namespaces of instances, by name, and those that are made when somebody names them.

use super::home::{Home, Terms};
use super::recovery::SessionsError;
use super::shares::ServedData;
use crate::node::Tree;
use forebay_wire::DataService;
use forebay_wire::proof::Secret;
use forebay_wire::ticket::TicketKey;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

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
    /// Namespaces of the instance are made on demand already.
    #[error("namespaces of {instance} are offered already")]
    AlreadyOffered {
        /// The instance.
        instance: String,
    },
}

/// Makes a namespace that somebody named who knows the instance's secret, or finds it on the disk; `None`: it is none of
/// those that are made so. Called for one namespace of an instance at a time, and not for one that is served.
pub type Maker = dyn Fn(&str) -> Option<Result<HostedNamespace, String>> + Send + Sync;

/// Namespaces of an instance that are made when somebody names them.
pub(crate) struct Offer {
    pub(crate) secrets: Secrets,
    make: Box<Maker>,
    /// Held while one is made; `true`: the instance is not served any more.
    is_over: Mutex<bool>,
}

/// A namespace that is served.
pub(crate) struct Hosted {
    pub(crate) secrets: Secrets,
    pub(crate) tickets: TicketKey,
    pub(crate) namespace: HostedNamespace,
    pub(crate) home: Option<Arc<Home>>,
}

impl Hosted {
    pub(crate) fn open(
        secrets: Secrets,
        namespace: HostedNamespace,
        terms: Terms,
    ) -> Result<Hosted, SessionsError> {
        let tickets = TicketKey::new(&secrets.seal, &namespace.name);
        let home = match &namespace.tree {
            Some(tree) => Some(Arc::new(Home::open(tree.clone(), tickets.clone(), terms)?)),
            None => None,
        };
        Ok(Hosted { secrets, tickets, namespace, home })
    }
}

/// What a stranger asked for.
pub(crate) enum Found {
    Served(Arc<Hosted>),
    /// Its instance makes namespaces; whether this one is to be seen.
    Offered(Arc<Offer>),
}

impl Found {
    pub(crate) fn secrets(&self) -> &Secrets {
        match self {
            Found::Served(hosted) => &hosted.secrets,
            Found::Offered(offer) => &offer.secrets,
        }
    }
}

/// Why a namespace was not made.
#[derive(Debug)]
pub(crate) enum NotMade {
    /// It is none that is made so.
    Unknown,
    /// The instance is not served any more.
    Over,
    /// It could not be made.
    Failed(String),
}

/// By instance and namespace.
#[derive(Default)]
pub(crate) struct Register {
    /// Instances of which not all is there yet.
    awaited: RwLock<BTreeSet<String>>,
    served: RwLock<BTreeMap<(String, String), Arc<Hosted>>>,
    offers: RwLock<BTreeMap<String, Arc<Offer>>>,
}

/// What was asked for is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Instance,
    Namespace,
    /// It may come.
    Awaited,
}

impl Register {
    pub(crate) fn awaiting(instances: &[String]) -> Register {
        Register { awaited: RwLock::new(instances.iter().cloned().collect()), ..Register::default() }
    }

    pub(crate) fn awaits(&self, instance: &str) {
        self.awaited.write().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned());
    }

    pub(crate) fn is_complete(&self, instance: &str) {
        self.awaited.write().unwrap_or_else(PoisonError::into_inner).remove(instance);
    }

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

    /// Namespaces of an instance are made from now on when somebody names them.
    pub(crate) fn offer(&self, instance: &str, secrets: Secrets, make: Box<Maker>) -> Result<(), HostError> {
        let mut offers = self.offers.write().unwrap_or_else(PoisonError::into_inner);
        if offers.contains_key(instance) {
            return Err(HostError::AlreadyOffered { instance: instance.to_owned() });
        }
        let offer = Offer { secrets, make, is_over: Mutex::new(false) };
        offers.insert(instance.to_owned(), Arc::new(offer));
        Ok(())
    }

    pub(crate) fn get(&self, instance: &str, namespace: &str) -> Result<Found, Unknown> {
        // Looked at first: what comes meanwhile is found below.
        let is_awaited = self.awaited.read().unwrap_or_else(PoisonError::into_inner).contains(instance);
        if let Some(hosted) = self.served(instance, namespace) {
            return Ok(Found::Served(hosted));
        }
        let offers = self.offers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(offer) = offers.get(instance) {
            return Ok(Found::Offered(offer.clone()));
        }
        if is_awaited {
            return Err(Unknown::Awaited);
        }
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let is_known = served.keys().any(|(served, _)| served == instance);
        Err(if is_known { Unknown::Namespace } else { Unknown::Instance })
    }

    fn served(&self, instance: &str, namespace: &str) -> Option<Arc<Hosted>> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        served.get(&(instance.to_owned(), namespace.to_owned())).cloned()
    }

    /// The namespace that was asked for, made if nobody was faster. Only for who has proved that he knows the secret.
    pub(crate) fn make(
        &self,
        offer: &Offer,
        instance: &str,
        namespace: &str,
        terms: Terms,
    ) -> Result<Arc<Hosted>, NotMade> {
        let is_over = offer.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            return Err(NotMade::Over);
        }
        if let Some(hosted) = self.served(instance, namespace) {
            return Ok(hosted);
        }
        let made = (offer.make)(namespace).ok_or(NotMade::Unknown)?.map_err(NotMade::Failed)?;
        let failed = |error: HostError| NotMade::Failed(error.to_string());
        let hosted =
            Hosted::open(offer.secrets.clone(), made, terms).map_err(|error| failed(error.into()))?;
        self.add(instance, hosted).map_err(failed)?;
        self.served(instance, namespace).ok_or(NotMade::Over)
    }

    /// Takes an instance out. What is being made of it is waited for.
    pub(crate) fn remove(&self, instance: &str) -> Vec<Arc<Hosted>> {
        let offer = self.offers.write().unwrap_or_else(PoisonError::into_inner).remove(instance);
        if let Some(offer) = offer {
            *offer.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
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
        let offers = std::mem::take(&mut *self.offers.write().unwrap_or_else(PoisonError::into_inner));
        for offer in offers.values() {
            *offer.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *served).into_values().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hosted>> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
