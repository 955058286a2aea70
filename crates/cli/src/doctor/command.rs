//! `forebay doctor` as a command: looks, prints, and ends with 1 if something does not work.

use super::controller;
use super::finding::{Finding, Grade};
use super::role::{Role, detect};
use super::slurm_files::{SlurmFiles, node_names};
use super::{clock, custody, kernel, munge, nodes, pipes, ports, storage, versions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::say;
use clap::Args;
use forebay_controller::client::Address;

/// `forebay doctor`
#[derive(Args, Clone, Debug, Default)]
pub struct Doctor {
    /// What this machine is; may be repeated [default: by its files in /etc/forebay].
    #[arg(long, value_name = "ROLE")]
    pub role: Vec<Role>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Looks the machine over.
pub fn doctor(arguments: &Doctor) -> Result<Exit, CommandError> {
    let roles = if arguments.role.is_empty() { detect() } else { arguments.role.clone() };
    let findings = findings(&roles);
    let text = if arguments.json { as_json(&roles, &findings) } else { as_text(&roles, &findings) };
    say::answer(text).map_err(CommandError::Output)?;
    let worst = findings.iter().map(|finding| finding.grade).max();
    Ok(if worst == Some(Grade::Bad) { Exit::Troubles } else { Exit::Success })
}

fn findings(roles: &[Role]) -> Vec<Finding> {
    let mut findings = versions::check();
    findings.push(clock::check());
    let by_socket = matches!(Address::configured(), Ok(Address::Unix(_)));
    if !by_socket || roles.contains(&Role::Controller) {
        findings.push(munge::check());
    }
    findings.extend(roles.iter().flat_map(|role| kernel::check(*role)));
    findings.extend(roles.iter().filter_map(|role| custody::check(*role)));
    if roles.contains(&Role::Storage) {
        findings.extend(storage::check());
        findings.push(pipes::check());
    }
    let (finding, snapshot) = controller::check();
    findings.extend(roles.iter().flat_map(|role| ports::check(*role, snapshot.as_ref())));
    findings.push(finding);
    if let Some(snapshot) = &snapshot {
        findings.extend(nodes::check(snapshot));
    }
    let pools: Option<Vec<String>> =
        snapshot.as_ref().map(|snapshot| snapshot.pools.iter().map(|pool| pool.name.clone()).collect());
    match SlurmFiles::read() {
        Some(files) if roles.contains(&Role::Controller) => {
            findings.extend(files.check(pools.as_deref()));
            if let (Some(snapshot), Some(names)) = (&snapshot, node_names()) {
                findings.push(nodes::check_slurm(snapshot, &names));
            }
        }
        None if roles.contains(&Role::Controller) => {
            let change = "set SLURM_CONF, or run forebay doctor where slurmctld runs";
            findings.push(Finding::doubtful("slurm", "there is no slurm.conf on this machine", change));
        }
        _ => {}
    }
    findings
}

fn as_text(roles: &[Role], findings: &[Finding]) -> String {
    let mut text = format!("as {}:\n", named(roles).join(", "));
    for finding in findings {
        text.push_str(&format!("{finding}\n"));
    }
    let count = |grade| findings.iter().filter(|finding| finding.grade == grade).count();
    let (bad, doubtful) = (count(Grade::Bad), count(Grade::Doubtful));
    text.push_str(&format!("{bad} to be changed, {doubtful} to be looked at\n"));
    text
}

fn as_json(roles: &[Role], findings: &[Finding]) -> String {
    format!("{:#}\n", serde_json::json!({ "roles": named(roles), "findings": findings }))
}

fn named(roles: &[Role]) -> Vec<&'static str> {
    let name = |role: &Role| match role {
        Role::Controller => "controller",
        Role::Storage => "storage",
        Role::Compute => "compute",
        Role::Login => "login",
    };
    roles.iter().map(name).collect()
}
