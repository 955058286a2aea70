//! Persistent instances as Slurm makes and destroys them.

use crate::place::{Place, assert_failed, done};

fn create(place: &Place, rest: &str) -> crate::place::Said {
    place.wlm(&format!("create_persistent -c CLI -t {rest}"))
}

#[test]
fn made_used_and_destroyed() {
    let place = Place::new();
    let _agents = place.agents(1, 1);
    let line = "alpha -u 5001 -C wlm_pool:33554432 -a striped -T scratch";
    for _ in 0..2 {
        let said = create(&place, line);
        assert_eq!((said.status, said.text.as_str()), (0, "created alpha"));
    }
    assert_eq!(create(&place, "eps -u 5001 -C wlm_pool:1").text, "created eps");
    assert_failed(
        &create(&place, "alpha -u 5002 -C wlm_pool:33554432 -a striped -T scratch"),
        &["alpha", "5001"],
    );

    let job = place.file("script", b"#!/bin/bash\n#DW persistentdw name=alpha\n\0");
    let setup = format!(
        "setup --token 5 --caller SLURM --user 5002 --groupid 5002 --capacity wlm_pool:0 --job {job}"
    );
    assert_eq!(place.wlm(&setup), done());
    let pathfile = place.path("path");
    assert_eq!(place.wlm(&format!("paths --job {job} --token 5 --pathfile {}", pathfile.display())), done());
    assert_eq!(
        std::fs::read_to_string(pathfile).unwrap(),
        "DW_PERSISTENT_STRIPED_alpha=/var/opt/cray/dws/mounts/batch/alpha_5_striped_scratch/\n"
    );
    assert_failed(&place.wlm("teardown --token alpha"), &["alpha", "is used by 5"]);
    assert_eq!(place.wlm("teardown --token 5"), done());
    assert_eq!(place.wlm("teardown --token alpha --hurry"), done());
    assert_eq!(place.wlm("teardown --token alpha"), done(), "Slurm would ask for ever");
    assert_eq!(place.wlm("teardown --token never_was"), done());
    assert_eq!(place.wlm("teardown --token eps"), done());
    assert_eq!(place.free(), 4);
}

#[test]
fn what_cannot_be_made_is_told() {
    let place = Place::new();
    let _agents = place.agents(1, 0);
    assert_failed(&create(&place, "7up -u 5001 -C wlm_pool:1"), &["7up"]);
    assert_failed(&create(&place, "a -u 5001 -C nowhere:1"), &["no pool nowhere", "wlm_pool"]);
    assert_failed(&create(&place, "a -u 5001 -C wlm_pool:1TiB"), &["wlm_pool"]);
    assert_failed(&create(&place, "a -u 5001 -C wlm_pool:0"), &["above zero"]);
    assert_failed(&create(&place, "a -u 5001 -C wlm_pool:1 -T cache"), &["cache"]);
    let job = place.file("script", b"#!/bin/bash\n#DW persistentdw name=never_was\n");
    let setup = format!(
        "setup --token 5 --caller SLURM --user 5002 --groupid 5002 --capacity wlm_pool:0 --job {job}"
    );
    assert_failed(&place.wlm(&setup), &["no persistent instance never_was"]);
    assert_eq!(place.client().snapshot().unwrap().sessions.len(), 0);
}
