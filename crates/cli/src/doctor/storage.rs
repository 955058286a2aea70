//! What a storage node gives, by the configuration of its agent.

use super::finding::Finding;
use super::role::AGENT_FILE;
use forebay_agent::daemon::{AgentConfig, StorageConfig, StorageKind};
use forebay_model::units::Bytes;
use std::path::Path;

const SUBJECT: &str = "storage";

/// Looks at `[storage]`, if there is one.
pub fn check() -> Vec<Finding> {
    check_file(Path::new(AGENT_FILE))
}

fn check_file(file: &Path) -> Vec<Finding> {
    if !file.exists() {
        return Vec::new();
    }
    match AgentConfig::read(file) {
        Err(error) => {
            vec![Finding::bad(SUBJECT, error.to_string(), format!("correct {}", file.display()))]
        }
        Ok(config) => config.storage.as_ref().map_or(Vec::new(), |storage| {
            let disk = rustix::fs::statvfs(&storage.directory).ok();
            let disk = disk.map(|space| Bytes(space.f_blocks.saturating_mul(space.f_frsize)));
            judge(storage, disk, storage.check().err().map(|error| error.to_string()))
        }),
    }
}

/// `disk` is the size of the file system of the directory, `obstacle` what keeps fragments of the kind from being made.
fn judge(storage: &StorageConfig, disk: Option<Bytes>, obstacle: Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(obstacle) = obstacle {
        findings.push(Finding::bad(SUBJECT, obstacle, "install what is missing, or choose another kind"));
    }
    if let Some(warning) = storage.warning() {
        let change = "set overcommit = false where jobs keep anything that they need";
        findings.push(Finding::doubtful(SUBJECT, warning, change));
    }
    match disk {
        _ if matches!(storage.kind, StorageKind::Lvm { .. }) => {}
        Some(disk) if disk < storage.capacity && storage.warning().is_none() => {
            let found = format!(
                "{} has {} bytes, and capacity promises {}",
                storage.directory.display(),
                disk.0,
                storage.capacity.0
            );
            findings.push(Finding::doubtful(
                SUBJECT,
                found,
                "set capacity to what jobs may have of the disk",
            ));
        }
        Some(_) => {}
        None => {
            let found = format!("{} cannot be looked at", storage.directory.display());
            findings.push(Finding::bad(SUBJECT, found, "mount the disk, or make the directory"));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::good(SUBJECT, format!("{} gives {} bytes", storage.pool, storage.capacity.0)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;
    use std::time::Duration;

    fn storage(kind: StorageKind) -> StorageConfig {
        StorageConfig {
            pool: "p".into(),
            directory: "/ssd".into(),
            kind,
            capacity: Bytes(1000),
            granularity: Bytes(10),
            listen: "n:1".parse().unwrap(),
            address: "n:1".parse().unwrap(),
            socket: "/run/s".into(),
            grace: Duration::from_secs(30),
        }
    }

    #[test]
    fn a_file_that_is_refused_is_told_with_its_line() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("agent.toml");
        assert_eq!(check_file(&file), []);
        std::fs::write(&file, "node = 'n'\n[storage]\npol = 'p'\n").unwrap();
        let found = check_file(&file);
        assert_eq!(found[0].grade, Grade::Bad);
        assert!(found[0].found.contains("line 3") && found[0].change.contains("agent.toml"), "{}", found[0]);
        std::fs::write(&file, "node = 'n'\n").unwrap();
        assert_eq!(check_file(&file), [], "it gives nothing");
    }

    #[test]
    fn what_is_promised_is_compared_with_what_is_there() {
        let grades = |storage: &StorageConfig, disk: Option<u64>, obstacle: Option<&str>| {
            let findings = judge(storage, disk.map(Bytes), obstacle.map(str::to_owned));
            findings.iter().map(|finding| finding.grade).collect::<Vec<_>>()
        };
        let [whole, sparse] = [false, true].map(|overcommit| storage(StorageKind::Image { overcommit }));
        assert_eq!(grades(&whole, Some(1000), None), [Grade::Good]);
        assert_eq!(grades(&whole, Some(999), None), [Grade::Doubtful]);
        assert_eq!(grades(&whole, None, None), [Grade::Bad]);
        assert_eq!(grades(&sparse, Some(999), None), [Grade::Doubtful]);
        assert!(judge(&sparse, Some(Bytes(999)), None)[0].found.contains("overcommit = true"));
        let volumes = storage(StorageKind::Lvm { volume_group: "fast".into() });
        assert_eq!(grades(&volumes, Some(1), None), [Grade::Good]);
        assert_eq!(grades(&volumes, Some(1), Some("no device mapper")), [Grade::Bad]);
    }
}
