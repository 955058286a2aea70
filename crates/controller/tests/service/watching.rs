//! Events and figures.

use crate::place::{Place, await_it, job, setup};
use crate::raw::{as_user, exchange, request, unix};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Everything that a user is told from now on.
struct Watcher(Arc<Mutex<String>>);

impl Watcher {
    fn start(path: PathBuf, uid: u32) -> Watcher {
        let heard: Arc<Mutex<String>> = Arc::default();
        let mut stream = as_user(uid, || {
            let mut stream = unix(&path);
            stream.write_all(&request("GET", "/v1/events", "", "")).unwrap();
            stream
        });
        let into = Arc::clone(&heard);
        // It ends with the controller.
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut part) {
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..length]));
            }
        });
        await_it("the watcher is let in", || heard.lock().unwrap().contains("text/event-stream"));
        Watcher(heard)
    }

    fn heard(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn watchers_are_told_what_they_may_see() {
    let place = Place::new();
    let path = || place.config.socket.clone().unwrap();
    let (alice, bob, root) =
        (Watcher::start(path(), 1000), Watcher::start(path(), 2000), Watcher::start(path(), 0));
    let agents = place.agents(2, 0);
    place.client().ask(&setup("1")).unwrap();
    place.client().ask(&job("data_in", "1")).unwrap();
    place.client().ask(&job("teardown", "1")).unwrap();
    drop(agents);
    for watcher in [&alice, &root] {
        await_it("the end of the session is told", || {
            watcher.heard().contains(r#""notice":"session","id":1,"token":"1","owner":1000,"state":null"#)
        });
        assert!(watcher.heard().contains(r#""step":"serving""#), "{}", watcher.heard());
    }
    // Once more something that all are told, so that everything before has come.
    let _agents = place.agents(0, 1);
    await_it("the node is told", || bob.heard().contains(r#""node":"c1""#));
    assert!(!bob.heard().contains("session") && !bob.heard().contains("fragment"), "{}", bob.heard());
}

/// The value of a figure.
fn figure(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.rsplit_once(' ').is_some_and(|(left, _)| left == name));
    line.unwrap_or_else(|| panic!("{name} in {page}")).rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn page(path: &Path) -> String {
    let answer = exchange(unix(path), &request("GET", "/metrics", "", ""));
    assert_eq!(answer.status, 200);
    answer.body
}

#[test]
fn figures_follow_what_happens() {
    let place = Place::new();
    let path = place.config.socket.as_deref().unwrap();
    let _agents = place.agents(2, 1);
    assert_eq!(figure(&page(path), "forebay_pool_free_granules{pool=\"wlm_pool\"}"), 8.0);
    place.client().ask(&setup("1")).unwrap();
    place.client().ask(&job("data_in", "1")).unwrap();
    let text = page(path);
    for (name, value) in [
        ("forebay_pool_free_granules{pool=\"wlm_pool\"}", 5.0),
        ("forebay_pool_granules{pool=\"wlm_pool\"}", 8.0),
        ("forebay_node_online{node=\"c1\"}", 1.0),
        ("forebay_node_written_bytes_total{node=\"s1\"}", 1048576.0),
        ("forebay_instances{state=\"ready\"}", 1.0),
        ("forebay_staged_bytes_total{direction=\"in\"}", 1048576.0),
        ("forebay_staged_files_total{direction=\"in\"}", 1.0),
        ("forebay_staged_bytes_total{direction=\"out\"}", 0.0),
        ("forebay_requests_total{request=\"setup\"}", 1.0),
        ("forebay_sessions", 1.0),
        ("forebay_tasks", 0.0),
    ] {
        assert_eq!(figure(&text, name), value, "{name}");
    }
    assert!(figure(&text, "forebay_commits_total") > 0.0);
    assert!(figure(&text, "forebay_commit_seconds_total") > 0.0);
    // Each family is described before its values, and nothing of a user is in it.
    for line in text.lines() {
        let name = line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ");
        assert!(name.starts_with("forebay_"), "{line}");
    }
    assert!(
        !text.contains("owner")
            && !text.contains("token")
            && text.contains("# TYPE forebay_staged_bytes_total counter")
    );
}

/// What programs that know nothing of this interface find out by HTTP alone.
#[test]
fn methods_are_told_and_heads_are_shown() {
    let place = Place::new();
    let send = |method: &str, target: &str| {
        exchange(unix(place.config.socket.as_deref().unwrap()), &request(method, target, "", ""))
    };
    let (whole, head) = (send("GET", "/v1/pools"), send("HEAD", "/v1/pools"));
    assert_eq!((head.status, head.body.as_str()), (200, ""), "{head:?}");
    assert!(head.head.contains(&format!("content-length: {}", whole.body.len())), "{head:?}");
    for (method, target, allowed) in [
        ("PUT", "/v1/pools", "get, head, post"),
        ("GET", "/v1/sessions/7", "delete"),
        ("HEAD", "/v1/wlm/setup", "post"),
    ] {
        let refused = send(method, target);
        assert_eq!(refused.status, 405, "{refused:?}");
        assert!(refused.head.contains(&format!("\r\nallow: {allowed}\r\n")), "{refused:?}");
    }
}
