//! The effects of the life cycle, carried out on this machine. Each reports how it ended as the next event.

use super::Driver;
use crate::job::description::describe;
use crate::job::environment::{BatchJob, Exposed, variables};
use crate::job::forsaken::{self, Forsaken};
use crate::job::held::THIS_PROGRAM;
use crate::job::interpreter;
use crate::job::script::{Input, KILL_WAIT, Script, ScriptCommand, shell_status};
use crate::job::summary::ScriptLine;
use forebay_agent::{AgentError, Unmounted};
use forebay_controller::job::{Effect, Event, ScriptEnd};
use forebay_controller::process::ProcessId;
use forebay_controller::record::InstanceRecord;
use forebay_controller::request::StageDirection;
use forebay_model::units::Bytes;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Instant;

/// Why an effect failed, for the user.
type Cause = String;

impl Driver<'_> {
    /// Carries out one effect.
    pub(super) fn perform(&mut self, effect: Effect) -> Event {
        let done = match effect {
            Effect::MakeInstance => self.make_instance(),
            Effect::StageIn => self.stage(StageDirection::In),
            Effect::Mount => self.mount(),
            Effect::RunScript => {
                return match self.run_script() {
                    Ok(end) => Event::ScriptEnded(end),
                    Err(cause) => Event::Failed { cause },
                };
            }
            Effect::EndScript { .. } => self.end_forsaken_script(),
            Effect::Unmount => self.unmount(),
            Effect::StageOut => self.stage(StageDirection::Out),
            Effect::Teardown => self.teardown(),
            // Only the interrupt hook gets it, for work that is in progress on this thread.
            Effect::StopWork => Ok(()),
        };
        match done {
            Ok(()) => Event::Done,
            Err(cause) => Event::Failed { cause },
        }
    }

    fn make_instance(&mut self) -> Result<(), Cause> {
        let Some(own) = self.job.own.clone() else { return Ok(()) };
        let description = describe(&own, &self.job.token, &self.machine.state, &self.machine.config);
        self.machine.agent.create_instance(&description, self.options.serve).map_err(cause)?;
        self.machine.registry.instance_made(own.id).map_err(cause)
    }

    fn mount(&mut self) -> Result<(), Cause> {
        for (name, instance) in self.instances() {
            let persistent = instance.persistent.then_some(name);
            for configuration in &instance.configurations {
                let path =
                    self.attachment(&instance).and_then(|a| a.mount(configuration.id)).map_err(cause)?;
                self.machine.registry.activate(self.job.session, configuration.id, &path).map_err(cause)?;
                let mode = configuration.access.mode;
                self.exposed.push(Exposed { persistent: persistent.clone(), mode, path });
            }
        }
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), Cause> {
        for (_, instance) in self.instances() {
            for configuration in &instance.configurations {
                if let Some(attachment) = self.attachments.get_mut(&instance.id) {
                    match attachment.unmount(configuration.id) {
                        Ok(Unmounted::Clean | Unmounted::Shared) | Err(AgentError::NotMounted { .. }) => {}
                        Ok(Unmounted::Lazy { holders }) => {
                            self.note(format!(
                                "the burst buffer was still in use when it was unmounted: {holders}"
                            ));
                        }
                        Err(error) => return Err(cause(error)),
                    }
                }
                self.machine.registry.deactivate(self.job.session, configuration.id).map_err(cause)?;
            }
            if self.shared.state().recovering && !self.attachments.contains_key(&instance.id) {
                self.clean_stale(&instance)?;
            }
        }
        Ok(())
    }

    /// Removes the dead mounts that a crash left. Instances that others use are theirs to clean.
    fn clean_stale(&mut self, instance: &InstanceRecord) -> Result<(), Cause> {
        match self.machine.agent.clean_stale(instance.id) {
            Ok(()) | Err(AgentError::InUse { .. } | AgentError::UnknownInstance { .. }) => Ok(()),
            Err(error) => Err(cause(error)),
        }
    }

    fn teardown(&mut self) -> Result<(), Cause> {
        self.unmount()?;
        if let Some(own) = self.job.own.clone() {
            self.machine.registry.instance_unmaking(own.id).map_err(cause)?;
            // What is dirty in a space that goes away need not reach the disk.
            if let Some(attachment) = self.attachments.remove(&own.id) {
                attachment.discard().map_err(cause)?;
            }
            self.machine.agent.destroy_instance(own.id).map_err(cause)?;
            remove_empty(own.fragments.iter().map(|fragment| fragment.directory.clone()));
        }
        for (_, attachment) in std::mem::take(&mut self.attachments) {
            attachment.detach().map_err(cause)?;
        }
        remove_job_directory(self.machine.state.job(&self.job.token))?;
        self.machine.registry.finish_teardown(self.job.session).map_err(cause)
    }

    fn run_script(&mut self) -> Result<ScriptEnd, Cause> {
        let before = self.bytes_used();
        let begun = Instant::now();
        let command = self.command();
        let end = self.start_and_await(&command)?;
        let elapsed = begun.elapsed();
        let after = self.bytes_used();
        let moved = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let (bytes_read, bytes_written) = (moved(before.0, after.0), moved(before.1, after.1));
        self.wear(bytes_written);
        let limits = self.attachments.values().flat_map(|attachment| attachment.limits_reached());
        self.summary.notes.extend(limits.collect::<Vec<_>>());
        self.summary.script = Some(ScriptLine { end: tell(end), elapsed, bytes_read, bytes_written });
        Ok(script_end(end))
    }

    /// Counts what the script wrote towards the wear of the nodes. With several instances it is unknown which one it
    /// went to, and nothing is counted.
    fn wear(&mut self, written: Option<u64>) {
        let instances = self.instances();
        if let ([(_, instance)], Some(written)) = (&instances[..], written)
            && let Err(error) = self.machine.registry.record_written(instance.id, Bytes(written))
        {
            self.note(format!("what was written could not be counted as wear: {error}"));
        }
    }

    /// The script begins when its group is written down, so that recovery can end a script whose driver was killed.
    fn start_and_await(&mut self, command: &ScriptCommand) -> Result<ExitStatus, Cause> {
        let held = command.hold(Path::new(THIS_PROGRAM)).map_err(|error| cannot_start(command, &error))?;
        if let Err(cause) = self.write_down(held.pid()) {
            held.forgo();
            return Err(cause);
        }
        self.shared.script_begins(held.group());
        let ended = held.begin().map(Script::wait);
        self.shared.script_ends();
        self.machine.registry.record_script_group(self.job.session, None).map_err(cause)?;
        let ended = ended.map_err(|error| cannot_start(command, &error))?;
        let (status, swept) = ended.map_err(|error| format!("cannot await the script: {error}"))?;
        if swept {
            self.note("the script left processes running; they were ended before stage-out".into());
        }
        Ok(status)
    }

    /// None is written down of a process that a signal has ended before it could become the script.
    fn write_down(&self, leader: u32) -> Result<(), Cause> {
        let process = ProcessId::of(leader)
            .map_err(|error| format!("cannot look at the script's process {leader}: {error}"))?;
        self.machine.registry.record_script_group(self.job.session, process).map_err(cause)
    }

    fn command(&mut self) -> ScriptCommand {
        let mut command = self.options.interactive.take().unwrap_or_else(|| self.batch_command());
        command.variables = self.variables();
        command
    }

    /// The job's own copy of the script, so that an edit while it runs changes nothing.
    fn batch_command(&self) -> ScriptCommand {
        let copy = self.machine.state.job(&self.job.token).join("script");
        let (program, arguments) = interpreter::command(copy, &self.job.script.args);
        let directory = self.job.script.working_directory.clone();
        ScriptCommand { program, arguments, directory, variables: Vec::new(), input: Input::Nothing }
    }

    fn variables(&self) -> Vec<(String, OsString)> {
        let user = crate::user::name();
        let host = crate::user::host();
        let job = BatchJob {
            id: &self.job.token,
            name: &self.job.script.name,
            user: &user,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            submit_dir: &self.job.script.submit_directory,
            host: &host,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mut all = variables(&job, &self.exposed, &|name| std::env::var_os(name).is_some());
        // dwstat in the script must look at the same state, whatever directory was chosen by option.
        all.extend(self.mark());
        all.extend(crate::user::path_with_commands().map(|path| ("PATH".to_string(), path)));
        all
    }

    /// Bytes read and written so far through all attached instances; `None` where one of them cannot tell.
    fn bytes_used(&self) -> (Option<u64>, Option<u64>) {
        let mut sums = (Some(0), Some(0));
        for attachment in self.attachments.values() {
            let usage = attachment.usage().unwrap_or_default();
            let add = |sum: Option<u64>, more: Option<Bytes>| Some(sum? + more?.0);
            sums = (add(sums.0, usage.bytes_read), add(sums.1, usage.bytes_written));
        }
        sums
    }

    /// A script whose forebay was killed may still run, and write. One of which no group is recorded has not begun, or is over.
    fn end_forsaken_script(&mut self) -> Result<(), Cause> {
        let Some(process) = self.job.script_group else { return Ok(()) };
        let unknown = |error| format!("cannot look for the script (process {}): {error}", process.pid);
        if let Some(script) = Forsaken::find(process, &self.mark()).map_err(unknown)? {
            if !script.end(KILL_WAIT) {
                return Err(format!("the script (process group {}) cannot be ended", process.pid));
            }
            let scripts = "the script was still running and was ended";
            let stragglers = "processes that the script had left running were ended";
            self.note(if script.leads { scripts } else { stragglers }.into());
        }
        self.machine.registry.record_script_group(self.job.session, None).map_err(cause)
    }

    fn mark(&self) -> [(String, OsString); 2] {
        forsaken::mark(&self.job.token, self.machine.state.root())
    }
}

fn cannot_start(command: &ScriptCommand, error: &io::Error) -> Cause {
    let advice = interpreter::advice(&command.program);
    format!("cannot start {}: {error}{advice}", command.shown())
}

fn cause(error: impl std::fmt::Display) -> Cause {
    error.to_string()
}

/// Directories of nodes go when they hold nothing any more; `rmdir` refuses the others.
pub fn remove_empty(directories: impl Iterator<Item = PathBuf>) {
    for directory in directories {
        let _ = std::fs::remove_dir(directory);
    }
}

fn remove_job_directory(directory: PathBuf) -> Result<(), Cause> {
    match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {directory:?}: {error}"))
        }
        _ => Ok(()),
    }
}

fn script_end(status: ExitStatus) -> ScriptEnd {
    match status.signal() {
        Some(signal) => ScriptEnd::Signaled(signal),
        None => ScriptEnd::Exited(shell_status(status).into()),
    }
}

fn tell(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => match signal_hook::low_level::signal_name(signal) {
            Some(name) => format!("ended by {name}"),
            None => format!("ended by signal {signal}"),
        },
        None => format!("exit status {}", shell_status(status)),
    }
}
