//! From a job's script and Slurm's options to the request that sets the job up.
//!
//! Pure. How much space and which pool is what Slurm counted, if that is at least what the script says: the scheduler
//! gives out no more than it counted. The directives are those that `forebay run` carries out.

use super::call;
use super::pool_size::PoolSize;
use crate::job::plan::{Plan, Refusal};
use forebay_controller::cluster::request::{Setup, Space, Stage};
use forebay_controller::request::{AllocationRequest, StageSpec, StageTarget};
use forebay_directive::Parsed;
use forebay_model::capacity::Capacity;
use forebay_model::capacity::format::exact;
use forebay_model::units::Bytes;
use std::os::unix::ffi::OsStringExt;

/// Why a job cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A directive that is not offered.
    #[error("line {line}: {}", not_offered(*refusal))]
    NotOffered {
        /// Its line.
        line: usize,
        /// Why.
        refusal: Refusal,
    },
    /// Slurm counted less than the script asks for.
    #[error(
        "Slurm read {} for the capacity of #DW jobdw, but the script says {}: write capacity=SIZE among blanks in the line that begins with #DW jobdw", exact(*counted), exact(*written)
    )]
    Less {
        /// What Slurm counted.
        counted: Bytes,
        /// What is written.
        written: Bytes,
    },
    /// Slurm counted something that is not there.
    #[error(
        "Slurm read a capacity of {} from the script, but it has no #DW jobdw line that can be understood", exact(*counted)
    )]
    Nothing {
        /// What Slurm counted.
        counted: Bytes,
    },
    /// Another pool.
    #[error(
        "Slurm took pool {counted}, but #DW jobdw says pool={written}: write pool= among blanks in the line that begins with #DW jobdw"
    )]
    Pool {
        /// What Slurm took.
        counted: String,
        /// What is written.
        written: String,
    },
}

fn not_offered(refusal: Refusal) -> String {
    match refusal {
        Refusal::Swap => "swap on compute nodes is not offered by this burst buffer: take the #DW swap line out of the script".into(),
        Refusal::Cache => "type=cache is not offered by this burst buffer: use type=scratch with stage_in and stage_out".into(),
        other => other.to_string(),
    }
}

/// What the directives ask for, as far as this burst buffer offers it.
///
/// # Errors
/// [`JobError::NotOffered`]
pub fn plan(parsed: &Parsed) -> Result<Plan, JobError> {
    Plan::new(&parsed.directives, None).map_err(first)
}

fn first(refused: Vec<crate::job::plan::Refused>) -> JobError {
    let first = refused.first().map_or((0, Refusal::Swap), |first| (first.line, first.refusal));
    JobError::NotOffered { line: first.0, refusal: first.1 }
}

/// The request of `setup`.
///
/// # Errors
/// [`JobError`]
pub fn setup(call: &call::Setup, parsed: &Parsed) -> Result<Setup, JobError> {
    let plan = plan(parsed)?;
    Ok(Setup {
        token: call.token.clone(),
        creator: call.caller.clone(),
        owner: call.user,
        group: call.group,
        space: space(&call.capacity, plan.allocation)?,
        attach: plan.attach,
        stages: plan.stages.into_iter().map(stage).collect(),
        swap: false,
    })
}

/// The job's space, if the script and Slurm agree on it.
fn space(counted: &PoolSize, written: Option<AllocationRequest>) -> Result<Option<Space>, JobError> {
    let Some(written) = written else {
        return match counted.size {
            Bytes(0) => Ok(None),
            counted => Err(JobError::Nothing { counted }),
        };
    };
    if let Capacity::Bytes(size) = written.capacity
        && counted.size < size
    {
        return Err(JobError::Less { counted: counted.size, written: size });
    }
    if let Some(pool) = written.pool.filter(|pool| *pool != counted.pool) {
        return Err(JobError::Pool { counted: counted.pool.clone(), written: pool });
    }
    Ok(Some(Space {
        capacity: Capacity::Bytes(counted.size),
        pool: Some(counted.pool.clone()),
        strategy: written.strategy,
        kind: written.kind,
        access: written.access,
        write_window: written.write_window,
        policies: None,
    }))
}

