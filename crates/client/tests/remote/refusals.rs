//! Who may not attach is told why.

use super::instance::{Served, seal, token};
use super::support::Shape;
use forebay_client::remote::{AttachError, ConnectError, Description, attach};
use forebay_wire::message::RefusalReason;
use std::time::Duration;

fn refused(description: &Description) -> AttachError {
    match attach(description) {
        Err(error) => error,
        Ok(_) => panic!("it is let in"),
    }
}

fn reason(error: &AttachError) -> Option<RefusalReason> {
    match error {
        AttachError::Connect(ConnectError::Refused { reason, .. }) => Some(*reason),
        _ => None,
    }
}

#[test]
fn who_does_not_fit_the_instance_is_refused_with_the_reason() {
    let served = Served::new(Shape::striped());
    let good = served.description(token());
    let error = refused(&Description { secret: seal(), ..good.clone() });
    assert_eq!(reason(&error), Some(RefusalReason::BadProof), "{error}");
    let error = refused(&Description { instance: "other".into(), ..good.clone() });
    assert_eq!(reason(&error), Some(RefusalReason::UnknownInstance), "{error}");
    let error = refused(&Description { namespace: "other".into(), ..good.clone() });
    assert_eq!(reason(&error), Some(RefusalReason::UnknownNamespace), "{error}");
    let error = refused(&Description { home: 2, ..good.clone() });
    assert_eq!(reason(&error), Some(RefusalReason::NotHome), "{error}");
    let error = refused(&Description { home: 9, ..good.clone() });
    assert!(matches!(error, AttachError::Home { home: 9, described: 4 }), "{error}");
    let error = refused(&Description { servers: good.servers[..3].to_vec(), ..good.clone() });
    assert!(matches!(error, AttachError::Servers { described: 3, servers: 4 }), "{error}");
    let mut servers = good.servers.clone();
    servers.swap(0, 1);
    let error = refused(&Description { servers, home: 1, ..good.clone() });
    assert!(matches!(error, AttachError::Position { described: 1, position: 0, .. }), "{error}");
    assert!(attach(&good).is_ok());
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let served = Served::new(Shape::inline());
    let mut description = served.description(token());
    description.timeouts.attach = Duration::from_millis(100);
    served.proxies[0].lead_to(None);
    let error = refused(&description);
    assert!(error.to_string().contains(&served.proxies[0].address.to_string()), "{error}");
    description.servers[0].tcp = "no port".into();
    let error = refused(&description);
    assert!(error.to_string().contains("no port"), "{error}");
}
