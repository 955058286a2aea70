//! `dwcli` as a process: asks the controller, prints the answer.
//!
//! Status 0; 1 when the controller refused or cannot be reached; 2 for a wrong command line. Of several objects each is
//! asked for, and the first refusal ends it: what was accepted before is printed.

use super::answers::{accepted, stage_accepted, table};
use super::args::*;
use super::backup::{Backup, BackupError};
use super::requests::{self, Person, RequestError};
use super::stage_table;
use crate::dwstat::object::Object;
use crate::{say, user};
use clap::Parser;
use forebay_controller::client::{Address, AddressError, Client, ClientError};
use forebay_controller::cluster::row::{StageOutcome, StageRow};
use forebay_controller::cluster::view::Shown;
use forebay_controller::cluster::{Answer, Request};
use forebay_controller::registry::Snapshot;
use forebay_controller::request::StageDirection;
use std::ffi::OsString;
use std::io::{self, Read};
use std::process::ExitCode;

/// The controller refused, or something else went wrong.
const EXIT_FAILURE: u8 = 1;
/// The command line is wrong, as clap says it too.
const EXIT_USAGE: u8 = 2;
/// Largest backup that is read.
const BACKUP_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
enum DwcliError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error("cannot read the backup on standard input: {0}")]
    Input(io::Error),
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    #[error("uid {0} is not known on this machine, so its group is not either: name an owner that is")]
    UnknownOwner(u32),
    #[error("there is no {kind} {id}: dwcli ls {kind}s lists what there is")]
    Unknown { kind: &'static str, id: u64 },
    #[error("nothing of configuration {configuration} of session {session} is being staged")]
    NothingStaged { session: u64, configuration: u64 },
}

/// Runs the command with all words of its command line.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = Arguments::parse_from(words);
    match Address::configured().map_err(DwcliError::from).and_then(|address| {
        let client = Client::open(address);
        Dwcli { client }.carry_out(&arguments.verb)
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::plain(format_args!("dwcli: {error}\n"));
            ExitCode::from(if matches!(error, DwcliError::Request(_)) { EXIT_USAGE } else { EXIT_FAILURE })
        }
    }
}

struct Dwcli {
    client: Client,
}

impl Dwcli {
    fn carry_out(&self, verb: &Verb) -> Result<(), DwcliError> {
        match verb {
            Verb::Ls { object } => {
                let tables: Vec<Shown> = Shown::named(object.name()).into_iter().collect();
                print(&listed(&self.client.look(&tables)?, *object))
            }
            Verb::Create(what) => self.create(what),
            Verb::Update(what) => {
                let objects = match what {
                    Update::Node { .. } => "nodes",
                    Update::Instance { .. } => "instances",
                    Update::Configuration { .. } => "configurations",
                    Update::Registration { .. } => "registrations",
                };
                self.each("update", objects, requests::update(what)?)
            }
            Verb::Rm(what) => {
                let objects = match what {
                    Remove::Session { .. } => "sessions",
                    Remove::Activation { .. } => "activations",
                    Remove::Registration { .. } => "registrations",
                    Remove::Node { .. } => "nodes",
                };
                self.each("remove", objects, requests::remove(what))
            }
            Verb::Retry(Retry::Session { id }) => {
                let request = |id: &u64| Request::Retry { session: forebay_model::ids::SessionId(*id) };
                self.each("retry", "sessions", id.iter().map(|id| (id.to_string(), request(id))).collect())
            }
            Verb::Stage(what) => self.stage(what),
            Verb::Config(Config::Backup) => print(&Backup::of(&self.client.snapshot()?).to_text()?),
            Verb::Config(Config::Restore) => self.restore(),
        }
    }

