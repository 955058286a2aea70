//! `#DW persistentdw`, `#BB create_persistent` and `#BB destroy_persistent`.

use super::jobdw::type_word;
use crate::diagnostic::{Code, Report};
use crate::fields::Fields;
use crate::types::{Access, CreatePersistent, DestroyPersistent, Directive, PersistentDw};
use crate::value::{access_modes, capacity, instance_name, is_shell_name, pool_name};
use forebay_model::objects::{AccessMode, ConfigurationType};

fn name(fields: &Fields, report: &mut Report) -> Option<String> {
    let value = fields.require("name", "<name>", report)?;
    instance_name(value, report)
}

/// Attaches an instance.
pub(super) fn attach(fields: &Fields, report: &mut Report) -> Option<Directive> {
    name(fields, report).map(|name| Directive::PersistentDw(PersistentDw { name }))
}

/// Removes an instance.
pub(super) fn destroy(fields: &Fields, report: &mut Report) -> Option<Directive> {
    let hurry = fields.has_flag("hurry");
    name(fields, report).map(|name| Directive::DestroyPersistent(DestroyPersistent { name, hurry }))
}

/// Makes an instance. Slurm's documents make all but name and capacity optional.
pub(super) fn create(fields: &Fields, report: &mut Report) -> Option<Directive> {
    let name = name(fields, report);
    warn_of_shell(fields, name.as_deref(), report);
    let size = fields.require("capacity", "<size>, such as 200GB", report).cloned();
    let size = size.and_then(|value| capacity(&value, report));
    let kind = match fields.get("type") {
        Some(value) => type_word(value, report),
        None => Some(ConfigurationType::Scratch),
    };
    if let (Some(_), Some(second)) = (fields.get("access"), fields.get("access_mode")) {
        let expected = "either `access=` or `access_mode=`";
        let second = second.word();
        report.suggest(Code::DuplicateKey, second.start(), second.bytes, expected, "remove one of the two");
        return None;
    }
    let access = match fields.get("access").or_else(|| fields.get("access_mode")) {
        Some(value) => access_modes(value, kind, report),
        None => Some(vec![Access::plain(AccessMode::Striped)]),
    };
    let pool = match fields.get("pool") {
        Some(value) => pool_name(value, report).map(Some),
        None => Some(None),
    };
    Some(Directive::CreatePersistent(CreatePersistent {
        name: name?,
        capacity: size?,
        kind: kind?,
        access: access?,
        pool: pool?,
    }))
}

fn warn_of_shell(fields: &Fields, name: Option<&str>, report: &mut Report) {
    if let (Some(value), Some(name)) = (fields.get("name"), name)
        && !is_shell_name(name)
    {
        let expected =
            format!("letters, digits and `_`, so that `$DW_PERSISTENT_STRIPED_{name}` is one variable");
        report.add(Code::NameNotForShell, value.start(), value.written(), expected);
    }
}
