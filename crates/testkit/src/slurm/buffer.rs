//! Forebay on a site: its programs and its files of configuration, as an administrator would write them.

use super::etc::{Directories, write};
use super::{BufferOptions, FragmentKind, PoolOptions, Site, SiteError};
use crate::cluster::{Cluster, Host, HostId};
use crate::process;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the controller listens; every host has an address of its own.
const CONTROLLER_PORT: u16 = 7080;
/// Where the file server of a storage node listens.
const SERVER_PORT: u16 = 7070;
/// Where it listens when it has moved.
const MOVED_PORT: u16 = 7071;

/// Name of the registry: fragments of another one are left alone.
const REGISTRY: &str = "box";

/// What `slurm.conf` says of the plugin.
pub(super) const SLURM_LINES: &str = "BurstBufferType=burst_buffer/datawarp\nDebugFlags=BurstBuffer\n";

/// Programs without which nothing goes.
const PROGRAMS: [&str; 4] = ["forebay", "dwstat", "dwcli", "dw_wlm_cli"];

/// Puts the programs and the files where the hosts find them.
pub(super) fn install(
    cluster: &Cluster,
    directories: &Directories,
    buffer: &BufferOptions,
) -> Result<(), SiteError> {
    for program in PROGRAMS {
        install_program(&buffer.programs.join(program), &directories.programs.join(program))?;
    }
    write(&directories.slurm.join("burst_buffer.conf"), &plugin(directories, buffer))?;
    let control = cluster.host(HostId::Control);
    for host in cluster.hosts() {
        let file = |name: &str| host.directory().join("etc").join(name);
        match host.id() {
            HostId::Control => write(&file("controller.toml"), &controller(control, buffer))?,
            HostId::Server(number) => {
                let pool = &buffer.pools[number % buffer.pools.len()];
                write(&file("agent.toml"), &(agent(host) + &storage(host, pool, buffer)))?;
            }
            HostId::Client(_) => write(&file("agent.toml"), &agent(host))?,
        }
        let address = match host.id() {
            HostId::Control => "unix:/run/forebay/controller.sock".to_owned(),
            _ => format!("{}:{CONTROLLER_PORT}", control.address()),
        };
        write(&file("client.toml"), &format!("controller = {address:?}\n"))?;
    }
    Ok(())
}

impl Site {
    /// Lets the file server of a storage node listen somewhere else from the next start of its agent.
    pub fn move_file_server(&self, host: HostId) -> Result<(), SiteError> {
        let host = self.cluster().host(host);
        let (path, address) = (host.directory().join("etc/agent.toml"), host.address());
        let line = |port: u16| format!("listen = \"{address}:{port}\"\n");
        let text = fs::read_to_string(&path).map_err(SiteError::file(&path))?;
        let (from, to) = if text.contains(&line(SERVER_PORT)) {
            (SERVER_PORT, MOVED_PORT)
        } else {
            (MOVED_PORT, SERVER_PORT)
        };
        write(&path, &text.replace(&line(from), &line(to)))
    }
}

/// The same file under another name where that goes: programs are large. Otherwise a copy, made by a process of its own: a file
/// that is open for writing cannot be run, and a child that another test forks at this moment would inherit it.
fn install_program(from: &Path, to: &Path) -> Result<(), SiteError> {
    if std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    process::run(Command::new("cp").args([from, to]), super::LIMIT)?.success()?;
    Ok(())
}

fn plugin(directories: &Directories, buffer: &BufferOptions) -> String {
    let programs = directories.programs.display();
    format!(
        "GetSysState={programs}/dw_wlm_cli\nGetSysStatus={programs}/dwstat\nDefaultPool={}\n\
         Flags=EnablePersistent\n{}\n",
        buffer.pools[0].name, buffer.more
    )
}

fn controller(host: &Host, buffer: &BufferOptions) -> String {
    let mut text = format!(
        "registry = {REGISTRY:?}\nlisten = [\"{}:{CONTROLLER_PORT}\"]\nstate = {:?}\nlost_after_s = {}\n",
        host.address(),
        host.directory().join("controller"),
        buffer.lost_after_s
    );
    for pool in &buffer.pools {
        let _ = writeln!(text, "\n[[pool]]\nname = {:?}\ngranularity = {:?}", pool.name, pool.granularity);
    }
    text
}

fn agent(host: &Host) -> String {
    let state = host.directory().join("agent");
    format!("registry = {REGISTRY:?}\nstate = {state:?}\n\n[mounts]\nholders = \"kill\"\n")
}

fn storage(host: &Host, pool: &PoolOptions, buffer: &BufferOptions) -> String {
    let overcommit = if buffer.kind == FragmentKind::SparseImage { "overcommit = true\n" } else { "" };
    format!(
        "\n[storage]\npool = {:?}\ndirectory = {:?}\nkind = {:?}\ncapacity = {:?}\ngranularity = {:?}\n\
         listen = \"{}:{SERVER_PORT}\"\n{overcommit}",
        pool.name,
        host.fragment(),
        buffer.kind.name(),
        pool.node_capacity,
        pool.granularity,
        host.address()
    )
}
