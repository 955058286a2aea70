//! A call of `dw_wlm_cli` as a value: one verb with what it needs.
//!
//! Pure. Every word that reaches the controller has been looked at here: numbers are numbers, names are text.

use super::hosts::{Form, NodeFile};
use super::options::{Name, OptionError, Options};
use super::pool_size::{PoolSize, PoolSizeError};
use std::ffi::OsString;
use std::path::PathBuf;

/// The verbs, for messages.
pub const VERBS: &str = "pools, show_instances, show_sessions, show_configurations, job_process, setup, data_in, \
     real_size, paths, pre_run, post_run, data_out, teardown, create_persistent";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The usage text.
    Help,
    /// The version.
    Version,
    /// The pools as JSON.
    Pools,
    /// The instances as JSON.
    ShowInstances,
    /// The sessions as JSON.
    ShowSessions,
    /// The configurations as JSON.
    ShowConfigurations,
    /// Judge a script.
    JobProcess {
        /// The script.
        job: PathBuf,
    },
    /// Make a job's session and space.
    Setup(Setup),
    /// Stage in.
    DataIn {
        /// The job.
        token: String,
    },
    /// The size of a job's space.
    RealSize {
        /// The job.
        token: String,
    },
    /// Write a job's variables to a file.
    Paths {
        /// The job.
        token: String,
        /// The file.
        pathfile: PathBuf,
    },
    /// Mount on the job's nodes.
    PreRun {
        /// The job.
        token: String,
        /// Where its nodes are listed.
        nodes: NodeFile,
    },
    /// Unmount.
    PostRun {
        /// The job.
        token: String,
    },
    /// Stage out.
    DataOut {
        /// The job.
        token: String,
    },
    /// End a job or destroy a persistent instance.
    Teardown {
        /// The job, or the name of the instance.
        token: String,
        /// Give up what is not staged out.
        hurry: bool,
    },
    /// Make a persistent instance.
    CreatePersistent(CreatePersistent),
}

/// What `setup` is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The job.
    pub token: String,
    /// Who asks, `SLURM`.
    pub caller: String,
    /// Uid of the owner.
    pub user: u32,
    /// Gid of the owner.
    pub group: u32,
    /// What Slurm counts for the job.
    pub capacity: PoolSize,
    /// The script.
    pub job: PathBuf,
}

/// What `create_persistent` is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePersistent {
    /// Its name.
    pub name: String,
    /// Who asks, `CLI`.
    pub caller: String,
    /// Uid of the owner.
    pub user: u32,
    /// Gid of the owner, which Slurm does not tell.
    pub group: Option<u32>,
    /// Its size.
    pub capacity: PoolSize,
    /// Access modes as written.
    pub access: Option<String>,
    /// Type as written.
    pub kind: Option<String>,
}

/// Why a call cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The words themselves.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// Not a verb. Slurm knows this text.
    #[error("invalid function {verb:?}: functions are {VERBS}")]
    Verb {
        /// What was given.
        verb: String,
    },
    /// No verb.
    #[error("invalid function: --function VERB is needed, and functions are {VERBS}")]
    NoVerb,
    /// An option that the verb needs.
    #[error("{verb} needs {option}")]
    Missing {
        /// The verb.
        verb: String,
        /// The option in its long form.
        option: &'static str,
    },
    /// Something that must be a number.
    #[error("{option} needs a number of up to 32 bits, not {value:?}")]
    Number {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
    },
    /// Something that must be text.
    #[error("{option} needs text in UTF-8, not {value:?}")]
    Text {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
    },
    /// The size.
    #[error(transparent)]
    Capacity(#[from] PoolSizeError),
}

impl Call {
    /// Reads the words behind the program's name.
    ///
    /// # Errors
    /// [`CallError`]
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Call, CallError> {
        let options = Options::read(words)?;
        if options.help {
            return Ok(Call::Help);
        }
        if options.version {
            return Ok(Call::Version);
        }
        let verb = options.get(Name::Function).ok_or(CallError::NoVerb)?.to_string_lossy().into_owned();
        Needs { verb: &verb, options: &options }.call()
    }

