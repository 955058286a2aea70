//! The controller is away, starts again, or hangs.

use crate::place::{Place, assert_failed, await_it, done};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

const SCRIPT: &[u8] = b"#!/bin/bash\n#DW jobdw type=scratch capacity=16MiB access_mode=striped\n\0";

#[test]
fn what_shows_the_state_fails_in_words_and_what_holds_slurm_up_fails_fast() {
    let mut place = Place::new();
    place.stop();
    let job = place.file("script", SCRIPT);
    for verb in ["pools", "show_sessions", "show_instances", "show_configurations"] {
        assert_failed(&place.wlm(verb), &["does not answer"]);
    }
    let start = Instant::now();
    assert_eq!(place.wlm(&format!("job_process --job {job}")), done());
    let paths =
        place.wlm(&format!("paths --job {job} --token 7 --pathfile {}", place.path("path").display()));
    assert_failed(&paths, &["does not answer"]);
    assert!(start.elapsed() < Duration::from_secs(5), "Slurm stands still for {:?}", start.elapsed());
    assert!(!place.path("path").exists());
}

#[test]
fn a_controller_that_hangs_is_given_up_before_slurm_gives_up() {
    let mut place = Place::new();
    place.stop();
    let socket = place.path("controller.sock");
    let _ = std::fs::remove_file(&socket);
    let _hangs = UnixListener::bind(&socket).unwrap();
    let start = Instant::now();
    let paths = place.wlm(&format!("paths --token 7 --pathfile {}", place.path("path").display()));
    assert_failed(&paths, &["did not answer within 3 seconds"]);
    assert!(start.elapsed() < Duration::from_millis(4500), "{:?}", start.elapsed());
}

#[test]
fn who_waits_does_not_notice_a_restart() {
    let mut place = Place::new();
    drop(place.agents(1, 1));
    let job = place.file("script", SCRIPT);
    let setup = format!("setup --token 7 -c SLURM -u 5001 -g 5001 -C wlm_pool:16MiB --job {job}");
    let mut waiting = place.wlm_child(&setup);
    await_it("the session is there", || !place.client().snapshot().unwrap().sessions.is_empty());
    let data_in = place.wlm_child("data_in --token 7");
    place.stop();
    let begun_without = place.wlm_child(&setup);
    assert!(waiting.is_running());
    place.start();
    let _agents = place.agents(1, 1);
    for waiting in [waiting, data_in, begun_without] {
        assert_eq!(waiting.wait(), done());
    }
    assert_eq!(place.wlm("teardown --token 7"), done());
}
