//! Slurm's configuration, as far as the burst buffer depends on it. Pure: the texts of `slurm.conf` and
//! `burst_buffer.conf` go in.

use super::finding::Finding;
use std::collections::BTreeMap;

const SUBJECT: &str = "slurm";
/// Keys of `burst_buffer.conf` that Slurm 22.05 knows; any other one ends slurmctld.
const KNOWN_KEYS: [&str; 18] = [
    "allowusers",
    "denyusers",
    "defaultpool",
    "flags",
    "getsysstate",
    "getsysstatus",
    "othertimeout",
    "stageintimeout",
    "stageouttimeout",
    "validatetimeout",
    "pools",
    "granularity",
    "directive",
    "createbuffer",
    "destroybuffer",
    "startstagein",
    "startstageout",
    "stopstagein",
];
/// Those that came later or belong to other plugins, and are known too.
const MORE_KEYS: [&str; 2] = ["stopstageout", "pollinterval"];
/// What Slurm's values are without a line.
const MESSAGE_TIMEOUT_S: u64 = 10;
const VALIDATE_TIMEOUT_S: u64 = 5;
const OTHER_TIMEOUT_S: u64 = 300;

/// Keys in small letters with their last values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(BTreeMap<String, String>);

impl Keys {
    /// Reads lines of `Key=Value`, several of which may stand in a line; `#` begins a comment.
    pub fn read(text: &str) -> Keys {
        let mut keys = BTreeMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            for word in line.split_whitespace() {
                if let Some((key, value)) = word.split_once('=') {
                    keys.insert(key.to_ascii_lowercase(), value.to_owned());
                }
            }
        }
        Keys(keys)
    }

    /// The value of a key, which is written in small letters here.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn number(&self, key: &str, default: u64) -> u64 {
        self.get(key).and_then(|value| value.parse().ok()).unwrap_or(default)
    }
}

/// `slurm.conf`
pub fn check_slurm(slurm: &Keys) -> Vec<Finding> {
    let mut findings = Vec::new();
    match slurm.get("burstbuffertype") {
        Some("burst_buffer/datawarp") => {
            findings.push(Finding::good(SUBJECT, "BurstBufferType=burst_buffer/datawarp"));
        }
        other => {
            let found = format!("BurstBufferType is {}", other.unwrap_or("not set"));
            let change = "set BurstBufferType=burst_buffer/datawarp in slurm.conf and restart slurmctld";
            findings.push(Finding::bad(SUBJECT, found, change));
        }
    }
    let tracked = slurm.get("accountingstoragetres").unwrap_or_default().contains("bb/datawarp");
    let storage = slurm.get("accountingstoragetype").unwrap_or("accounting_storage/none");
    if tracked && !storage.eq_ignore_ascii_case("accounting_storage/slurmdbd") {
        let change =
            "run slurmdbd, or take bb/datawarp out of AccountingStorageTRES: slurmctld does not start so";
        findings.push(Finding::bad(
            SUBJECT,
            "AccountingStorageTRES has bb/datawarp without slurmdbd",
            change,
        ));
    }
    findings
}

/// `burst_buffer.conf`; `pools` are those of the controller, if it answered.
pub fn check_burst_buffer(slurm: &Keys, keys: &Keys, pools: Option<&[String]>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for key in keys.0.keys().filter(|key| !is_known(key)) {
        let change = format!("take the line {key} out of burst_buffer.conf: slurmctld ends when it reads it");
        findings.push(Finding::bad(SUBJECT, format!("burst_buffer.conf has the unknown key {key}"), change));
    }
    findings.extend(check_flags(keys));
    findings.extend(check_timeouts(slurm, keys));
    if let (Some(default), Some(pools)) = (keys.get("defaultpool"), pools)
        && !pools.iter().any(|pool| pool == default)
    {
        let found = format!("DefaultPool={default}, which the controller does not have");
        let change = format!("set DefaultPool to one of: {}", pools.join(", "));
        findings.push(Finding::bad(SUBJECT, found, change));
    }
    findings
}

fn is_known(key: &str) -> bool {
    KNOWN_KEYS.contains(&key) || MORE_KEYS.contains(&key)
}