    /// The verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Call::Help => "help",
            Call::Version => "version",
            Call::Pools => "pools",
            Call::ShowInstances => "show_instances",
            Call::ShowSessions => "show_sessions",
            Call::ShowConfigurations => "show_configurations",
            Call::JobProcess { .. } => "job_process",
            Call::Setup(_) => "setup",
            Call::DataIn { .. } => "data_in",
            Call::RealSize { .. } => "real_size",
            Call::Paths { .. } => "paths",
            Call::PreRun { .. } => "pre_run",
            Call::PostRun { .. } => "post_run",
            Call::DataOut { .. } => "data_out",
            Call::Teardown { .. } => "teardown",
            Call::CreatePersistent(_) => "create_persistent",
        }
    }
}

/// The options of one verb.
struct Needs<'o> {
    verb: &'o str,
    options: &'o Options,
}

impl Needs<'_> {
    fn call(&self) -> Result<Call, CallError> {
        Ok(match self.verb {
            "pools" => Call::Pools,
            "show_instances" => Call::ShowInstances,
            "show_sessions" => Call::ShowSessions,
            "show_configurations" => Call::ShowConfigurations,
            "job_process" => Call::JobProcess { job: self.path(Name::Job)? },
            "setup" => Call::Setup(self.setup()?),
            "data_in" => Call::DataIn { token: self.text(Name::Token)? },
            "real_size" => Call::RealSize { token: self.text(Name::Token)? },
            "paths" => Call::Paths { token: self.text(Name::Token)?, pathfile: self.path(Name::PathFile)? },
            "pre_run" => Call::PreRun { token: self.text(Name::Token)?, nodes: self.nodes()? },
            "post_run" => Call::PostRun { token: self.text(Name::Token)? },
            "data_out" => Call::DataOut { token: self.text(Name::Token)? },
            "teardown" => Call::Teardown { token: self.text(Name::Token)?, hurry: self.options.hurry },
            "create_persistent" => Call::CreatePersistent(self.create_persistent()?),
            other => return Err(CallError::Verb { verb: other.to_owned() }),
        })
    }

    fn setup(&self) -> Result<Setup, CallError> {
        Ok(Setup {
            token: self.text(Name::Token)?,
            caller: self.text(Name::Caller)?,
            user: self.number(Name::User)?,
            group: self.number(Name::GroupId)?,
            capacity: self.text(Name::Capacity)?.parse()?,
            job: self.path(Name::Job)?,
        })
    }

    fn create_persistent(&self) -> Result<CreatePersistent, CallError> {
        let given = |name| self.options.get(name).map(|_| self.text(name)).transpose();
        let group = self.options.get(Name::GroupId).map(|_| self.number(Name::GroupId)).transpose()?;
        Ok(CreatePersistent {
            name: self.text(Name::Token)?,
            caller: self.text(Name::Caller)?,
            user: self.number(Name::User)?,
            group,
            capacity: self.text(Name::Capacity)?.parse()?,
            access: given(Name::Access)?,
            kind: given(Name::Type)?,
        })
    }

    /// Names are what every Slurm of today writes; numbers are those of native Cray machines.
    fn nodes(&self) -> Result<NodeFile, CallError> {
        match self.options.get(Name::NidListFile) {
            Some(path) if self.options.get(Name::NodeHostNameFile).is_none() => {
                Ok(NodeFile { path: path.into(), form: Form::Numbers })
            }
            _ => Ok(NodeFile { path: self.path(Name::NodeHostNameFile)?, form: Form::Names }),
        }
    }

    fn missing(&self, name: Name) -> CallError {
        CallError::Missing { verb: self.verb.to_owned(), option: name.long() }
    }

    fn path(&self, name: Name) -> Result<PathBuf, CallError> {
        let given = self.options.get(name).filter(|path| !path.is_empty());
        given.map(PathBuf::from).ok_or_else(|| self.missing(name))
    }

    fn text(&self, name: Name) -> Result<String, CallError> {
        let given =
            self.options.get(name).filter(|text| !text.is_empty()).ok_or_else(|| self.missing(name))?;
        let value = || given.to_string_lossy().into_owned();
        let text = given.to_str().map(str::to_owned);
        text.ok_or_else(|| CallError::Text { option: name.long(), value: value() })
    }

    fn number(&self, name: Name) -> Result<u32, CallError> {
        let value = self.text(name)?;
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse().ok().filter(|_| digits);
        number.ok_or(CallError::Number { option: name.long(), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::units::Bytes;

    fn read(line: &str) -> Result<Call, CallError> {
        Call::read(line.split(' ').map(OsString::from))
    }

    fn pool(pool: &str, size: u64) -> PoolSize {
        PoolSize { pool: pool.into(), size: Bytes(size) }
    }

    /// The very lines that Slurm 22.05 was seen to write.
    #[test]
    fn slurms_own_calls() {
        let job = PathBuf::from("/d/state/hash.1/job.1/script");
        let token = || "1".to_string();
        assert_eq!(read("--function pools"), Ok(Call::Pools));
        assert_eq!(
            read("--function job_process --job /d/state/hash.1/job.1/script"),
            Ok(Call::JobProcess { job: job.clone() })
        );
        let setup = Setup {
            token: token(),
            caller: "SLURM".into(),
            user: 5001,
            group: 5001,
            capacity: pool("default", 96 << 20),
            job,
        };
        let line = "--function setup --token 1 --caller SLURM --user 5001 --groupid 5001 --capacity default:96MiB --job /d/state/hash.1/job.1/script";
        assert_eq!(read(line), Ok(Call::Setup(setup.clone())));
        assert_eq!(read(&format!("{line} --nodehostnamefile /d/client_nids")), Ok(Call::Setup(setup)));
        assert_eq!(read("--function data_in --token 1 --job /d/script"), Ok(Call::DataIn { token: token() }));
        assert_eq!(read("--function real_size --token 1"), Ok(Call::RealSize { token: token() }));
        assert_eq!(
            read("--function paths --job /d/script --token 1 --pathfile /d/path"),
            Ok(Call::Paths { token: token(), pathfile: "/d/path".into() })
        );
        let nodes = NodeFile { path: "/d/client_nids".into(), form: Form::Names };
        assert_eq!(
            read("--function pre_run --token 1 --job /d/script --nodehostnamefile /d/client_nids"),
            Ok(Call::PreRun { token: token(), nodes })
        );
        assert_eq!(
            read("--function teardown --token alpha --job /d/script --hurry"),
            Ok(Call::Teardown { token: "alpha".into(), hurry: true })
        );
        let create = CreatePersistent {
            name: "alpha".into(),
            caller: "CLI".into(),
            user: 5001,
            group: None,
            capacity: pool("default", 33_554_432),
            access: Some("striped".into()),
            kind: Some("scratch".into()),
        };
        let line = "--function create_persistent -c CLI -t alpha -u 5001 -C default:33554432";
        assert_eq!(
            read(&format!("{line} -a striped -T scratch")),
            Ok(Call::CreatePersistent(create.clone()))
        );
        let bare = CreatePersistent { access: None, kind: None, ..create };
        assert_eq!(read(line), Ok(Call::CreatePersistent(bare)));
    }

    #[test]
    fn node_numbers_of_native_cray_machines() {
        let nodes = NodeFile { path: "/d/nids".into(), form: Form::Numbers };
        assert_eq!(
            read("-f pre_run -t 1 --nidlistfile /d/nids"),
            Ok(Call::PreRun { token: "1".into(), nodes })
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let text = |line: &str| read(line).unwrap_err().to_string();
        assert!(text("-f nosuch").starts_with("invalid function"));
        assert!(text("-t 1").starts_with("invalid function"));
        assert_eq!(text("-f teardown"), "teardown needs --token");
        assert_eq!(text("-f pre_run -t 1"), "pre_run needs --nodehostnamefile");
        assert_eq!(text("-f paths -t 1"), "paths needs --pathfile");
        let setup = |user: &str| format!("-f setup -t 1 -c S -u {user} -g 1 -C p:0 -j /s");
        for user in ["-1", "+1", "root", "4294967296", "0x1"] {
            let expected = format!("--user needs a number of up to 32 bits, not {user:?}");
            assert_eq!(text(&setup(user)), expected);
        }
    }

    #[test]
    fn every_verb_is_known_by_its_name() {
        for verb in VERBS.split(", ") {
            let line = format!(
                "-f {verb} -t 1 -c S -u 1 -g 1 -C p:0 -j /s --pathfile /p --nodehostnamefile /n --jobexecutionnodefile /l"
            );
            assert_eq!(read(&line).unwrap().verb(), verb);
        }
    }
}