    fn create(&self, what: &Create) -> Result<(), DwcliError> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut unknown = None;
        let group_of = |owner| {
            user::primary_group(owner).unwrap_or_else(|| {
                unknown = Some(owner);
                gid
            })
        };
        let request = requests::create(what, Person { uid, gid }, group_of)?;
        if let Some(owner) = unknown {
            return Err(DwcliError::UnknownOwner(owner));
        }
        for remark in remarks(what) {
            say::plain(format_args!("dwcli: note: {remark}\n"));
        }
        let answer = self.client.ask(&request)?;
        print(&match (answer, what) {
            (Answer::Accepted { kind, id }, _) => accepted("create", table(kind), &id.to_string()),
            (_, Create::Pool { name, .. }) => accepted("create", "pools", name),
            (_, Create::Session { token, .. }) => accepted("create", "sessions", token),
            (_, Create::Instance(instance)) => accepted("create", "instances", &instance.label),
            (_, Create::Configuration(_)) => accepted("create", "configurations", "-"),
            (_, Create::Activation { .. }) => accepted("create", "activations", "-"),
        })
    }

    /// Asks for one after the other.
    fn each(&self, verb: &str, objects: &str, requests: Vec<(String, Request)>) -> Result<(), DwcliError> {
        for (id, request) in requests {
            self.client.ask(&request)?;
            print(&accepted(verb, objects, &id))?;
        }
        Ok(())
    }

    fn stage(&self, what: &Stage) -> Result<(), DwcliError> {
        let (verb, direction, paths) = match what {
            Stage::In(paths) => ("in", StageDirection::In, paths),
            Stage::Out(paths) => ("out", StageDirection::Out, paths),
            Stage::Query(of) => return self.query(*of),
            Stage::Terminate(of) => return self.terminate(*of),
        };
        let answer = self.client.ask(&requests::stage(direction, paths)?)?;
        let id = if let Answer::Accepted { id, .. } = answer { id } else { 0 };
        print(&stage_accepted(verb, id, paths.of.session, paths.of.configuration))
    }

    fn query(&self, of: StageOf) -> Result<(), DwcliError> {
        let stages = self.client.stages()?;
        let stages = of_configuration(&stages, of);
        if stages.is_empty() {
            self.look_for(of)?;
        }
        print(&stage_table::render(&stages))
    }

    /// That the session and the configuration are there, and shown to the caller. Of a persistent instance of somebody else it is
    /// the registration that is shown.
    fn look_for(&self, of: StageOf) -> Result<(), DwcliError> {
        let seen = self.client.look(&[Shown::Sessions, Shown::Configurations, Shown::Registrations])?;
        let StageOf { session, configuration } = of;
        if !seen.sessions.iter().any(|row| row.id.0 == session) {
            return Err(DwcliError::Unknown { kind: "session", id: session });
        }
        let registered = seen.registrations.iter().any(|row| row.configuration.0 == configuration);
        if !registered && !seen.configurations.iter().any(|row| row.id.0 == configuration) {
            return Err(DwcliError::Unknown { kind: "configuration", id: configuration });
        }
        Ok(())
    }

    fn terminate(&self, of: StageOf) -> Result<(), DwcliError> {
        let stages = self.client.stages()?;
        let mut pending = of_configuration(&stages, of);
        pending.retain(|stage| stage.outcome == StageOutcome::Pending && stage.wanted);
        if pending.is_empty() {
            self.look_for(of)?;
            let StageOf { session, configuration } = of;
            return Err(DwcliError::NothingStaged { session, configuration });
        }
        for stage in pending {
            self.client.ask(&Request::StageTerminate { stage: stage.id })?;
            print(&stage_accepted("terminate", stage.id.0, of.session, of.configuration))?;
        }
        Ok(())
    }

    fn restore(&self) -> Result<(), DwcliError> {
        let mut text = String::new();
        io::stdin().take(BACKUP_BYTES_MAX).read_to_string(&mut text).map_err(DwcliError::Input)?;
        let requests = Backup::from_text(&text)?.requests(&self.client.snapshot()?)?;
        let count = requests.len();
        for request in requests {
            self.client.ask(&request)?;
        }
        print(&format!("restored: {count} changes\n"))
    }
}

fn of_configuration(stages: &[StageRow], of: StageOf) -> Vec<&StageRow> {
    let is_of =
        |stage: &&StageRow| stage.session.0 == of.session && stage.configuration.0 == of.configuration;
    stages.iter().filter(is_of).collect()
}

fn print(text: &str) -> Result<(), DwcliError> {
    say::answer(text).map_err(DwcliError::Output)
}

/// Options that are accepted because scripts give them, and do nothing.
fn remarks(what: &Create) -> Vec<&'static str> {
    let Create::Configuration(configuration) = what else { return Vec::new() };
    let mut remarks = Vec::new();
    if configuration.root_permissions.is_some() {
        remarks.push("--root-permissions: the root directory is its owner's, use chmod where it is mounted");
    }
    if configuration.group.is_some() {
        remarks.push("--group: the root directory has its owner's group, use chgrp where it is mounted");
    }
    remarks
}

/// Names of pools and nodes, ids of all others.
fn listed(snapshot: &Snapshot, object: Object) -> String {
    fn lines<T>(rows: &[T], name: impl Fn(&T) -> String) -> String {
        rows.iter().map(|row| name(row) + "\n").collect()
    }
    match object {
        Object::Pools => lines(&snapshot.pools, |row| row.name.clone()),
        Object::Nodes => lines(&snapshot.nodes, |row| row.name.clone()),
        Object::Sessions => lines(&snapshot.sessions, |row| row.id.to_string()),
        Object::Instances => lines(&snapshot.instances, |row| row.id.to_string()),
        Object::Configurations => lines(&snapshot.configurations, |row| row.id.to_string()),
        Object::Registrations => lines(&snapshot.registrations, |row| row.id.to_string()),
        Object::Activations => lines(&snapshot.activations, |row| row.id.to_string()),
        Object::Fragments => lines(&snapshot.fragments, |row| row.id.to_string()),
        Object::Namespaces => lines(&snapshot.namespaces, |row| row.id.to_string()),
    }
}
