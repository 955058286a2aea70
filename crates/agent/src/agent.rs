//! The agent of this machine: makes, attaches, cleans and destroys instances.

use crate::attachment::Attachment;
use crate::capabilities::Capabilities;
use crate::description::InstanceDescription;
use crate::error::AgentError;
use crate::serving::Serving;
use crate::state_directory::{self, StateDirectory};
use crate::{clean, create, destroy};
use forebay_model::ids::InstanceId;
use std::path::{Path, PathBuf};

/// The agent. Cheap to make; holds no state but where things are. Any number of them, in any number of processes, may
/// work on the same directory.
#[derive(Clone, Debug)]
pub struct Agent {
    instances: PathBuf,
    capabilities: Capabilities,
    program: Option<PathBuf>,
}

impl Agent {
    /// An agent that keeps one directory per instance below `instances`.
    pub fn new(instances: PathBuf, capabilities: Capabilities) -> Agent {
        Agent { instances, capabilities, program: None }
    }

    /// The program started as instance process (`<program> instance-process --directory <dir>`), if it is not the
    /// running one.
    pub fn with_program(self, program: PathBuf) -> Agent {
        Agent { program: Some(program), ..self }
    }

    /// What this agent takes the machine to be capable of.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The instance's state directory.
    pub fn directory(&self, instance: InstanceId) -> PathBuf {
        self.state(instance).path().to_owned()
    }

    fn state(&self, instance: InstanceId) -> StateDirectory {
        StateDirectory::new(&self.instances, instance)
    }

    /// Makes the instance and its fragments; `wanted` overrides the choice of the serving way. Doing it again, also
    /// after a crash, completes what is missing and answers the way that was chosen the first time.
    pub fn create_instance(
        &self,
        description: &InstanceDescription,
        wanted: Option<Serving>,
    ) -> Result<Serving, AgentError> {
        create::create(&self.state(description.instance), description, &self.capabilities, wanted)
    }

    /// Attaches the instance: takes a lease on it, brings its fragments up, starts or joins the instance process.
    pub fn attach(&self, instance: InstanceId) -> Result<Attachment, AgentError> {
        Attachment::open(self.state(instance), self.program.as_deref())
    }

    /// Removes the instance with all its data. Refused while anybody is attached; no error if it does not exist.
    pub fn destroy_instance(&self, instance: InstanceId) -> Result<(), AgentError> {
        destroy::destroy(&self.state(instance))
    }

    /// Removes what a crash left of an instance nobody is attached to: dead mounts, loop devices, sockets, a left-over
    /// process. The data stays. Refused with [`AgentError::InUse`] while anybody is attached.
    pub fn clean_stale(&self, instance: InstanceId) -> Result<(), AgentError> {
        clean::clean(&self.state(instance))
    }

    /// All instances that have a state directory here, in the order of their ids.
    pub fn instances(&self) -> Result<Vec<InstanceId>, AgentError> {
        state_directory::instances(&self.instances)
    }

    /// The directory that holds one directory per instance.
    pub fn root(&self) -> &Path {
        &self.instances
    }
}
