//! The life of a job over the Unix socket, and what is kept over a restart.

use crate::place::{Place, await_it, job, pre_run, setup};
use forebay_controller::client::ClientError;
use forebay_controller::cluster::Answer;
use forebay_controller::cluster::view::Shown;
use forebay_model::units::Bytes;

const MOUNT: &str = "/var/opt/cray/dws/mounts/batch/1_striped_scratch";

#[test]
fn a_job_goes_from_setup_to_teardown() {
    let place = Place::new();
    let agents = place.agents(2, 2);
    let client = place.client();
    let ask = |request| client.ask(&request).unwrap();
    assert_eq!(place.free(), 8);
    assert_eq!(ask(setup("1")), Answer::Done);
    assert_eq!(place.free(), 5);
    let named: Vec<_> = agents[0].node.lock().unwrap().served.iter().map(|p| p.address.clone()).collect();
    assert_eq!(named, [Some("s1:4041".to_owned()), Some("s2:4041".to_owned())]);
    assert_eq!(ask(job("data_in", "1")), Answer::Done);
    assert_eq!(ask(job("real_size", "1")), Answer::Size(Bytes(3 * crate::place::GRANULE)));
    assert_eq!(ask(job("paths", "1")), Answer::Paths(vec![("DW_JOB_STRIPED".into(), format!("{MOUNT}/"))]));
    assert_eq!(ask(pre_run("1", &["c1", "c2"])), Answer::Done);
    assert!(agents[2..].iter().all(|agent| agent.node.lock().unwrap().mounts.len() == 1));
    let seen = client.snapshot().unwrap();
    assert_eq!(seen.sessions[0].token, "1");
    assert_eq!(seen.activations[0].mount, MOUNT);
    assert_eq!(client.stages().unwrap().len(), 2);
    let some = client.look(&[Shown::Instances]).unwrap();
    assert_eq!((some.instances.len(), some.sessions.len()), (1, 0));
    assert_eq!(ask(job("post_run", "1")), Answer::Done);
    assert_eq!(ask(job("data_out", "1")), Answer::Done);
    assert_eq!(ask(job("teardown", "1")), Answer::Done);
    assert_eq!(place.free(), 8);
    let Err(ClientError::Refused { kind, text }) = client.ask(&job("teardown", "1")) else {
        panic!("it was torn down twice");
    };
    assert_eq!(kind, "no_token");
    assert!(text.starts_with("token not found"), "{text}");
}

#[test]
fn a_restart_forgets_nothing_and_who_waits_does_not_notice() {
    let mut place = Place::new();
    let client = place.client();
    let agents = place.agents(2, 1);
    client.ask(&setup("1")).unwrap();
    let before = client.snapshot().unwrap();
    // No agent makes this one's space: it waits over the restart.
    let waiting = {
        let client = client.clone();
        std::thread::spawn(move || client.ask(&pre_run("1", &["c2"])))
    };
    let unknown = waiting.join().unwrap().unwrap_err().to_string();
    assert!(unknown.contains("c2"), "{unknown}");
    drop(agents);
    let waiting = {
        let client = client.clone();
        std::thread::spawn(move || client.ask(&pre_run("1", &["c1"])))
    };
    await_it("the mount is wanted", || client.snapshot().unwrap().activations.len() == 1);
    place.stop();
    place.start();
    let after = client.snapshot().unwrap();
    assert_eq!(after.instances, before.instances);
    assert_eq!(after.fragments, before.fragments);
    assert!(!waiting.is_finished());
    let _agents = place.agents(0, 1);
    assert_eq!(waiting.join().unwrap(), Ok(Answer::Done));
}

#[test]
fn one_state_directory_has_one_controller() {
    let place = Place::new();
    let mut other = place.config.clone();
    other.socket = Some(place.directory.path().join("other.sock"));
    let error = forebay_controller::service::Service::start(&other).err().unwrap().to_string();
    assert!(error.contains("another controller"), "{error}");
    assert!(place.client().snapshot().is_ok());
}

#[test]
fn who_cannot_be_reached_is_named() {
    let mut place = Place::new();
    let client = place.client().with_patience(std::time::Duration::from_millis(300));
    place.stop();
    let Err(ClientError::Unreachable { address, .. }) = client.snapshot() else { panic!("who answers?") };
    assert!(address.to_string().starts_with("unix:/"));
}
