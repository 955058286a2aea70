//! From a script's directives to what this machine is to do.
//!
//! Pure. The directives are valid by themselves (the parser saw to that); what is refused here cannot be done *on one
//! machine*, and says so with the line that asks for it.

use forebay_controller::request::{
    AccessRequest, AllocationRequest, StageDirection, StageKind, StageSpec, StageTarget, WindowRequest,
};
use forebay_directive::{
    Access, CreatePersistent, DestroyPersistent, Directive, InstanceRef, JobDw, Located, Stage,
    StageKind as Kind, StagePath,
};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::Bytes;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What a script asks for, in the order in which it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// `#BB create_persistent` and `#BB destroy_persistent`
    pub persistent: Vec<Persistent>,
    /// `#DW jobdw`
    pub allocation: Option<AllocationRequest>,
    /// `#DW persistentdw`
    pub attach: Vec<String>,
    /// `#DW stage_in` and `#DW stage_out`
    pub stages: Vec<StageSpec>,
    /// What is accepted and has no effect here, one sentence each.
    pub remarks: Vec<String>,
}

/// Something to be done to a persistent instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persistent {
    /// Make it.
    Create(Named),
    /// Remove it.
    Destroy(DestroyPersistent),
}

/// A persistent instance to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its space.
    pub allocation: AllocationRequest,
}

/// A directive that one machine cannot carry out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {refusal}")]
pub struct Refused {
    /// Line of the directive.
    pub line: usize,
    /// Why.
    pub refusal: Refusal,
}

/// Why a directive cannot be carried out here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Swap is a matter of the kernel of a compute node.
    #[error(
        "`#DW swap` is not possible on one machine: swap space belongs to the machine's administrator (swapon); remove the line"
    )]
    Swap,
    /// A cache over a parallel file system.
    #[error("`type=cache` is not possible on one machine: use type=scratch with stage_in and stage_out")]
    Cache,
    /// Load-balanced read-only copies.
    #[error("`access_mode=ldbalance` belongs to caches: use striped or private")]
    Ldbalance,
    /// A staging that does not lead from one side to the other.
    #[error(
        "{} needs one path in the burst buffer ($DW_JOB_STRIPED/...) and one on the parallel file system: {}",
        directive(*direction),
        match direction {
            StageDirection::In => "its source is the latter, its destination the former",
            StageDirection::Out => "its source is the former, its destination the latter",
        }
    )]
    StagePaths {
        /// Of the staging.
        direction: StageDirection,
    },
}

fn directive(direction: StageDirection) -> &'static str {
    match direction {
        StageDirection::In => "stage_in",
        StageDirection::Out => "stage_out",
    }
}

impl Plan {
    /// Makes the plan. `capacity` overrides the size of `jobdw` (`--capacity`). All refusals are given at once.
    pub fn new(directives: &[Located<Directive>], capacity: Option<Bytes>) -> Result<Plan, Vec<Refused>> {
        let mut plan = Plan::default();
        let mut refused = Vec::new();
        for directive in directives {
            if let Err(refusal) = plan.add(&directive.value, capacity) {
                refused.push(Refused { line: directive.line, refusal });
            }
        }
        plan.aim_lists();
        if refused.is_empty() { Ok(plan) } else { Err(refused) }
    }

    /// A list names its instances line by line; it is recorded with one that the job has.
    fn aim_lists(&mut self) {
        if self.allocation.is_some() {
            return;
        }
        if let Some(name) = self.attach.first() {
            let unaimed =
                |stage: &&mut StageSpec| stage.kind == StageKind::List && stage.instance_path.is_empty();
            for stage in self.stages.iter_mut().filter(unaimed) {
                stage.target = StageTarget::Persistent(name.clone());
            }
        }
    }

