//! What is left of the burst buffer's work, and what Slurm shows of it.

use super::{ASK_AGAIN_AFTER, HostId, LIMIT, ROOT, Site, SiteError};
use crate::cluster::Host;
use crate::{mounts, wait};
use std::path::{Path, PathBuf};

/// `scontrol show burst`.
#[derive(Clone, Debug)]
pub struct Burst {
    /// As it is shown.
    pub text: String,
}

impl Burst {
    /// The lines of buffers, without their indentation.
    pub fn buffers(&self) -> Vec<&str> {
        let lines = self.text.lines().map(str::trim);
        let after = lines.skip_while(|line| *line != "Allocated Buffers:").skip(1);
        after.take_while(|line| line.starts_with("JobID=") || line.starts_with("Name=")).collect()
    }

    /// Size of the buffer of a job or of a name, as it is shown.
    pub fn size_of(&self, whose: &str) -> Option<&str> {
        let (job, name) = (format!("JobID={whose} "), format!("Name={whose} "));
        let buffers = self.buffers();
        let line = buffers.into_iter().find(|line| line.starts_with(&job) || line.starts_with(&name))?;
        line.split_whitespace().find_map(|word| word.strip_prefix("Size="))
    }
}

impl Site {
    /// `scontrol show burst`, as the operator sees it.
    pub fn burst(&self) -> Result<Burst, SiteError> {
        Ok(Burst { text: self.shell(&ROOT, "scontrol show burst")? })
    }

    /// What the plugin would get of a verb without arguments.
    pub fn ask_plugin(&self, function: &str) -> Result<String, SiteError> {
        self.shell(&ROOT, &format!("dw_wlm_cli --function {function}"))
    }

    /// Awaits that no session, no granule in use, no mount and no fragment is left.
    pub fn await_empty(&self) -> Result<(), SiteError> {
        let mut left = String::new();
        let empty = wait::wait_until_every(ASK_AGAIN_AFTER, "the release of all buffers", LIMIT, || {
            left = self.leftovers().unwrap_or_else(|error| error.to_string());
            left.is_empty()
        });
        empty.map_err(|_| SiteError::Left { left })
    }

    /// One line for each thing that is in use.
    fn leftovers(&self) -> Result<String, SiteError> {
        let script = r#"
            dw_wlm_cli --function show_sessions | jq -r '.sessions[] | "session of \(.token)"'
            dw_wlm_cli --function show_instances | jq -r '.instances[] | "instance \(.id)"'
            dw_wlm_cli --function pools | jq -r '.pools[] | select(.free != .quantity) | "pool \(.id): \(.free) of \(.quantity)"'
        "#;
        let mut left = self.shell(&ROOT, script)?;
        for host in self.cluster().hosts() {
            for line in left_on(host)? {
                left += &format!("{}: {line}\n", host.id());
            }
        }
        Ok(left)
    }
}

/// By this file of its own an agent knows its disk; it stays.
const DISK_RECORD: &str = "forebay.json";

fn left_on(host: &Host) -> Result<Vec<String>, SiteError> {
    let root = host.seen(Path::new("/"))?;
    let keeper = root.iter().nth(2).and_then(|number| number.to_str()?.parse().ok()).unwrap_or_default();
    // The machine's own mounts are seen here too. The fragment's own disk stays mounted.
    let places = [PathBuf::from("/var/opt/cray"), host.fragment(), host.directory().join("agent")];
    let of_ours = |mount: &mounts::Mount| {
        mount.point != host.fragment() && places.iter().any(|place| mount.point.starts_with(place))
    };
    let mounts = mounts::of_process(keeper).into_iter().filter(of_ours);
    let mut left: Vec<_> = mounts.map(|mount| format!("mount at {}", mount.point.display())).collect();
    if matches!(host.id(), HostId::Server(_)) {
        let entries = std::fs::read_dir(host.fragment()).map_err(SiteError::file(host.fragment()))?;
        let fragments = entries.flatten().filter(|entry| entry.file_name() != DISK_RECORD);
        left.extend(fragments.map(|entry| format!("fragment {}", entry.path().display())));
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_found_by_job_and_by_name() {
        let text = "Name=datawarp DefaultPool=default Granularity=16MiB TotalSpace=10GiB FreeSpace=10144MiB UsedSpace=96MiB\n  Allocated Buffers:\n    JobID=1 CreateTime=2026 Pool=default Size=96MiB State=staged-in UserID=a(5001)\n    Name=alpha CreateTime=2026 Pool=default Size=32MiB State=allocated UserID=a(5001)\n  Per User Buffer Use:\n    UserID=a(5001) Used=128MiB\n";
        let burst = Burst { text: text.into() };
        assert_eq!(burst.buffers().len(), 2);
        assert_eq!(
            (burst.size_of("1"), burst.size_of("alpha"), burst.size_of("a")),
            (Some("96MiB"), Some("32MiB"), None)
        );
    }
}
