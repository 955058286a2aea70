//! What the driver of the cluster's controller has to carry out.
//!
//! In this order: [`Effect::Store`] comes first and must be durable before anything after it is begun; a driver that
//! cannot store ends, and starts again from the registry. Everything else may be lost in a crash: lists are sent again
//! when an agent's heartbeat shows an old one, who waited for an answer asks again, observers read anew.

use super::refusal::Refusal;
use super::request::RequestId;
use super::row::{Change, FragmentStep, StageRow, TaskId};
use crate::request::{AccessRequest, WindowRequest};
use forebay_model::ids::*;
use forebay_model::layout::{DEFAULT_STRIPE_SIZE, DEFAULT_SUBSTRIPES};
use forebay_model::limits::InstancePolicies;
use forebay_model::objects::ConfigurationType;
use forebay_model::state::ObjectState;
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};

/// Something to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write these changes, all or none.
    Store(Vec<Change>),
    /// Send a node its list of orders.
    Hand(List),
    /// Ask an agent to register: it is not known, or was taken for lost.
    AskToRegister {
        /// Its node.
        node: String,
    },
    /// Answer a request.
    Answer {
        /// The request.
        request: RequestId,
        /// The answer.
        answer: Result<Answer, Refusal>,
    },
    /// Tell observers.
    Notice(Notice),
    /// Write to the log.
    Log {
        /// Uid of who asked; `None` for an agent.
        uid: Option<u32>,
        /// What was refused or went wrong, and why.
        text: String,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is so.
    Done,
    /// Size of the job's space.
    Size(Bytes),
    /// Variables of the job's environment.
    Paths(Vec<(String, String)>),
    /// It will be so; the id of what is made.
    Accepted {
        /// Which table.
        kind: ObjectKind,
        /// Its id there.
        id: u64,
    },
}

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectKind {
    /// A session.
    Session,
    /// An instance.
    Instance,
    /// A configuration.
    Configuration,
    /// A registration.
    Registration,
    /// An activation.
    Activation,
    /// A staging.
    Stage,
}

impl ObjectKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Session => "session",
            ObjectKind::Instance => "instance",
            ObjectKind::Configuration => "configuration",
            ObjectKind::Registration => "registration",
            ObjectKind::Activation => "activation",
            ObjectKind::Stage => "staging",
        }
    }
}

/// Something observers may want to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// A session is new, changed its state, or (`None`) is gone.
    Session {
        /// Id.
        id: SessionId,
        /// Token.
        token: String,
        /// Uid of the owner, the only user who may see this.
        owner: u32,
        /// State.
        state: Option<ObjectState>,
    },
    /// An agent is there or was lost.
    Node {
        /// Its node.
        node: String,
        /// It answers.
        online: bool,
    },
    /// A fragment came to another step.
    Fragment {
        /// Id.
        id: FragmentId,
        /// Its node.
        node: String,
        /// Its step.
        step: FragmentStep,
    },
}

/// Everything that one agent is to do at present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// The node.
    pub node: String,
    /// The registration of the agent that this is for.
    pub incarnation: u64,
    /// Orders the lists: a list with a smaller number is old.
    pub number: u64,
    /// The orders.
    pub orders: Vec<Order>,
}

/// One order to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Names it.
    pub task: TaskId,
    /// Break it off and report that it failed.
    pub cancel: bool,
    /// What is to be done.
    pub work: Work,
}

/// What an agent does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum Work {
    /// Make a fragment, if it is not there.
    MakeFragment {
        /// Its id.
        fragment: FragmentId,
        /// Its instance.
        instance: InstanceId,
        /// Its size.
        bytes: Bytes,
        /// Uid of the owner.
        owner: u32,
    },
    /// Run a fragment's file servers. When they run already with something else than this, they are told.
    Serve {
        /// The fragment.
        fragment: FragmentId,
        /// Its instance.
        instance: InstanceId,
        /// Size of the fragment.
        bytes: Bytes,
        /// Uid of the owner.
        owner: u32,
        /// Gid of the owner.
        group: u32,
        /// All fragments of the instance in their order, this one too.
        fragments: Vec<Part>,
        /// What the instance is used as.
        configurations: Vec<Use>,
        /// How much may be written to the fragment.
        write_window: Option<WindowRequest>,
        /// What happens at the limits.
        #[serde(default, skip_serializing_if = "InstancePolicies::are_usual")]
        policies: InstancePolicies,
    },
    /// Stop the servers of a fragment and remove it, if it is there.
    RemoveFragment {
        /// The fragment.
        fragment: FragmentId,
    },
    /// Mount.
    Mount {
        /// The activation.
        activation: ActivationId,
        /// Where.
        path: String,
        /// What.
        target: Target,
    },
    /// Unmount, if it is mounted, also when something still holds it.
    Unmount {
        /// The activation.
        activation: ActivationId,
    },
    /// Copy.
    Stage {
        /// What, and where to.
        stage: Box<StageRow>,
        /// As this user.
        uid: u32,
        /// With this group.
        gid: u32,
        /// The configuration that the instance's path is in.
        target: Target,
        /// The persistent instance that the script names it by; `None` is the job's own space.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        persistent: Option<String>,
        /// What else the lines of a list may name.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<Named>,
    },
}

/// A striped configuration that a script can name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Name of the persistent instance; `None` is the job's own space.
    pub persistent: Option<String>,
    /// How it is reached.
    pub target: Target,
}

/// How a configuration is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The configuration.
    pub configuration: ConfigurationId,
    /// Its instance.
    pub instance: InstanceId,
    /// Mode and limits.
    pub access: AccessRequest,
    /// The tree: the one of this client in private mode.
    pub namespace: NamespaceId,
    /// The fragment with the tree.
    pub metadata: FragmentId,
    /// All fragments in their order.
    pub fragments: Vec<Part>,
    /// How files are dealt.
    pub layout: FileLayout,
}

impl Target {
    /// The place of the fragment with the tree among all fragments.
    pub fn home(&self) -> Option<usize> {
        self.fragments.iter().position(|part| part.fragment == self.metadata)
    }
}

/// A fragment and how its file servers are reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The fragment.
    pub fragment: FragmentId,
    /// Its node.
    pub node: String,
    /// `host:port` of its file servers, as their agent said; `None` when it named none.
    pub address: Option<String>,
    /// Their Unix socket, for who is on the same machine.
    pub socket: Option<String>,
}

/// A configuration as a file server has to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// The configuration.
    pub configuration: ConfigurationId,
    /// Type.
    pub kind: ConfigurationType,
    /// Mode and limits.
    pub access: AccessRequest,
    /// Place of the fragment with the tree that all clients share; `None` in private mode, where trees are made when
    /// their clients come.
    pub home: Option<usize>,
    /// How files are dealt.
    pub layout: FileLayout,
}

/// How the files of a configuration are dealt, unless a file or directory says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLayout {
    /// Bytes of a stripe.
    pub stripe_bytes: Bytes,
    /// Files that the share of one server is dealt over.
    pub substripes: u32,
}

impl Default for FileLayout {
    fn default() -> FileLayout {
        FileLayout { stripe_bytes: Bytes(DEFAULT_STRIPE_SIZE), substripes: DEFAULT_SUBSTRIPES }
    }
}
