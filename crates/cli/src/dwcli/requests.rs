//! From the command line to requests of the controller, one for each object. Pure.

use super::args::*;
use crate::config::size_problem;
use forebay_controller::cluster::Request;
use forebay_controller::cluster::request::{
    ConfigurationChange, InstanceChange, ObjectId, PolicyChange, Space, Stage as StageRequest,
};
use forebay_controller::request::{AccessRequest, StageDirection, StageKind, WindowRequest};
use forebay_model::allocate;
use forebay_model::capacity::{Capacity, CapacityError, parse_bytes};
use forebay_model::ids::*;
use forebay_model::limits::{InstancePolicies, Policy, WINDOW_LENGTH_S, WINDOW_MULTIPLIER};
use forebay_model::objects::{AccessMode, ConfigurationType};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    /// Uid.
    pub uid: u32,
    /// Gid.
    pub gid: u32,
}

/// Why no request can be made of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A size.
    #[error("{option}: {}", size_problem(source))]
    Size {
        /// Which option.
        option: &'static str,
        /// Why.
        source: CapacityError,
    },
    /// A path that does not begin with a slash.
    #[error("{option} needs a path that begins with /, not {path}", path = path.display())]
    Relative {
        /// Which option.
        option: &'static str,
        /// What was given.
        path: PathBuf,
    },
    /// A directory without a slash at its end.
    #[error("--backing-path of a directory ends with /: write {path}/", path = path.display())]
    NoSlash {
        /// What was given.
        path: PathBuf,
    },
    /// A place for a mount that no text can say.
    #[error("--mount needs a path in UTF-8, not {path:?}")]
    Mount {
        /// What was given.
        path: PathBuf,
    },
    /// A cache.
    #[error("--type cache and --backing-path are not offered: use --type scratch, and dwcli stage to copy")]
    Cache,
}

/// The request of `create`. `group_of` knows the group of an owner.
///
/// # Errors
/// [`RequestError`]
pub fn create(
    create: &Create,
    caller: Person,
    group_of: impl FnOnce(u32) -> u32,
) -> Result<Request, RequestError> {
    Ok(match create {
        Create::Pool { name, granularity } => {
            let granularity = size("--granularity", granularity)?;
            Request::CreatePool { name: name.clone(), granularity }
        }
        Create::Session { token, owner, hosts, creator } => {
            let owner = owner.unwrap_or(caller.uid);
            let group = if owner == caller.uid { caller.gid } else { group_of(owner) };
            let (token, hosts, creator) = (token.clone(), hosts.clone(), creator.clone());
            Request::CreateSession { token, owner, group, hosts, creator }
        }
        Create::Instance(instance) => Request::CreateInstance {
            session: SessionId(instance.session),
            label: instance.label.clone(),
            space: space(instance)?,
        },
        Create::Configuration(configuration) => create_configuration(configuration)?,
        Create::Activation { session, configuration, mount } => Request::CreateActivation {
            session: SessionId(*session),
            configuration: ConfigurationId(*configuration),
            mount: mount.as_deref().map(place).transpose()?,
        },
    })
}

fn place(path: &Path) -> Result<String, RequestError> {
    if path.is_relative() {
        return Err(RequestError::Relative { option: "--mount", path: path.into() });
    }
    path.to_str().map(str::to_owned).ok_or_else(|| RequestError::Mount { path: path.into() })
}

fn space(instance: &Instance) -> Result<Space, RequestError> {
    let option = "--capacity";
    let capacity: Capacity =
        instance.capacity.parse().map_err(|source| RequestError::Size { option, source })?;
    Ok(Space {
        capacity,
        pool: instance.pool.clone(),
        strategy: match instance.optimization_strategy {
            Strategy::Bandwidth => allocate::Strategy::Bandwidth,
            Strategy::Interference => allocate::Strategy::Interference,
            Strategy::Wear => allocate::Strategy::Wear,
        },
        kind: ConfigurationType::Scratch,
        access: instance.access_mode.iter().map(|mode| access(*mode)).collect(),
        write_window: window(instance),
        policies: policies(&instance.policy),
    })
}

/// The write window, if one of its two parts is named; the other one is the usual then.
fn window(instance: &Instance) -> Option<WindowRequest> {
    let (length_s, multiplier) = (instance.write_window_length, instance.write_window_multiplier);
    (length_s.is_some() || multiplier.is_some()).then(|| WindowRequest {
        length_s: length_s.unwrap_or(WINDOW_LENGTH_S),
        multiplier: multiplier.unwrap_or(WINDOW_MULTIPLIER),
    })
}

