//! Persistent instances: made and removed by `#BB` lines and by commands of their own.
//!
//! Order of events of a creation: the registry allocates and records the instance as being made; the agent makes it;
//! the registry records it as real. Of a removal: the registry records that it is to go, so that nobody attaches it
//! any more; the agent removes it; the registry forgets it. A crash in between leaves a half-made or half-removed
//! instance that `forebay recover` removes: in the first case nobody has ever used it, in the second its owner said so.

use super::script_file::{Form, ScriptFile};
use crate::args::{CreatePersistent, DestroyPersistent, Serve};
use crate::config::PoolOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::job::description::describe;
use crate::job::driver::remove_empty;
use crate::job::plan::{Named, Persistent, Plan};
use crate::machine::{Machine, Places, now};
use forebay_controller::process::ProcessId;
use forebay_controller::record::InstanceRecord;
use forebay_controller::request::PersistentRequest;
use forebay_model::capacity::format::{SizeStyle, format_size};

/// `forebay create-persistent`
pub fn create_command(places: Places<'_>, arguments: &CreatePersistent) -> Result<Exit, CommandError> {
    let plan = plan(directive(arguments))?;
    let options = arguments.pool.options().map_err(CommandError::file("find", "--pool-dir"))?;
    let machine = Machine::open(places, &options)?;
    super::recover::notice(&machine)?;
    for step in &plan.persistent {
        carry_out(&machine, step, arguments.serve)?;
    }
    Ok(Exit::Success)
}

/// `forebay destroy-persistent`
pub fn destroy_command(places: Places<'_>, arguments: &DestroyPersistent) -> Result<Exit, CommandError> {
    let machine = Machine::open(places, &PoolOptions::default())?;
    destroy(&machine, &arguments.name, arguments.hurry)?;
    Ok(Exit::Success)
}

/// The command line as the directive that it stands for, so that both are judged by the same rules.
fn directive(arguments: &CreatePersistent) -> String {
    let mut text = "#BB create_persistent".to_string();
    for word in &arguments.words {
        text.push(' ');
        text.push_str(&if word.contains('=') { word.clone() } else { format!("name={word}") });
    }
    let options = [
        ("capacity", &arguments.capacity),
        ("access_mode", &arguments.access_mode),
        ("type", &arguments.kind),
        ("pool", &arguments.pool_name),
    ];
    for (key, value) in options {
        if let Some(value) = value {
            text.push_str(&format!(" {key}={value}"));
        }
    }
    text.push('\n');
    text
}

fn plan(text: String) -> Result<Plan, CommandError> {
    let file = ScriptFile::given("create-persistent", text, Form::Lines);
    let parsed = file.directives(None)?;
    Plan::new(&parsed.directives, None)
        .map_err(|refused| CommandError::Refused { script: file.named, refused })
}

/// Makes or removes a persistent instance, and says so.
pub fn carry_out(machine: &Machine, step: &Persistent, serve: Option<Serve>) -> Result<(), CommandError> {
    match step {
        Persistent::Create(named) => create(machine, named, serve),
        Persistent::Destroy(directive) => destroy(machine, &directive.name, directive.hurry),
    }
}

fn create(machine: &Machine, named: &Named, serve: Option<Serve>) -> Result<(), CommandError> {
    let request = PersistentRequest {
        name: named.name.clone(),
        creator: "CLI".into(),
        owner_uid: rustix::process::getuid().as_raw(),
        owner: this_process()?,
        allocation: named.allocation.clone(),
    };
    let (_, instance) =
        machine.take(|offers| machine.registry.create_persistent_on(offers, &request, now()))?;
    let description = describe(&instance, &named.name, &machine.state, &machine.config);
    match machine.agent.create_instance(&description, serve.map(Into::into)) {
        Ok(serving) => {
            machine.registry.instance_made(instance.id)?;
            let size = format_size(instance.bytes, SizeStyle::Binary);
            crate::say::note(format_args!(
                "persistent instance {} created: {size}, {}",
                named.name,
                serving.describe()
            ));
            Ok(())
        }
        Err(error) => {
            // Nobody has used it: what there is of it goes.
            forget(machine, &instance)?;
            Err(error.into())
        }
    }
}

fn destroy(machine: &Machine, name: &str, hurry: bool) -> Result<(), CommandError> {
    let instance = machine
        .registry
        .begin_destroy_persistent(name, hurry, this_process()?)
        .map_err(|source| CommandError::Setup { source, advice: None })?;
    forget(machine, &instance)?;
    crate::say::note(format_args!("persistent instance {name} destroyed"));
    Ok(())
}

/// Removes an instance that is not wanted from the disk, then from the registry.
pub fn forget(machine: &Machine, instance: &InstanceRecord) -> Result<(), CommandError> {
    machine.agent.destroy_instance(instance.id)?;
    remove_empty(instance.fragments.iter().map(|fragment| fragment.directory.clone()));
    machine.registry.finish_destroy(instance.id)?;
    Ok(())
}

fn this_process() -> Result<ProcessId, CommandError> {
    ProcessId::current().map_err(CommandError::file("read", "/proc/self/stat"))
}
