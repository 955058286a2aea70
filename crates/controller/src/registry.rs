//! The durable record of pools, sessions, instances, configurations, fragments, namespaces, registrations, activations,
//! stagings and jobs.
//!
//! The interface, method by method (`&self`; a `Registry` is `Send`, not `Sync`: one per thread, several processes at once are fine):
//!
//! ```text
//! Registry::open(path: &Path) -> Result<Registry, RegistryError>              // makes the file (0600), migrates
//! Registry::open_for_reading(path: &Path) -> Result<Option<Registry>, RegistryError>  // None: no file yet; makes nothing
//! offer(&self, pools: &[PoolOffer]) -> Result<OfferOutcome, OfferError>       // the whole configuration at once
//! setup_job(&self, request: &JobRequest, now: i64) -> Result<Job, SetupError> // one transaction, everything C--T-
//! record(&self, session, state: &JobState) -> Result<(), RegistryError>       // phase, keep, script end, failure; checked
//! record_script_group(&self, session, group: Option<ProcessId>) -> Result<(), RegistryError>
//! record_stage(&self, stage: StageId, result: &StageResult) -> Result<(), RegistryError>
//! take_over(&self, session, from: ProcessId, to: ProcessId) -> Result<Job, RegistryError>  // compare and swap; NotOwner
//! instance_made(&self, instance) / instance_unmaking(&self, instance) -> Result<(), RegistryError>  // CA--- / DA-T- with all its parts
//! set_state(&self, object: ObjectRef, state: ObjectState) -> Result<(), RegistryError>
//! activate(&self, session, configuration, mount: &Path) -> Result<ActivationId, RegistryError>      // idempotent
//! deactivate(&self, session, configuration) -> Result<(), RegistryError>                            // idempotent
//! finish_teardown(&self, session) -> Result<(), RegistryError>    // removes all rows of a job in Teardown, idempotent
//! create_persistent(&self, request: &PersistentRequest, now: i64) -> Result<InstanceRecord, SetupError>
//! persistent(&self, name: &str) -> Result<Option<InstanceRecord>, RegistryError>
//! persistents(&self) -> Result<Vec<InstanceRecord>, RegistryError>
//! begin_destroy_persistent(&self, name: &str, hurry: bool, owner: ProcessId) -> Result<InstanceRecord, SetupError>
//! finish_destroy(&self, instance) -> Result<(), RegistryError>    // removes all rows, idempotent
//! jobs(&self) -> Result<Vec<Job>, RegistryError>; job(&self, token: &str) -> Result<Option<Job>, RegistryError>
//! orphans(&self, alive: &dyn Fn(ProcessId) -> bool) -> Result<Orphans { jobs: Vec<Job>, persistents: Vec<InstanceRecord> }, RegistryError>
//! instances(&self) -> Result<Vec<InstanceRecord>, RegistryError>  // all, for comparison with what lies on disk
//! snapshot(&self) -> Result<Snapshot { pools, nodes, sessions, .. }, RegistryError>   // one read transaction
//! ```
