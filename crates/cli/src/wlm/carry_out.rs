//! One call, asked of the controller.
//!
//! How long each verb waits while the controller is away follows from what Slurm does meanwhile. `job_process` and `paths`
//! hold up all of Slurm and are killed after 5 s: the first needs no controller, the second gives up early. What shows the
//! state fails quickly, so that Slurm keeps what it knows instead of taking everything for gone. What changes something
//! waits almost as long as Slurm lets it: a controller that is started again finds the caller still there.

use super::call::{self, Call, CallError};
use super::hosts::NodeFileError;
use super::job::{self, JobError};
use super::json;
use super::paths_file::{self, PathsFileError};
use super::persistent::{self, PersistentError};
use super::script::{JobScript, ScriptError};
use crate::dwstat::object::Object;
use crate::user;
use forebay_controller::client::{Address, AddressError, Client, ClientError};
use forebay_controller::cluster::view::Shown;
use forebay_controller::cluster::{Answer, Request};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// Patience of `paths` and of what shows the state.
const PROMPT_PATIENCE: Duration = Duration::from_secs(2);
/// Longest that `paths` takes in all. Slurm kills it after 5 s, with nothing to tell, and does nothing else until then.
const PATHS_LIMIT: Duration = Duration::from_secs(3);
/// Longest that showing the state takes. After a `create_persistent` slurmctld does nothing else meanwhile.
const SHOW_LIMIT: Duration = Duration::from_secs(10);
/// Patience of what changes something; Slurm gives it 300 s (`OtherTimeout`).
const PATIENCE: Duration = Duration::from_secs(240);
/// Patience of stagings; Slurm gives them a day.
const STAGE_PATIENCE: Duration = Duration::from_secs(23 * 3600);
/// Group of a persistent instance whose owner is not known on this machine: one that nobody is in.
const NO_GROUP: u32 = 65_534;
/// The controller's word for an unknown token.
const NO_TOKEN: &str = "no_token";

/// The text of `--help`.
pub const USAGE: &str = "\
usage: dw_wlm_cli --function VERB [options]

Called by the workload manager for every step of a job with a burst buffer.

  pools, show_instances, show_sessions, show_configurations
  job_process        --job SCRIPT
  setup              --token JOB --caller WHO --user UID --groupid GID --capacity POOL:SIZE --job SCRIPT
  data_in            --token JOB
  real_size          --token JOB
  paths              --token JOB --pathfile FILE
  pre_run            --token JOB --nodehostnamefile FILE | --nidlistfile FILE [--jobexecutionnodefile FILE]
  post_run           --token JOB
  data_out           --token JOB
  teardown           --token JOB|NAME [--hurry]
  create_persistent  --token NAME --caller WHO --user UID --capacity POOL:SIZE [--access MODES] [--type TYPE]

Short forms: -f function, -t token, -c caller, -u user, -g groupid, -C capacity, -a access, -T type, -j job,
-p pathfile.
The controller is named by FOREBAY_CONTROLLER or /etc/forebay/client.toml.
";

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum WlmError {
    /// It cannot be understood.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The script.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// What the script asks for.
    #[error("burst buffer directives refused: {0}")]
    Job(#[from] JobError),
    /// The persistent instance.
    #[error(transparent)]
    Persistent(#[from] PersistentError),
    /// The list of nodes.
    #[error(transparent)]
    Nodes(#[from] NodeFileError),
    /// The file with the variables.
    #[error(transparent)]
    Paths(#[from] PathsFileError),
    /// Nobody says where the controller is.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The controller.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The controller took too long over something that takes no time.
    #[error(
        "the burst buffer controller at {address} did not answer within {} seconds: try again, or tell an operator",
        .limit.as_secs()
    )]
    TooSlow {
        /// Where.
        address: Address,
        /// How long it was waited for.
        limit: Duration,
    },
    /// An answer to something else.
    #[error(
        "the burst buffer controller gave an answer that does not belong to {verb}: its version is another one"
    )]
    Answer {
        /// What was asked.
        verb: &'static str,
    },
}

/// What is printed when all went well.
pub type Printed = Result<String, WlmError>;

