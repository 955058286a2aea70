//! Making an instance.
//!
//! Order of events: state directory - record, durable - fragments (each as its module says). Crash before the record:
//! an empty state directory, which destroying removes; after it: the record names everything that may exist, making
//! again goes on, destroying removes it. The instance is complete when its last fragment is; it is durable then.

use crate::capabilities::{Capabilities, Feature, Lack};
use crate::description::InstanceDescription;
use crate::error::AgentError;
use crate::fragment::{self, image};
use crate::record::{FragmentKind, Record};
use crate::serving::Serving;
use crate::state_directory::StateDirectory;

/// Makes the instance, or goes on making it, or finds it made.
pub(crate) fn create(
    state: &StateDirectory,
    description: &InstanceDescription,
    capabilities: &Capabilities,
    wanted: Option<Serving>,
) -> Result<Serving, AgentError> {
    description.validate()?;
    let known = state.record()?;
    let (record, fresh) = match known {
        Some(record) => (record, false),
        None => (begin(description, capabilities, wanted)?, true),
    };
    state.make()?;
    let _gate = state.existing_gate()?;
    // Looked up again: another process may have come first.
    let (record, fresh) = state.record()?.map_or((record, fresh), |record| (record, false));
    if record.removing {
        return Err(AgentError::Incomplete { instance: description.instance });
    }
    if record.description != *description {
        let directory = state.path().to_owned();
        return Err(AgentError::DescriptionDiffers { instance: description.instance, directory });
    }
    match make(state, &record, fresh) {
        Ok(()) => Ok(record.serving),
        Err(error) => {
            if fresh {
                // Nobody has put anything into it. What cannot be removed now is still named by the record.
                let _ = crate::destroy::remove(state, record);
            }
            Err(error)
        }
    }
}

fn begin(
    description: &InstanceDescription,
    capabilities: &Capabilities,
    wanted: Option<Serving>,
) -> Result<Record, AgentError> {
    let capabilities = on_these_disks(capabilities, description);
    let serving = Serving::choose(description, &capabilities, wanted)?;
    let kind = match serving {
        Serving::DirectXfs => FragmentKind::XfsImage,
        Serving::Fuse { .. } if capabilities.images.present() => FragmentKind::XfsImage,
        Serving::Fuse { .. } | Serving::PlainDirectory => FragmentKind::Directory,
    };
    Ok(Record::begun(description.clone(), serving, kind))
}

/// Images also need a file system below them that can promise space.
fn on_these_disks(capabilities: &Capabilities, description: &InstanceDescription) -> Capabilities {
    let cannot =
        |fragment: &&crate::description::FragmentDescription| !image::can_reserve(&fragment.directory);
    let mut here = capabilities.clone();
    if here.images.present()
        && let Some(fragment) = description.fragments.iter().find(cannot)
    {
        here.images = Feature::Missing(Lack::CannotReserve(fragment.directory.clone()));
    }
    here
}

fn make(state: &StateDirectory, record: &Record, fresh: bool) -> Result<(), AgentError> {
    if fresh {
        record.write(state.path())?;
    }
    let fragments = fragment::of_instance(&record.description, record.fragments);
    fragment::on_all(&fragments, |fragment| fragment.make()).map(drop)
}
