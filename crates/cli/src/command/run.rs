//! `forebay run`: one job, from its script to its summary.

use super::persistent;
use super::script_file::{Form, ScriptFile};
use crate::args::{PoolArguments, Run, Serve};
use crate::config::size_problem;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::job::driver::{Driver, DriverOptions, Outcome};
use crate::job::plan::Plan;
use crate::job::script::{ScriptCommand, adopt_orphans};
use crate::job::{report, sbatch};
use crate::machine::{Machine, Places, now};
use forebay_controller::job::Event;
use forebay_controller::process::ProcessId;
use forebay_controller::record::Job;
use forebay_controller::request::{JobRequest, Script};
use forebay_directive::Symbols;
use forebay_model::capacity::parse_bytes;
use forebay_model::units::Bytes;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Runs a batch script.
pub fn run(places: Places<'_>, arguments: Run) -> Result<Exit, CommandError> {
    let (script, script_arguments) = arguments.script();
    let script = ScriptFile::read(script, Form::Script)?;
    let script_arguments = script_arguments.to_vec();
    let name = sbatch::job_name(&script.text).unwrap_or_else(|| base_name(&script));
    let request = Request {
        capacity: size_option(arguments.capacity.as_deref())?,
        pool: arguments.pool,
        serve: arguments.serve,
        keep: arguments.keep,
        quiet: arguments.quiet,
        arguments: script_arguments,
        interactive: None,
        name,
        script,
    };
    if arguments.dry_run { super::check::dry_run(places, &request) } else { request.carry_out(places) }
}

fn base_name(script: &ScriptFile) -> String {
    script.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The value of `--capacity`.
pub fn size_option(text: Option<&str>) -> Result<Option<Bytes>, CommandError> {
    let refuse = |text: &str, problem| CommandError::Option { option: format!("--capacity {text}"), problem };
    text.map(|text| parse_bytes(text).map_err(|error| refuse(text, size_problem(&error)))).transpose()
}

/// A job to be run, whatever command asked for it.
#[derive(Debug)]
pub struct Request {
    /// The directives, and for a batch job what is run.
    pub script: ScriptFile,
    /// Job name.
    pub name: String,
    /// Arguments of the script.
    pub arguments: Vec<OsString>,
    /// What is run instead of the script.
    pub interactive: Option<ScriptCommand>,
    /// The storage nodes.
    pub pool: PoolArguments,
    /// Override of the job's capacity.
    pub capacity: Option<Bytes>,
    /// Override of the serving way.
    pub serve: Option<Serve>,
    /// Keep the space afterwards.
    pub keep: bool,
    /// No progress, no summary.
    pub quiet: bool,
}

impl Request {
    /// Runs the job.
    pub fn carry_out(self, places: Places<'_>) -> Result<Exit, CommandError> {
        adopt_orphans();
        let options = self.pool.options().map_err(CommandError::file("find", "--pool-dir"))?;
        let machine = Machine::open(places, &options)?;
        super::recover::notice(&machine)?;
        let token = machine.reserve_token()?;
        let plan = self.plan(&token)?;
        let interrupts = Interrupts::install().map_err(CommandError::Signals)?;
        for step in &plan.persistent {
            persistent::carry_out(&machine, step, self.serve)?;
        }
        let request = self.job_request(token, &plan)?;
        let (_, job) = machine.take(|offers| machine.registry.setup_job_on(offers, &request, now()))?;
        machine.make_job_directory(&job.token, &self.script.text)?;
        self.drive(&machine, job, &plan, &interrupts)
    }

    /// The plan with the symbols of this job.
    pub fn plan(&self, token: &str) -> Result<Plan, CommandError> {
        let parsed = self.script.directives(Some(&self.symbols(token)?))?;
        Plan::new(&parsed.directives, self.capacity)
            .map_err(|refused| CommandError::Refused { script: self.script.named.clone(), refused })
    }

    fn symbols(&self, token: &str) -> Result<Symbols, CommandError> {
        let here = working_directory()?;
        Ok(Symbols {
            array_job_id: token.into(),
            // Outside of an array Slurm prints the number that stands for "no task".
            array_task_id: b"4294967294".to_vec(),
            work_dir: here.as_os_str().as_bytes().to_vec(),
            job_id: token.into(),
            user: crate::user::name().into_bytes(),
            job_name: self.name.clone().into_bytes(),
        })
    }

    fn job_request(&self, token: String, plan: &Plan) -> Result<JobRequest, CommandError> {
        let here = working_directory()?;
        Ok(JobRequest {
            token: Some(token),
            creator: "CLI".into(),
            owner_uid: rustix::process::getuid().as_raw(),
            client_nodes: 1,
            owner: ProcessId::current().map_err(CommandError::file("read", "/proc/self/stat"))?,
            allocation: plan.allocation.clone(),
            attach: plan.attach.clone(),
            stages: plan.stages.clone(),
            script: Script {
                path: self.script.path.clone(),
                args: self.arguments.clone(),
                working_directory: here.clone(),
                submit_directory: here,
                name: self.name.clone(),
            },
            keep: self.keep,
        })
    }

    fn drive(
        self,
        machine: &Machine,
        job: Job,
        plan: &Plan,
        interrupts: &Interrupts,
    ) -> Result<Exit, CommandError> {
        let quiet = self.quiet;
        let options =
            DriverOptions { serve: self.serve.map(Into::into), quiet, interactive: self.interactive };
        let driver = Driver::new(machine, job, options);
        let mut outcome = driver.run(Event::Begin, interrupts)?;
        outcome.summary.notes.extend(plan.remarks.iter().cloned());
        Ok(conclude(&outcome, interrupts, quiet))
    }
}

/// Tells how a job ended and gives the status of the command.
pub fn conclude(outcome: &Outcome, interrupts: &Interrupts, quiet: bool) -> Exit {
    let exit = report::exit(&outcome.state, interrupts.last_signal());
    if !quiet {
        crate::say::plain(outcome.summary.render());
    }
    for line in report::closing(&outcome.state, &outcome.summary.token) {
        crate::say::note(line);
    }
    exit
}

fn working_directory() -> Result<PathBuf, CommandError> {
    std::env::current_dir().map_err(CommandError::WorkingDirectory)
}

impl Machine {
    /// The id of the next job. Inside an allocation of a real Slurm it is that job's id, as long as it is free.
    fn reserve_token(&self) -> Result<String, CommandError> {
        let uid = rustix::process::getuid().as_raw();
        let given = std::env::var("SLURM_JOB_ID").ok().filter(|id| is_job_id(id));
        let Some(given) = given else { return Ok(self.registry.reserve_token(uid)?) };
        if self.registry.job(&given)?.is_none() { Ok(given) } else { Ok(self.registry.reserve_token(uid)?) }
    }

    /// The job's directory with its copy of the script.
    fn make_job_directory(&self, token: &str, script: &[u8]) -> Result<(), CommandError> {
        let directory = self.state.job(token);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(CommandError::file("make", &directory))?;
        let copy = directory.join("script");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o700);
        let mut file = options.open(&copy).map_err(CommandError::file("write", &copy))?;
        // Whatever mask the user has for new files: this one has to be run.
        let owner_only = std::fs::Permissions::from_mode(0o700);
        file.set_permissions(owner_only).map_err(CommandError::file("write", &copy))?;
        std::io::Write::write_all(&mut file, script).map_err(CommandError::file("write", &copy))
    }
}

fn is_job_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}