fn stage(spec: StageSpec) -> Stage {
    Stage {
        direction: spec.direction,
        kind: spec.kind,
        persistent: match spec.target {
            StageTarget::Job => None,
            StageTarget::Persistent(name) => Some(name),
        },
        pfs: spec.pfs.into_os_string().into_vec(),
        instance_path: spec.instance_path,
        tolerate_errors: spec.tolerate_errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_controller::request::{StageDirection, StageKind};
    use forebay_directive::parse_script;
    use forebay_model::objects::AccessMode;

    const MIB: u64 = 1 << 20;

    fn request(lines: &str, capacity: &str) -> Result<Setup, JobError> {
        let parsed = parse_script(format!("#!/bin/sh\n{lines}\n").as_bytes());
        assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
        let call = call::Setup {
            token: "7".into(),
            caller: "SLURM".into(),
            user: 5001,
            group: 5002,
            capacity: capacity.parse().unwrap(),
            job: "/script".into(),
        };
        setup(&call, &parsed)
    }

    const JOB: &str = "#DW jobdw type=scratch capacity=100MB access_mode=striped(MFS=1GiB),private";

    #[test]
    fn the_space_is_what_slurm_counted() {
        let setup = request(JOB, "default:96MiB").unwrap();
        assert_eq!((setup.token.as_str(), setup.creator.as_str()), ("7", "SLURM"));
        assert_eq!((setup.owner, setup.group), (5001, 5002));
        let space = setup.space.unwrap();
        assert_eq!(space.capacity, Capacity::Bytes(Bytes(96 * MIB)));
        assert_eq!(space.pool.as_deref(), Some("default"));
        let modes: Vec<AccessMode> = space.access.iter().map(|access| access.mode).collect();
        assert_eq!(modes, [AccessMode::Striped, AccessMode::Private]);
        assert_eq!(space.access[0].max_file_size, Some(Bytes(1 << 30)));
    }

    #[test]
    fn a_job_without_space_of_its_own_is_set_up_too() {
        assert_eq!(request("#DW persistentdw name=a", "default:0").unwrap().attach, ["a"]);
        let create = "#BB create_persistent name=a capacity=1GiB access=striped type=scratch";
        let setup = request(create, "default:0").unwrap();
        assert_eq!((setup.space, setup.attach, setup.stages), (None, vec![], vec![]));
    }

    #[test]
    fn stagings_keep_their_order_and_target() {
        let lines = format!(
            "{JOB}\n#DW persistentdw name=p\n#DW stage_in type=file source=/a destination=$DW_JOB_STRIPED/d/\n#DW stage_out type=directory source=$DW_PERSISTENT_STRIPED_p/x destination=/b tolerate_errors=yes"
        );
        let stages = request(&lines, "default:96MiB").unwrap().stages;
        assert_eq!((stages[0].direction, stages[0].kind), (StageDirection::In, StageKind::File));
        assert_eq!((&stages[0].pfs[..], &stages[0].instance_path[..]), (&b"/a"[..], &b"d/"[..]));
        assert_eq!((stages[0].persistent.as_deref(), stages[1].persistent.as_deref()), (None, Some("p")));
        assert!(stages[1].tolerate_errors);
    }

    #[test]
    fn what_slurm_and_the_script_do_not_agree_on_is_refused() {
        let text = |lines: &str, capacity: &str| request(lines, capacity).unwrap_err().to_string();
        assert!(text(JOB, "default:0").starts_with("Slurm read 0 for the capacity"));
        assert!(text("#DW persistentdw name=a", "p:1GiB").starts_with("Slurm read a capacity of 1GiB"));
        let pool = text(&format!("{JOB} pool=alt"), "default:96MiB");
        assert!(pool.starts_with("Slurm took pool default, but #DW jobdw says pool=alt"), "{pool}");
    }

    #[test]
    fn what_is_not_offered_is_refused_with_its_line() {
        let text = |lines: &str| request(lines, "default:1GiB").unwrap_err().to_string();
        assert!(text("#DW swap 1GiB").starts_with("line 2: swap on compute nodes is not offered"));
        let cache = "#DW jobdw capacity=1GiB access_mode=striped type=cache pfs=/lus";
        assert!(text(cache).starts_with("line 2: type=cache is not offered"));
    }

    #[test]
    fn a_list_may_lie_in_the_instance() {
        let lines = format!(
            "{JOB}\n#DW persistentdw name=p\n#DW stage_out type=list source=$DW_PERSISTENT_STRIPED_p/l\n\
             #DW stage_out type=list source=$DW_JOB_STRIPED/l"
        );
        let stages = request(&lines, "default:96MiB").unwrap().stages;
        let shown = |at: usize| {
            (stages[at].persistent.as_deref(), &stages[at].pfs[..], &stages[at].instance_path[..])
        };
        assert_eq!(shown(0), (Some("p"), &b""[..], &b"l"[..]));
        assert_eq!(shown(1), (None, &b""[..], &b"l"[..]));
    }
}
