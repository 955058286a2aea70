//! From the options of `create_persistent` to its request.
//!
//! Access modes and type come as the user wrote them in `#BB create_persistent`; the parser of that line reads them, so
//! that they mean the same here as in a script. Pure.

use super::call;
use super::job::{self, JobError};
use crate::job::plan::Persistent;
use forebay_controller::cluster::request::{CreatePersistent, Space};
use forebay_directive::{Diagnostic, parse_lines};

/// Why it cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersistentError {
    /// A value with blanks or control characters.
    #[error("{option} {value:?} has a blank or a control character in it")]
    Blank {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
    },
    /// The values, as the parser tells it.
    #[error("persistent instance {name} refused: {}", .finding.message())]
    Refused {
        /// Its name.
        name: String,
        /// What is wrong.
        finding: Box<Diagnostic>,
    },
    /// No space.
    #[error("persistent instance {name} needs a capacity above zero")]
    Zero {
        /// Its name.
        name: String,
    },
    /// A use that is not offered.
    #[error("persistent instance {name} refused: {problem}")]
    NotOffered {
        /// Its name.
        name: String,
        /// Why.
        problem: JobError,
    },
}

/// The request. `group` is the owner's, if the call does not say one.
///
/// # Errors
/// [`PersistentError`]
pub fn request(call: &call::CreatePersistent, group: u32) -> Result<CreatePersistent, PersistentError> {
    let name = || call.name.clone();
    if call.capacity.size.0 == 0 {
        return Err(PersistentError::Zero { name: name() });
    }
    let parsed = parse_lines(line(call)?.as_bytes());
    if let Some(finding) = parsed.errors.first() {
        return Err(PersistentError::Refused { name: name(), finding: Box::new(finding.clone()) });
    }
    let plan = job::plan(&parsed).map_err(|problem| PersistentError::NotOffered { name: name(), problem })?;
    let named = plan.persistent.into_iter().find_map(|persistent| match persistent {
        Persistent::Create(named) => Some(named),
        Persistent::Destroy(_) => None,
    });
    let named = named.ok_or_else(|| PersistentError::Zero { name: name() })?;
    Ok(CreatePersistent {
        name: named.name,
        creator: call.caller.clone(),
        owner: call.user,
        group: call.group.unwrap_or(group),
        space: Space {
            capacity: named.allocation.capacity,
            pool: named.allocation.pool,
            strategy: named.allocation.strategy,
            kind: named.allocation.kind,
            access: named.allocation.access,
            write_window: named.allocation.write_window,
            policies: None,
        },
    })
}

/// The directive that the options came from.
fn line(call: &call::CreatePersistent) -> Result<String, PersistentError> {
    let mut line = String::from("#BB create_persistent");
    let mut add = |option, key: &str, value: &str| {
        if value.contains(|c: char| c.is_whitespace() || c.is_control() || c == '%' || c == '\\') {
            return Err(PersistentError::Blank { option, value: value.to_owned() });
        }
        line.push_str(&format!(" {key}={value}"));
        Ok(())
    };
    add("--token", "name", &call.name)?;
    add("--capacity", "capacity", &call.capacity.size.0.to_string())?;
    add("--capacity", "pool", &call.capacity.pool)?;
    if let Some(access) = &call.access {
        add("--access", "access_mode", access)?;
    }
    if let Some(kind) = &call.kind {
        add("--type", "type", kind)?;
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::capacity::Capacity;
    use forebay_model::objects::{AccessMode, ConfigurationType};
    use forebay_model::units::Bytes;

    fn call(name: &str, access: Option<&str>, kind: Option<&str>) -> call::CreatePersistent {
        call::CreatePersistent {
            name: name.into(),
            caller: "CLI".into(),
            user: 5001,
            group: None,
            capacity: "alt:1073741824".parse().unwrap(),
            access: access.map(String::from),
            kind: kind.map(String::from),
        }
    }

    #[test]
    fn options_mean_what_the_directive_means() {
        let made = request(&call("alpha", Some("striped(MFS=1GiB),private"), Some("scratch")), 77).unwrap();
        assert_eq!((made.name.as_str(), made.creator.as_str()), ("alpha", "CLI"));
        assert_eq!((made.owner, made.group), (5001, 77));
        assert_eq!(made.space.capacity, Capacity::Bytes(Bytes(1 << 30)));
        assert_eq!(made.space.pool.as_deref(), Some("alt"));
        assert_eq!(made.space.access.len(), 2);
        let bare = request(&call("eps", None, None), 0).unwrap().space;
        assert_eq!((bare.kind, bare.access[0].mode), (ConfigurationType::Scratch, AccessMode::Striped));
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let text = |call: call::CreatePersistent| request(&call, 0).unwrap_err().to_string();
        assert!(text(call("7up", None, None)).contains("malformed name"));
        assert!(text(call("a b", None, None)).starts_with("--token \"a b\" has a blank"));
        assert!(text(call("a", Some("striped\n#BB destroy_persistent name=b"), None)).contains("--access"));
        assert!(text(call("a", Some("stripped"), None)).contains("stripped"));
        assert!(text(call("a", None, Some("cache"))).contains("cache"));
        let mut zero = call("a", None, None);
        zero.capacity.size = Bytes(0);
        assert_eq!(text(zero), "persistent instance a needs a capacity above zero");
    }
}