    fn add(&mut self, directive: &Directive, capacity: Option<Bytes>) -> Result<(), Refusal> {
        match directive {
            Directive::JobDw(jobdw) => self.allocation = Some(self.job(jobdw, capacity)?),
            Directive::Swap(_) => return Err(Refusal::Swap),
            Directive::StageIn(stage) => self.stages.push(stage_spec(StageDirection::In, stage)?),
            Directive::StageOut(stage) => self.stages.push(stage_spec(StageDirection::Out, stage)?),
            Directive::PersistentDw(attach) => self.attach.push(attach.name.clone()),
            Directive::CreatePersistent(create) => {
                self.persistent.push(Persistent::Create(persistent(create)?))
            }
            Directive::DestroyPersistent(destroy) => {
                self.persistent.push(Persistent::Destroy(destroy.clone()))
            }
        }
        Ok(())
    }

    fn job(&mut self, jobdw: &JobDw, capacity: Option<Bytes>) -> Result<AllocationRequest, Refusal> {
        if jobdw.max_mds == Some(true) {
            self.remarks.push("max_mds=yes changes nothing on one machine".into());
        }
        Ok(AllocationRequest {
            capacity: capacity.map_or(jobdw.capacity, Capacity::Bytes),
            pool: jobdw.pool.clone(),
            strategy: jobdw.effective_strategy(),
            kind: scratch(jobdw.kind)?,
            access: access(&jobdw.access)?,
            write_window: window(jobdw),
        })
    }
}

/// Without a word of it writing is not limited: the original had a default, which would keep every job from the faster
/// ways of serving.
fn window(jobdw: &JobDw) -> Option<WindowRequest> {
    let is_asked_for = jobdw.write_window_length_s.is_some() || jobdw.write_window_multiplier.is_some();
    is_asked_for.then(|| WindowRequest {
        length_s: jobdw.effective_write_window_length_s(),
        multiplier: jobdw.effective_write_window_multiplier(),
    })
}

fn persistent(create: &CreatePersistent) -> Result<Named, Refusal> {
    let allocation = AllocationRequest {
        capacity: create.capacity,
        pool: create.pool.clone(),
        strategy: Strategy::default(),
        kind: scratch(create.kind)?,
        access: access(&create.access)?,
        write_window: None,
    };
    Ok(Named { name: create.name.clone(), allocation })
}

fn scratch(kind: ConfigurationType) -> Result<ConfigurationType, Refusal> {
    match kind {
        ConfigurationType::Scratch => Ok(kind),
        ConfigurationType::Cache => Err(Refusal::Cache),
        ConfigurationType::Swap => Err(Refusal::Swap),
    }
}

fn access(access: &[Access]) -> Result<Vec<AccessRequest>, Refusal> {
    access
        .iter()
        .map(|access| match access.mode {
            AccessMode::Ldbalance => Err(Refusal::Ldbalance),
            mode => Ok(AccessRequest {
                mode,
                max_file_size: access.max_file_size,
                max_files: access.max_files,
                client_cache: access.client_cache,
            }),
        })
        .collect()
}

/// The staging of a directive: one path on each side, a list has its file only. The parser lets no other pair through;
/// whoever makes directives without it is told.
fn stage_spec(direction: StageDirection, stage: &Stage) -> Result<StageSpec, Refusal> {
    let impossible = Refusal::StagePaths { direction };
    if (stage.kind == Kind::List) != stage.destination.is_none() {
        return Err(impossible);
    }
    let (pfs, instance) = match (&stage.source, &stage.destination, direction) {
        (StagePath::Pfs(pfs), Some(instance), StageDirection::In) => (pfs, Some(instance)),
        (instance, Some(StagePath::Pfs(pfs)), StageDirection::Out) => (pfs, Some(instance)),
        (StagePath::Pfs(list), None, _) => (list, None),
        // A list that the job itself writes into the burst buffer.
        (list @ StagePath::Instance { .. }, None, StageDirection::Out) => (&NOWHERE, Some(list)),
        _ => return Err(impossible),
    };
    let (target, instance_path) = match instance {
        Some(StagePath::Instance { target, path, trailing_slash }) => {
            (stage_target(target), instance_path(path, *trailing_slash))
        }
        Some(StagePath::Pfs(_)) => return Err(impossible),
        None => (StageTarget::Job, Vec::new()),
    };
    let kind = match stage.kind {
        Kind::File => StageKind::File,
        Kind::Directory => StageKind::Directory,
        Kind::List => StageKind::List,
    };
    let pfs = PathBuf::from(OsString::from_vec(pfs.clone()));
    Ok(StageSpec { direction, kind, target, pfs, instance_path, tolerate_errors: stage.tolerate_errors })
}

