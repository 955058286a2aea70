//! The files of a site, and the private `/etc`, `/run` and `/var/opt` of its hosts.
//!
//! A host sees the machine's `/etc` under a layer of its own, so that what is written there is seen in this host only and
//! is gone when it ends.

use super::{Options, SiteError, accounts, buffer, service};
use crate::cluster::{Cluster, Host, HostId};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where programs look for MUNGE.
pub(super) const MUNGE_SOCKET: &str = "/run/munge/munge.socket.2";

/// Random bytes of the key of credentials.
const KEY_BYTES: usize = 128;

/// Run in a host as root: `$1` a directory of its own, `$2` the directory of all.
const FURNISH: &str = r#"
mkdir -p "$1/private"
mount -t tmpfs -o mode=0755 none "$1/private"
cd "$1/private"
mkdir upper work run opt
mount -t overlay -o "lowerdir=/etc,upperdir=$PWD/upper,workdir=$PWD/work" overlay /etc
mount --bind run /run
mount --bind opt /var/opt
mkdir -p /etc/slurm /etc/forebay /etc/munge
mount --bind "$2/etc/slurm" /etc/slurm
mount --bind "$1/etc" /etc/forebay
cp "$2/etc/passwd" "$2/etc/group" "$2/etc/hosts" /etc
chown munge: /etc/munge
install -o munge -m 0400 "$2/etc/munge.key" /etc/munge/munge.key
install -d -o munge -m 0755 /run/munge
install -d -o slurm -m 0755 /run/slurm
install -d -m 0755 /run/forebay
"#;

/// Directories that all hosts see.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) root: PathBuf,
    pub(super) homes: PathBuf,
    pub(super) slurm: PathBuf,
    pub(super) programs: PathBuf,
}

impl Directories {
    /// Makes them with their files.
    pub(super) fn make(cluster: &Cluster, options: &Options) -> Result<Directories, SiteError> {
        let root = cluster.directory().to_owned();
        let (homes, etc) = (root.join("home"), root.join("etc"));
        let made = Directories { slurm: etc.join("slurm"), programs: root.join("bin"), homes, root };
        for directory in [&made.homes, &made.slurm, &made.programs] {
            fs::create_dir_all(directory).map_err(SiteError::file(directory))?;
        }
        let slurm = service::account("slurm")?;
        make_owned(&made.root.join("slurm"), slurm.uid, slurm.gid, 0o755)?;
        for user in accounts::USERS.into_iter().chain([accounts::ROOT]) {
            make_owned(&made.homes.join(user.name), user.uid, user.uid, 0o700)?;
        }
        write_accounts(&etc, &made.homes)?;
        write(&etc.join("hosts"), &hosts(cluster))?;
        write_key(&etc.join("munge.key"))?;
        write(&made.slurm.join("slurm.conf"), &slurm_conf(cluster, &made, options))?;
        for host in cluster.hosts() {
            let own = host.directory().join("etc");
            fs::create_dir_all(&own).map_err(SiteError::file(&own))?;
        }
        if let Some(buffer) = &options.buffer {
            buffer::install(cluster, &made, buffer)?;
        }
        Ok(made)
    }
}

/// Gives a host that just booted its private directories.
pub(super) fn furnish(host: &Host, directories: &Directories) -> Result<(), SiteError> {
    let mut command = Command::new("bash");
    command.args(["-Eeuo", "pipefail", "-c", FURNISH, "furnish"]);
    command.arg(host.directory()).arg(&directories.root);
    host.success(&mut command, super::LIMIT)?;
    Ok(())
}

fn make_owned(path: &Path, uid: u32, gid: u32, mode: u32) -> Result<(), SiteError> {
    let made = fs::create_dir_all(path).and_then(|()| chown(path, Some(uid), Some(gid)));
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(SiteError::file(path))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), SiteError> {
    fs::write(path, text).map_err(SiteError::file(path))
}

fn write_accounts(etc: &Path, homes: &Path) -> Result<(), SiteError> {
    let machine = |path: &str| fs::read_to_string(path).map_err(SiteError::file(path));
    write(&etc.join("passwd"), &accounts::passwd(&machine("/etc/passwd")?, homes))?;
    write(&etc.join("group"), &accounts::group(&machine("/etc/group")?))
}

fn write_key(path: &Path) -> Result<(), SiteError> {
    let mut key = [0; KEY_BYTES];
    getrandom(&mut key, GetRandomFlags::empty()).map_err(|errno| SiteError::file(path)(errno.into()))?;
    fs::write(path, key).map_err(SiteError::file(path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o400)).map_err(SiteError::file(path))
}

fn hosts(cluster: &Cluster) -> String {
    let mut text = "127.0.0.1 localhost\n".to_owned();
    for host in cluster.hosts() {
        let _ = writeln!(text, "{} {}", host.address(), host.id());
    }
    text
}

fn slurm_conf(cluster: &Cluster, directories: &Directories, options: &Options) -> String {
    let control = cluster.host(HostId::Control);
    let (root, address, slurm) = (directories.root.display(), control.address(), &options.slurm);
    let last = options.compute_nodes.saturating_sub(1);
    let plugin = if options.buffer.is_some() { buffer::SLURM_LINES } else { "" };
    format!(
        "ClusterName=box
SlurmctldHost=control({address})
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation={root}/slurm
SlurmdSpoolDir={root}/%n/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=pmi2
MailProg=/bin/true
ReturnToService=2
PropagateResourceLimits=NONE
BatchStartTimeout=60
KillWait={}
{plugin}{}
NodeName=client[0-{last}] CPUs={} RealMemory=2000 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
",
        slurm.kill_wait_s, slurm.more, slurm.cpus
    )
}
