//! `forebay doctor` as an administrator runs it on a machine where not everything is right.

use serde_json::Value;
use std::process::Command;

fn doctor(arguments: &[&str], slurm_conf: &std::path::Path) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("doctor")
        .args(arguments)
        .env("FOREBAY_CONTROLLER", "unix:/nonexistent/controller.sock")
        .env("SLURM_CONF", slurm_conf)
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn what_does_not_work_is_told_with_what_to_change() {
    let directory = tempfile::tempdir().unwrap();
    let slurm = directory.path().join("slurm.conf");
    std::fs::write(&slurm, "ClusterName=a\nSlurmUser=root\nBurstBufferType=burst_buffer/lua\n").unwrap();
    let program = env!("CARGO_BIN_EXE_dw_wlm_cli");
    let conf = format!("GetSysState={program}\nGetSysStatus=/bin/true\nAltPool=x\n");
    std::fs::write(directory.path().join("burst_buffer.conf"), conf).unwrap();

    let (status, text) = doctor(&["--role", "controller"], &slurm);
    assert_eq!(status, 1, "{text}");
    for expected in [
        "as controller:",
        "FAIL controller  the burst buffer controller at unix:/nonexistent/controller.sock does not answer",
        "FAIL slurm       BurstBufferType is burst_buffer/lua",
        "-> set BurstBufferType=burst_buffer/datawarp",
        "FAIL slurm       burst_buffer.conf has the unknown key altpool",
        "FAIL slurm       getsysstatus=/bin/true: it is no program of forebay",
        &format!("ok   slurm       getsysstate={program} is dw_wlm_cli (forebay)"),
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
}

#[test]
fn json_has_the_same_findings() {
    let directory = tempfile::tempdir().unwrap();
    let (status, text) = doctor(&["--role", "login", "--json"], &directory.path().join("none"));
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &value["roles"][0]), (1, &Value::from("login")));
    let bad = |finding: &&Value| finding["grade"] == "bad";
    let findings = value["findings"].as_array().unwrap();
    assert!(findings.iter().filter(bad).any(|finding| finding["subject"] == "controller"), "{text}");
    assert!(findings.iter().all(|finding| finding["subject"] != "slurm"), "{text}");
}

#[test]
fn where_slurm_has_no_files_a_controller_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let none = directory.path().join("none");
    let (status, text) = doctor(&["--role", "controller"], &none);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("warn slurm       there is no slurm.conf on this machine"), "{text}");
    let (_, text) = doctor(&["--role", "compute"], &none);
    assert!(!text.contains("slurm.conf"), "{text}");
}
