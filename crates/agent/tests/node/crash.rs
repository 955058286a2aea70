//! The agent is killed anywhere, and what it was doing is done again.

use crate::scene::*;
use crate::{leaks, roles};
use forebay_agent::daemon::StorageKind;
use forebay_model::ids::ActivationId;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const ACTIVATION: ActivationId = ActivationId(1);

/// Everything that is done for a job, once.
pub fn cycle(scene: &Scene) {
    let (client, point) = (scene.node(2), scene.mount_point("1"));
    scene.set_up(INSTANCE);
    client.mount(ACTIVATION, &point, &scene.striped(INSTANCE), &secrets(INSTANCE).token).unwrap();
    fs::write(Path::new(&point).join("file"), "content").unwrap();
    assert_eq!(fs::read_to_string(Path::new(&point).join("file")).unwrap(), "content");
    client.unmount(ACTIVATION).unwrap();
    scene.tear_down(INSTANCE);
}

#[test]
fn killed_at_any_time_and_begun_anew() {
    for kind in [IMAGE, StorageKind::Directory] {
        let scene = Scene::new(kind);
        let begin = Instant::now();
        cycle(&scene);
        let whole = begin.elapsed();
        scene.assert_disks_are_empty();
        const KILLS: u32 = 9;
        for number in 0..KILLS {
            let mut agent = roles::start(scene.root(), &["cycle", scene.root().to_str().unwrap()]);
            let begin = Instant::now();
            let until = whole * number / KILLS;
            while begin.elapsed() < until && agent.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            agent.kill().unwrap();
            let killed = !agent.wait().unwrap().success();
            let said = roles::words_of(&mut agent);
            assert!(killed || said.contains("1 passed"), "{said}");
            assert!(!said.contains("panicked"), "{said}");
            cycle(&scene);
            scene.assert_disks_are_empty();
            assert!(scene.node(2).held_mounts().unwrap().is_empty());
            let left = leaks::with(&scene.path("state2"), "mount");
            assert!(left.is_empty(), "kill {number}: {left:?}");
        }
    }
}