/// Carries a call out.
///
/// # Errors
/// [`WlmError`]
pub fn carry_out(call: Call) -> Printed {
    let verb = call.verb();
    match call {
        Call::Help => Ok(USAGE.to_owned()),
        Call::Version => Ok(format!("dw_wlm_cli (forebay) {}\n", env!("CARGO_PKG_VERSION"))),
        Call::Pools => show(&[Shown::Pools], Object::Pools),
        Call::ShowSessions => show(&[Shown::Sessions], Object::Sessions),
        Call::ShowInstances => show(&[Shown::Configurations, Shown::Instances], Object::Instances),
        Call::ShowConfigurations => show(&[Shown::Configurations], Object::Configurations),
        Call::JobProcess { job } => job_process(&job),
        Call::Setup(setup) => set_up(&setup, verb),
        Call::DataIn { token } => done(&Request::DataIn { token }, STAGE_PATIENCE, verb),
        Call::RealSize { token } => real_size(token, verb),
        Call::Paths { token, pathfile } => paths(token, &pathfile, verb),
        Call::PreRun { token, nodes } => {
            done(&Request::PreRun { token, hosts: nodes.read()? }, PATIENCE, verb)
        }
        Call::PostRun { token } => done(&Request::PostRun { token }, PATIENCE, verb),
        Call::DataOut { token } => done(&Request::DataOut { token }, STAGE_PATIENCE, verb),
        Call::Teardown { token, hurry } => teardown(token, hurry, verb),
        Call::CreatePersistent(create) => create_persistent(&create, verb),
    }
}

fn client(patience: Duration) -> Result<Client, WlmError> {
    Ok(Client::open(Address::configured()?).with_patience(patience))
}

/// Asks on a thread of its own, and waits no longer than the limit. The thread ends with the process.
fn within<T: Send + 'static>(
    limit: Duration,
    client: Client,
    ask: impl FnOnce(&Client) -> Result<T, ClientError> + Send + 'static,
) -> Result<T, WlmError> {
    let address = client.address().clone();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(ask(&client)));
    let answer = receiver.recv_timeout(limit).map_err(|_| WlmError::TooSlow { address, limit })?;
    Ok(answer?)
}

fn show(tables: &'static [Shown], object: Object) -> Printed {
    let mut shows = json::Shows::new(object, jiff::Timestamp::now().as_second());
    let look = move |client: &Client| client.look_through(tables, shows.audience()).map(|()| shows.finish());
    let mut text = within(SHOW_LIMIT, client(PROMPT_PATIENCE)?, look)?;
    text.push('\n');
    Ok(text)
}

fn job_process(path: &Path) -> Printed {
    job::plan(&JobScript::read(path)?.directives()?)?;
    Ok(String::new())
}

fn set_up(call: &call::Setup, verb: &'static str) -> Printed {
    let directives = JobScript::read(&call.job)?.directives()?;
    done(&Request::Setup(job::setup(call, &directives)?), PATIENCE, verb)
}

/// Asks for something that is answered when it is so.
fn done(request: &Request, patience: Duration, verb: &'static str) -> Printed {
    match client(patience)?.ask(request)? {
        Answer::Done => Ok(String::new()),
        _ => Err(WlmError::Answer { verb }),
    }
}

fn real_size(token: String, verb: &'static str) -> Printed {
    match client(PATIENCE)?.ask(&Request::RealSize { token })? {
        Answer::Size(size) => Ok(format!("{}\n", json::real_size(size))),
        _ => Err(WlmError::Answer { verb }),
    }
}

fn paths(token: String, pathfile: &Path, verb: &'static str) -> Printed {
    let client = client(PROMPT_PATIENCE)?;
    match within(PATHS_LIMIT, client, move |client| client.ask(&Request::Paths { token }))? {
        Answer::Paths(variables) => Ok(paths_file::write(pathfile, &variables).map(|()| String::new())?),
        _ => Err(WlmError::Answer { verb }),
    }
}

/// A job that is not there is told, which Slurm takes for success. A persistent instance that is not there is success at
/// once: Slurm would ask again for ever.
fn teardown(token: String, hurry: bool, verb: &'static str) -> Printed {
    let is_job = token.starts_with(|c: char| c.is_ascii_digit());
    match done(&Request::Teardown { token, hurry }, PATIENCE, verb) {
        Err(WlmError::Client(ClientError::Refused { kind, .. })) if kind == NO_TOKEN && !is_job => {
            Ok(String::new())
        }
        other => other,
    }
}

/// Slurm looks for the word `created`.
fn create_persistent(call: &call::CreatePersistent, verb: &'static str) -> Printed {
    let group = user::primary_group(call.user).unwrap_or(NO_GROUP);
    let request = Request::CreatePersistent(persistent::request(call, group)?);
    done(&request, PATIENCE, verb).map(|_| format!("created {}", call.name))
}