/// What happens at the limits, if anything is said of it; the rest is refused then.
fn policies(asked: &[(Limit, Policy)]) -> Option<InstancePolicies> {
    let mut policies = InstancePolicies::default();
    for (limit, policy) in asked {
        match limit {
            Limit::WriteWindow => policies.write_window = *policy,
            Limit::FileSize => policies.file_size = *policy,
            Limit::FileCount => policies.file_count = *policy,
        }
    }
    (!asked.is_empty()).then_some(policies)
}

fn access(mode: Mode) -> AccessRequest {
    let mode = match mode {
        Mode::Stripe => AccessMode::Striped,
        Mode::Private => AccessMode::Private,
        Mode::Ldbalance => AccessMode::Ldbalance,
    };
    AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }
}

fn create_configuration(configuration: &Configuration) -> Result<Request, RequestError> {
    if configuration.kind == Kind::Cache || configuration.backing_path.is_some() {
        return Err(RequestError::Cache);
    }
    let max_file_size = configuration.max_file_size.as_deref();
    let max_file_size = max_file_size.map(|text| size("--max-file-size", text)).transpose()?;
    let max_files = configuration.max_files;
    Ok(Request::CreateConfiguration {
        instance: InstanceId(configuration.instance),
        kind: ConfigurationType::Scratch,
        access: AccessRequest { max_file_size, max_files, ..access(configuration.access_mode) },
    })
}

fn size(option: &'static str, text: &str) -> Result<forebay_model::units::Bytes, RequestError> {
    parse_bytes(text).map_err(|source| RequestError::Size { option, source })
}

/// The requests of `update`, with what each is about.
///
/// # Errors
/// [`RequestError`]
pub fn update(update: &Update) -> Result<Vec<(String, Request)>, RequestError> {
    Ok(match update {
        Update::Instance { id, write_window_length, write_window_multiplier, policy } => {
            let change = InstanceChange {
                write_window_length_s: *write_window_length,
                write_window_multiplier: *write_window_multiplier,
                policies: policy_change(policy),
            };
            let request = |id| Request::ChangeInstance { instance: InstanceId(id), change: change.clone() };
            of_ids(id, request)
        }
        Update::Configuration { id, max_file_size, max_files } => {
            let max_file_size = max_file_size.as_deref();
            let max_file_size = max_file_size.map(|text| size("--max-file-size", text)).transpose()?;
            let change = ConfigurationChange { max_file_size, max_files: *max_files };
            of_ids(id, |id| Request::ChangeConfiguration { configuration: ConfigurationId(id), change })
        }
        Update::Registration { id, .. } => {
            of_ids(id, |id| Request::NoWait { registration: RegistrationId(id) })
        }
        Update::Node { name, pool, drain, no_drain, .. } => {
            let request = |node: &String| match (drain, no_drain) {
                (false, false) => Request::AssignNode { node: node.clone(), pool: pool.clone() },
                (drain, _) => Request::Drain { node: node.clone(), drain: *drain },
            };
            name.iter().map(|name| (name.clone(), request(name))).collect()
        }
    })
}

fn of_ids(ids: &[u64], request: impl Fn(u64) -> Request) -> Vec<(String, Request)> {
    ids.iter().map(|id| (id.to_string(), request(*id))).collect()
}

/// What is said of the limits; the rest stays.
fn policy_change(asked: &[(Limit, Policy)]) -> PolicyChange {
    let mut change = PolicyChange::default();
    for (limit, policy) in asked {
        match limit {
            Limit::WriteWindow => change.write_window = Some(*policy),
            Limit::FileSize => change.file_size = Some(*policy),
            Limit::FileCount => change.file_count = Some(*policy),
        }
    }
    change
}

/// The requests of `rm`, with what each is about.
pub fn remove(remove: &Remove) -> Vec<(String, Request)> {
    let ids = |ids: &[u64], object: &dyn Fn(u64) -> ObjectId, hurry: bool| {
        ids.iter().map(|id| (id.to_string(), Request::Remove { object: object(*id), hurry })).collect()
    };
    match remove {
        Remove::Session { id, hurry } => ids(id, &|id| ObjectId::Session(SessionId(id)), *hurry),
        Remove::Activation { id } => ids(id, &|id| ObjectId::Activation(ActivationId(id)), false),
        Remove::Registration { id } => ids(id, &|id| ObjectId::Registration(RegistrationId(id)), false),
        Remove::Node { name } => {
            let request = |name: &String| Request::ForgetNode { node: name.clone() };
            name.iter().map(|name| (name.clone(), request(name))).collect()
        }
    }
}

