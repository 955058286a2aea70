//! What users cannot do to the controller, whatever they send.

use crate::place::{Place, await_it, pre_run, setup};
use crate::raw::{as_user, exchange, request, unix};
use forebay_controller::client::ClientError;
use forebay_controller::cluster::{Answer, Request};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const ALICE: u32 = 1000;

fn socket(place: &Place) -> &Path {
    place.config.socket.as_deref().unwrap()
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read() {
    let place = Place::new();
    let send = |bytes: &[u8]| exchange(unix(socket(&place)), bytes);
    let large = request("POST", "/v1/sessions", "", &" ".repeat(300_000));
    let refused = as_user(ALICE, || send(&large));
    assert_eq!((refused.status, refused.kind().as_str()), (413, "too_large"));
    // The workload manager may send a job with many paths.
    let answer = send(&request("POST", "/v1/wlm/teardown", "", &" ".repeat(300_000)));
    assert_eq!((answer.status, answer.kind().as_str()), (400, "bad_request"));
    let announced = b"POST /v1/wlm/setup HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n";
    assert_eq!(send(announced).status, 413);
    let chunked = b"POST /v1/wlm/setup HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(send(chunked).status, 411);
    let head = request("GET", "/v1/pools", &format!("X: {}\r\n", "a".repeat(400_000)), "");
    let status = send(&head).status;
    assert!([0, 431].contains(&status), "{status}");
    let many = request("GET", "/v1/pools", &"X: a\r\n".repeat(500), "");
    let status = send(&many).status;
    assert!([0, 431].contains(&status), "{status}");
    let path = request("GET", &format!("/{}", "a".repeat(70_000)), "", "");
    assert!([0, 414, 431].contains(&send(&path).status));
    assert_eq!(send(&request("GET", "/v1/pools", "", "")).status, 200);
}

#[test]
fn what_is_no_request_ends_the_connection_and_nothing_else() {
    let place = Place::new();
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /v1/pools HTTP/9.9\r\n\r\n",
        b"GET /v1/pools HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /v1/pools HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET http://x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"POST /v1/wlm/setup HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 8\r\n\r\n[[[[[[[[",
    ] {
        let status = exchange(unix(socket(&place)), bytes).status;
        assert!(status == 0 || (400..500).contains(&status), "{status}");
    }
    let deep = "[".repeat(200_000);
    assert_eq!(exchange(unix(socket(&place)), &request("POST", "/v1/wlm/setup", "", &deep)).status, 400);
    assert!(place.client().snapshot().is_ok());
}

/// Reads until the other side closes; how long that took.
fn until_closed(mut stream: UnixStream) -> (Duration, String) {
    let (start, mut text) = (Instant::now(), Vec::new());
    let _ = stream.read_to_end(&mut text);
    (start.elapsed(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn who_is_slow_is_not_waited_for() {
    let place = Place::new();
    let (path, limit) = (socket(&place), Duration::from_secs(50));
    std::thread::scope(|scope| {
        let silent = scope.spawn(|| until_closed(unix(path)));
        let head = scope.spawn(|| {
            let mut stream = unix(path);
            stream.write_all(b"GET /v1/pools HTTP/1.1\r\nHo").unwrap();
            until_closed(stream)
        });
        let body = scope.spawn(|| {
            let mut stream = unix(path);
            stream.write_all(b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{").unwrap();
            until_closed(stream)
        });
        // Everybody else is served meanwhile.
        assert!(place.client().snapshot().is_ok());
        assert!(silent.join().unwrap().0 < limit);
        assert!(head.join().unwrap().0 < limit);
        let (took, text) = body.join().unwrap();
        assert!(took < limit && text.contains("408"), "{took:?} {text}");
    });
}

#[test]
fn one_user_cannot_take_all_connections() {
    let place = Place::new();
    let path = socket(&place);
    let is_open = |stream: &mut UnixStream| {
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        // A closed connection reads as its end, an open one as nothing yet.
        !matches!(stream.read(&mut [0]), Ok(0))
    };
    as_user(ALICE, || {
        let mut all: Vec<UnixStream> = (0..70).map(|_| unix(path)).collect();
        assert!(is_open(&mut all[63]));
        assert!(all[64..].iter_mut().all(|stream| !is_open(stream)));
        drop(all);
        await_it("the places are free again", || {
            exchange(unix(path), &request("GET", "/v1/pools", "", "")).status == 200
        });
    });
    assert!(place.client().snapshot().is_ok());
}

#[test]
fn who_does_not_wait_any_more_is_forgotten_and_its_wish_is_not() {
    let place = Place::new();
    let mut agents = place.agents(1, 1);
    let client = place.client();
    // More than the limit of waiting requests for one session, one after the other: nobody waits for long.
    let impossible = serde_json::json!({ "token": "1", "hosts": ["c1"] }).to_string();
    client.ask(&setup("1")).unwrap();
    drop(agents.pop());
    for _ in 0..300 {
        let mut stream = unix(socket(&place));
        stream.write_all(&request("POST", "/v1/wlm/pre_run", "", &impossible)).unwrap();
    }
    await_it("the connections are forgotten", || {
        let mut stream = unix(socket(&place));
        stream.write_all(&request("POST", "/v1/wlm/pre_run", "", &impossible)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        // Waiting, and not refused because too many wait.
        stream.read(&mut [0]).is_err()
    });
    assert_eq!(client.snapshot().unwrap().activations.len(), 1);
    let _again = place.agents(0, 1);
    assert_eq!(client.ask(&pre_run("1", &["c1"])), Ok(Answer::Done));
}

#[test]
fn users_cannot_speak_for_others() {
    let place = Place::new();
    let _agents = place.agents(2, 0);
    let client = place.client();
    client.ask(&setup("1")).unwrap();
    as_user(2000, || {
        let seen = client.snapshot().unwrap();
        assert_eq!((seen.sessions.len(), seen.instances.len(), seen.fragments.len()), (0, 0, 0));
        for (method, target, body) in [
            ("DELETE", "/v1/sessions/1", ""),
            ("DELETE", "/v1/nodes/s1", ""),
            ("PATCH", "/v1/nodes/s1", r#"{"drain":true}"#),
            ("PATCH", "/v1/registrations/1", r#"{"wait":false}"#),
            ("POST", "/v1/pools", r#"{"name":"p","granularity":1}"#),
            ("POST", "/v1/sessions/1/retry", "{}"),
            ("POST", "/v1/wlm/teardown", r#"{"token":"1","hurry":true}"#),
            (
                "POST",
                "/v1/agents/s1",
                r#"{"incarnation":9,"message":{"message":"heartbeat","list":0,"bytes_written":0}}"#,
            ),
            ("GET", "/v1/agents/s1/orders?incarnation=1", ""),
            ("GET", "/v1/agents/s1/secrets/1", ""),
        ] {
            let refused = exchange(unix(socket(&place)), &request(method, target, "", body));
            assert_eq!(refused.status, 403, "{method} {target}: {}", refused.body);
        }
        let refused = client.ask(&Request::Teardown { token: "1".into(), hurry: true });
        assert!(matches!(refused, Err(ClientError::Refused { .. })));
    });
    assert_eq!(client.snapshot().unwrap().sessions.len(), 1);
}
