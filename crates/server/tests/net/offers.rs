//! Namespaces that are made when somebody names them who knows the secret.

use crate::place::{INSTANCE, NAMESPACE, Place, secrets};
use forebay_server::net::{HostError, HostedNamespace, ServedData};
use forebay_wire::message::{ConnectionKind, RefusalReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A place that makes namespaces whose names begin with `p`, but none with `bad` in it; how many it has made.
fn place() -> (Place, Arc<AtomicUsize>) {
    let place = Place::new(Duration::from_secs(30));
    let made = Arc::new(AtomicUsize::new(0));
    let (count, node) = (made.clone(), Arc::downgrade(place.node()));
    let make = move |name: &str| {
        if !name.starts_with('p') {
            return None;
        }
        if name.contains("bad") {
            return Some(Err("the disk is full".to_owned()));
        }
        count.fetch_add(1, SeqCst);
        let data = node.upgrade().unwrap().data(name).unwrap();
        Some(Ok(HostedNamespace {
            name: name.to_owned(),
            data: ServedData::new(data),
            tree: None,
            max_file_size: 1 << 40,
            position: 0,
            servers: 1,
            direct_writes: false,
        }))
    };
    place.server().offer(INSTANCE, secrets(), Box::new(make)).unwrap();
    (place, made)
}

fn try_namespace(place: &Place, namespace: &str, secret: &[u8]) -> Result<(), RefusalReason> {
    let mut hello = place.hello(1, ConnectionKind::Data);
    hello.namespace = namespace.to_owned();
    hello.secret = secret.to_vec();
    place.try_connect(&hello).map(drop)
}

const TOKEN: &[u8] = crate::place::TOKEN;

#[test]
fn it_is_made_once_and_only_for_who_knows_the_secret() {
    let (place, made) = place();
    assert_eq!(try_namespace(&place, "p1", &[9; 32]), Err(RefusalReason::BadProof));
    assert_eq!(made.load(SeqCst), 0, "a stranger makes nothing");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(try_namespace(&place, "p1", TOKEN), Ok(())));
        }
    });
    assert_eq!(made.load(SeqCst), 1);
    assert_eq!(try_namespace(&place, "p2", TOKEN), Ok(()));
    assert_eq!(try_namespace(&place, NAMESPACE, TOKEN), Ok(()), "those that were there stay");
    assert_eq!(made.load(SeqCst), 2);
}

#[test]
fn what_is_not_offered_is_unknown_but_not_to_strangers() {
    let (place, _) = place();
    assert_eq!(try_namespace(&place, "q", TOKEN), Err(RefusalReason::UnknownNamespace));
    assert_eq!(try_namespace(&place, "q", &[9; 32]), Err(RefusalReason::BadProof));
    assert_eq!(try_namespace(&place, "p-bad", TOKEN), Err(RefusalReason::UnknownNamespace));
    assert_eq!(try_namespace(&place, "p1", TOKEN), Ok(()));
}

#[test]
fn the_offer_ends_with_the_instance() {
    let (place, made) = place();
    let again = place.server().offer(INSTANCE, secrets(), Box::new(|_| None));
    assert!(matches!(again, Err(HostError::AlreadyOffered { .. })));
    assert_eq!(try_namespace(&place, "p1", TOKEN), Ok(()));
    assert!(place.server().remove(INSTANCE));
    assert_eq!(try_namespace(&place, "p1", TOKEN), Err(RefusalReason::UnknownInstance));
    assert_eq!(try_namespace(&place, "p2", TOKEN), Err(RefusalReason::UnknownInstance));
    assert_eq!(made.load(SeqCst), 1);
}