/// The path on the parallel file system of a list that lies in the instance.
const NOWHERE: Vec<u8> = Vec::new();

/// The path within the instance; a slash at its end says that a file goes into the directory of that name.
fn instance_path(path: &[u8], trailing_slash: bool) -> Vec<u8> {
    let mut path = path.to_vec();
    if trailing_slash && !path.is_empty() {
        path.push(b'/');
    }
    path
}

fn stage_target(target: &InstanceRef) -> StageTarget {
    match target {
        InstanceRef::Job => StageTarget::Job,
        InstanceRef::Persistent(name) => StageTarget::Persistent(name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_directive::parse_script;

    fn plan(lines: &str) -> Result<Plan, Vec<Refused>> {
        let parsed = parse_script(format!("#!/bin/sh\n{lines}\n").as_bytes());
        assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
        Plan::new(&parsed.directives, None)
    }

    const JOB: &str = "#DW jobdw capacity=1GiB access_mode=striped type=scratch\n";

    #[test]
    fn no_staging_is_lost_on_the_way() {
        let lines = [
            "#DW stage_in type=file source=/a destination=$DW_JOB_STRIPED/",
            "#DW stage_in type=directory source=/a destination=$DW_JOB_STRIPED/d/",
            "#DW stage_in type=list source=/l",
            "#DW stage_out type=file source=$DW_JOB_STRIPED/f destination=/b",
            "#DW stage_out type=directory source=$DW_JOB_STRIPED destination=/b",
            "#DW stage_out type=list source=/l",
            "#DW stage_out type=list source=$DW_JOB_STRIPED/l",
        ];
        let plan = plan(&format!("{JOB}{}", lines.join("\n"))).unwrap();
        assert_eq!(plan.stages.len(), lines.len());
        assert_eq!(plan.stages[1].instance_path, b"d/");
        assert_eq!((plan.stages[6].pfs.as_os_str().len(), &plan.stages[6].instance_path[..]), (0, &b"l"[..]));
    }

    #[test]
    fn a_pair_of_paths_on_one_side_is_refused_and_not_dropped() {
        let pfs = || StagePath::Pfs(b"/a".to_vec());
        let inside =
            || StagePath::Instance { target: InstanceRef::Job, path: b"f".to_vec(), trailing_slash: false };
        let pairs = [(pfs(), Some(pfs())), (inside(), Some(inside())), (inside(), None), (pfs(), None)];
        for (source, destination) in pairs {
            let stage = Stage { kind: Kind::File, source, destination, tolerate_errors: false };
            let directives = [Located { line: 5, column: 1, value: Directive::StageIn(stage) }];
            let direction = StageDirection::In;
            let refused = Plan::new(&directives, None).unwrap_err();
            assert_eq!(refused, [Refused { line: 5, refusal: Refusal::StagePaths { direction } }]);
        }
    }

    #[test]
    fn what_one_machine_cannot_do_is_refused_all_at_once() {
        let refused = plan(&format!("{JOB}#DW swap 1GiB\n")).unwrap_err();
        assert_eq!((refused[0].line, refused[0].refusal), (3, Refusal::Swap));
        let cache = "#DW jobdw capacity=1GiB access_mode=striped type=cache pfs=/lus\n#DW swap 1GiB";
        let refused = plan(cache).unwrap_err();
        assert_eq!(
            refused.iter().map(|one| one.refusal).collect::<Vec<_>>(),
            [Refusal::Cache, Refusal::Swap]
        );
    }

    #[test]
    fn a_list_without_an_own_allocation_goes_with_the_persistent_one() {
        let plan = plan("#DW persistentdw name=p\n#DW stage_in type=list source=/l").unwrap();
        assert_eq!(plan.stages[0].target, StageTarget::Persistent("p".into()));
    }
}