/// The request of `stage in` and `stage out`.
///
/// # Errors
/// [`RequestError`]
pub fn stage(direction: StageDirection, paths: &StagePaths) -> Result<Request, RequestError> {
    let absolute = |option, path: &Path| match path.is_absolute() {
        true => Ok(path.as_os_str().as_bytes().to_vec()),
        false => Err(RequestError::Relative { option, path: path.to_owned() }),
    };
    let pfs = absolute("--backing-path", &paths.backing_path)?;
    let (kind, inner) = match (&paths.dir, &paths.file) {
        (Some(dir), _) => (StageKind::Directory, absolute("--dir", dir)?),
        (None, file) => (StageKind::File, absolute("--file", file.as_deref().unwrap_or(Path::new("")))?),
    };
    if kind == StageKind::Directory && !pfs.ends_with(b"/") {
        return Err(RequestError::NoSlash { path: paths.backing_path.clone() });
    }
    let start = inner.iter().position(|byte| *byte != b'/').unwrap_or(inner.len());
    Ok(Request::Stage {
        session: SessionId(paths.of.session),
        configuration: ConfigurationId(paths.of.configuration),
        stage: StageRequest {
            direction,
            kind,
            persistent: None,
            pfs,
            instance_path: inner[start..].to_vec(),
            tolerate_errors: false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use forebay_model::units::Bytes;

    const ANN: Person = Person { uid: 1000, gid: 100 };

    fn verb(line: &str) -> Verb {
        let words = ["dwcli"].into_iter().chain(line.split(' '));
        Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).verb
    }

    fn made(line: &str) -> Result<Request, RequestError> {
        match verb(line) {
            Verb::Create(what) => create(&what, ANN, |owner| owner + 1),
            Verb::Stage(Stage::In(paths)) => stage(StageDirection::In, &paths),
            Verb::Stage(Stage::Out(paths)) => stage(StageDirection::Out, &paths),
            other => panic!("{other:?}"),
        }
    }

    fn several(line: &str) -> Vec<Request> {
        let requests = match verb(line) {
            Verb::Update(what) => update(&what).unwrap(),
            Verb::Rm(what) => remove(&what),
            other => panic!("{other:?}"),
        };
        requests.into_iter().map(|(_, request)| request).collect()
    }

    #[test]
    fn what_operators_make() {
        let pool = Request::CreatePool { name: "wlm_pool".into(), granularity: Bytes(16 << 20) };
        assert_eq!(made("create pool --name wlm_pool --granularity 16MiB"), Ok(pool));
        let session = |owner, group, hosts: &[&str], creator: Option<&str>| Request::CreateSession {
            token: "mine".into(),
            owner,
            group,
            hosts: hosts.iter().map(|host| String::from(*host)).collect(),
            creator: creator.map(str::to_owned),
        };
        assert_eq!(made("create session --token mine"), Ok(session(1000, 100, &[], None)));
        assert_eq!(
            made("create session --hosts n1 n2 --owner 5001 --creator me --token mine"),
            Ok(session(5001, 5002, &["n1", "n2"], Some("me")))
        );
        assert_eq!(
            made("create session --token mine --hosts=n1,n2"),
            Ok(session(1000, 100, &["n1", "n2"], None))
        );
    }

    #[test]
    fn space_by_hand() {
        let Ok(Request::CreateInstance { session, label, space }) =
            made("create instance --label mine --capacity 512MiB --session 7 --pool p")
        else {
            panic!()
        };
        assert_eq!((session, label.as_str()), (SessionId(7), "mine"));
        assert_eq!(space.capacity, Capacity::Bytes(Bytes(512 << 20)));
        assert_eq!(space.access.iter().map(|access| access.mode).collect::<Vec<_>>(), [AccessMode::Striped]);
        let line = "create configuration --instance 8 --type scratch --access-mode stripe --root-permissions 0755 --group 513 --max-files 9";
        let Ok(Request::CreateConfiguration { instance, kind, access }) = made(line) else { panic!() };
        assert_eq!((instance, kind), (InstanceId(8), ConfigurationType::Scratch));
        assert_eq!((access.mode, access.max_files), (AccessMode::Striped, Some(9)));
        let limits = "create instance --label a --capacity 1GiB --session 7 --write-window-multiplier 3 --policy write_window=log,file_size=both";
        let Ok(Request::CreateInstance { space, .. }) = made(limits) else { panic!() };
        assert_eq!(space.write_window, Some(WindowRequest { length_s: WINDOW_LENGTH_S, multiplier: 3 }));
        let policies = InstancePolicies {
            write_window: Policy::Log,
            file_size: Policy::Both,
            ..InstancePolicies::default()
        };
        assert_eq!(space.policies, Some(policies));
        for wrong in ["write_window", "write_window=warn", "files=log"] {
            let line = format!("create instance --label a --capacity 1GiB --session 7 --policy {wrong}");
            assert!(
                Arguments::try_parse_from(["dwcli"].into_iter().chain(line.split(' '))).is_err(),
                "{wrong}"
            );
        }
        assert!(made("create activation --session 7 --configuration 9").is_ok());
        let Ok(Request::CreateActivation { mount, .. }) =
            made("create activation --mount /m --session 7 --configuration 9")
        else {
            panic!("it is an activation");
        };
        assert_eq!(mount.as_deref(), Some("/m"));
        let relative = made("create activation --mount m --session 7 --configuration 9");
        assert!(matches!(relative, Err(RequestError::Relative { option: "--mount", .. })), "{relative:?}");
        let cache = "create configuration --instance 8 --type cache --access-mode stripe --backing-path /lus";
        assert_eq!(made(cache), Err(RequestError::Cache));
        assert!(made("create instance --label a --capacity 1.5GiB --session 7").is_err());
    }

    #[test]
    fn several_at_once() {
        let node = |name: &str, pool: Option<&str>| Request::AssignNode {
            node: name.into(),
            pool: pool.map(String::from),
        };
        assert_eq!(
            several("update node --name n1 n2 --pool p"),
            [node("n1", Some("p")), node("n2", Some("p"))]
        );
        assert_eq!(several("update node --name n1 --no-pool"), [node("n1", None)]);
        let drain = |drain| Request::Drain { node: "n1".into(), drain };
        assert_eq!(several("update node --name n1 --drain"), [drain(true)]);
        assert_eq!(several("update node --name n1 --no-drain"), [drain(false)]);
        let session = |id| Request::Remove { object: ObjectId::Session(SessionId(id)), hurry: true };
        assert_eq!(several("rm session -i 7 8 --hurry"), [session(7), session(8)]);
        let change = InstanceChange {
            write_window_multiplier: Some(3),
            policies: PolicyChange { file_size: Some(Policy::Both), ..PolicyChange::default() },
            ..InstanceChange::default()
        };
        let changes =
            [4, 5].map(|id| Request::ChangeInstance { instance: InstanceId(id), change: change.clone() });
        assert_eq!(
            several("update instance -i 4 5 --write-window-multiplier 3 --policy file_size=both"),
            changes
        );
        let change = ConfigurationChange { max_file_size: Some(Bytes(1 << 30)), max_files: None };
        assert_eq!(
            several("update configuration --id 6 --max-file-size 1GiB"),
            [Request::ChangeConfiguration { configuration: ConfigurationId(6), change }]
        );
        for wrong in
            ["update instance -i 4", "update configuration -i 4", "update instance --policy file_size=both"]
        {
            assert!(
                Arguments::try_parse_from(["dwcli"].into_iter().chain(wrong.split(' '))).is_err(),
                "{wrong}"
            );
        }
        let wait = Request::NoWait { registration: RegistrationId(5) };
        assert_eq!(several("update registration -i 5 --no-wait"), [wait]);
        let bad =
            |line: &str| Arguments::try_parse_from(["dwcli"].into_iter().chain(line.split(' '))).is_err();
        assert!(bad("update node --name n1") && bad("update node --name n1 --drain --pool p"));
        assert!(bad("update registration -i 5") && bad("ls things"));
    }

    #[test]
    fn stagings_by_hand() {
        let staged = |line: &str| match made(line) {
            Ok(Request::Stage { stage, .. }) => (stage.kind, stage.pfs, stage.instance_path),
            other => panic!("{other:?}"),
        };
        let line = "stage out --session 7 --configuration 9 --backing-path /lus/out/ --dir /results";
        assert_eq!(staged(line), (StageKind::Directory, b"/lus/out/".to_vec(), b"results".to_vec()));
        let root = "stage in --session 7 --configuration 9 --backing-path /lus/in/ --dir /";
        assert_eq!(staged(root), (StageKind::Directory, b"/lus/in/".to_vec(), b"".to_vec()));
        let file = "stage in --session 7 --configuration 9 --backing-path /lus/f --file /f";
        assert_eq!(staged(file), (StageKind::File, b"/lus/f".to_vec(), b"f".to_vec()));
        let text = |line: &str| made(line).unwrap_err().to_string();
        assert!(
            text("stage out --session 7 --configuration 9 --backing-path /lus/out --dir /r")
                .contains("/lus/out/")
        );
        assert!(
            text("stage out --session 7 --configuration 9 --backing-path lus/ --dir /r")
                .contains("--backing-path")
        );
        assert!(
            text("stage out --session 7 --configuration 9 --backing-path /lus/ --dir r").contains("--dir")
        );
    }
}