fn check_flags(keys: &Keys) -> Vec<Finding> {
    const KNOWN: [&str; 5] =
        ["disablepersistent", "emulatecray", "enablepersistent", "privatedata", "teardownfailure"];
    let flags = keys.get("flags").unwrap_or_default().to_ascii_lowercase();
    let mut findings = Vec::new();
    for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
        match flag {
            "emulatecray" => {
                let change = "take EmulateCray out of Flags: it is for tests without a burst buffer, and Slurm then \
                              believes its own figures";
                findings.push(Finding::bad(SUBJECT, "Flags has EmulateCray", change));
            }
            "teardownfailure" => {
                let change = "take TeardownFailure out of Flags if the owner of a failed job is to be asked: with it Slurm \
                              tears buffers down after a failed stage-out. Forebay keeps them until their data is out, \
                              so such teardowns are tried until somebody removes the cause or uses scancel --hurry";
                findings.push(Finding::doubtful(SUBJECT, "Flags has TeardownFailure", change));
            }
            flag if KNOWN.contains(&flag) => {}
            other => {
                let found = format!("Flags has {other}, which Slurm does not know");
                findings.push(Finding::doubtful(SUBJECT, found, format!("flags are {}", KNOWN.join(", "))));
            }
        }
    }
    findings
}

fn check_timeouts(slurm: &Keys, keys: &Keys) -> Vec<Finding> {
    let mut findings = Vec::new();
    let message = slurm.number("messagetimeout", MESSAGE_TIMEOUT_S);
    let validate = keys.number("validatetimeout", VALIDATE_TIMEOUT_S);
    if validate >= message {
        let found = format!("ValidateTimeout={validate} is not below MessageTimeout={message} of slurm.conf");
        findings.push(Finding::bad(SUBJECT, found, "set ValidateTimeout=5"));
    }
    let other = keys.number("othertimeout", OTHER_TIMEOUT_S);
    if other < OTHER_TIMEOUT_S {
        let found = format!("OtherTimeout={other}: Slurm kills what takes longer, and the job is held");
        let change = "leave OtherTimeout at 300 s, which covers a restart of the controller";
        findings.push(Finding::doubtful(SUBJECT, found, change));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;

    const GOOD: &str = "GetSysState=/usr/bin/dw_wlm_cli\nGetSysStatus=/usr/bin/dwstat # both\nDefaultPool=p\nFlags=EnablePersistent,PrivateData\n";

    fn bad(text: &str) -> Vec<String> {
        let findings =
            check_burst_buffer(&Keys::read("MessageTimeout=10"), &Keys::read(text), Some(&["p".into()]));
        findings
            .into_iter()
            .filter(|finding| finding.grade != Grade::Good)
            .map(|finding| finding.found)
            .collect()
    }

    #[test]
    fn the_recommended_file_is_good() {
        assert_eq!(bad(GOOD), Vec::<String>::new());
        let slurm = Keys::read("ClusterName=a\nBurstBufferType=burst_buffer/datawarp MessageTimeout=20\n");
        assert!(check_slurm(&slurm).iter().all(|finding| finding.grade == Grade::Good));
        assert_eq!(slurm.get("messagetimeout"), Some("20"));
    }

    #[test]
    fn what_ends_slurmctld_is_found() {
        assert_eq!(bad(&format!("{GOOD}AltPool=x\n")), ["burst_buffer.conf has the unknown key altpool"]);
        assert_eq!(
            bad(&format!("{GOOD}PrivateData=yes\n")),
            ["burst_buffer.conf has the unknown key privatedata"]
        );
        let slurm =
            Keys::read("BurstBufferType=burst_buffer/datawarp\nAccountingStorageTRES=gres/gpu,bb/datawarp\n");
        assert_eq!(check_slurm(&slurm)[1].grade, Grade::Bad);
        assert_eq!(check_slurm(&Keys::default())[0].grade, Grade::Bad);
    }

    #[test]
    fn what_is_dangerous_is_found() {
        assert_eq!(bad(&format!("{GOOD}Flags=EmulateCray\n")), ["Flags has EmulateCray"]);
        assert_eq!(bad(&format!("{GOOD}Flags=TeardownFailure\n")), ["Flags has TeardownFailure"]);
        assert_eq!(
            bad(&format!("{GOOD}Flags=Persistent\n")),
            ["Flags has persistent, which Slurm does not know"]
        );
        assert!(
            bad(&format!("{GOOD}ValidateTimeout=10\n"))[0].starts_with("ValidateTimeout=10 is not below")
        );
        assert!(bad(&format!("{GOOD}OtherTimeout=30\n"))[0].starts_with("OtherTimeout=30"));
        assert!(bad("GetSysStatus=/s\nDefaultPool=q\n")[0].starts_with("DefaultPool=q"));
    }
}
