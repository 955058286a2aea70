use super::*;
use crate::capacity::{Capacity, format};
use crate::units::{GB, GIB, MIB};
use proptest::prelude::*;

/// Granularity of Shaheen II, shown as 397.44GiB: 25436 pieces of 16 MiB.
const SHAHEEN: Bytes = Bytes(406_976 * MIB);
/// Granularity of Cori's wlm_pool.
const CORI: Bytes = Bytes(82_496 * MIB);

fn bytes(text: &str) -> Bytes {
    match text.parse() {
        Ok(Capacity::Bytes(bytes)) => bytes,
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn assert_granules(text: &str, granularity: Bytes, granules: u64, size: &str) {
    let got = granules_for(bytes(text), granularity);
    assert_eq!(got, Granules(granules), "{text}");
    let real = bytes_of(got, granularity).unwrap();
    assert_eq!(format::format_size(real, format::SizeStyle::Binary), size, "{text}");
}

#[test]
fn sizes_of_the_documented_machines_round_up_to_their_granules() {
    assert_granules("200GB", CORI, 3, "241.69GiB");
    assert_eq!(bytes_of(granules_for(bytes("200GB"), CORI), CORI), Some(Bytes(247_488 * MIB)));
    assert_granules("600G", SHAHEEN, 2, "794.88GiB");
    assert_granules("60TiB", SHAHEEN, 155, "60.16TiB");
    assert_granules("25436GiB", SHAHEEN, 64, "24.84TiB");
    assert_granules("1000GB", Bytes(80 * GB), 13, "968.58GiB");
    assert_granules("1228GiB", Bytes(82 * GIB), 15, "1.2TiB");
}

#[test]
fn a_node_hands_out_whole_granules_only() {
    // 5.82 TiB, in the 16 MiB pieces of a node.
    let node = Bytes(582 * 1024 * GIB / 100);
    assert_eq!(granules_within(node, SHAHEEN), Granules(14));
    assert_eq!(granules_within(Bytes(SHAHEEN.0 - 1), SHAHEEN), Granules(0));
    assert_eq!(granules_within(SHAHEEN, SHAHEEN), Granules(1));
}

#[test]
fn granules_are_exact_at_the_edges() {
    assert_eq!(granules_for(Bytes(0), CORI), Granules(0));
    assert_eq!(granules_for(Bytes(1), CORI), Granules(1));
    assert_eq!(granules_for(CORI, CORI), Granules(1));
    assert_eq!(granules_for(Bytes(CORI.0 + 1), CORI), Granules(2));
    assert_eq!(granules_for(Bytes(u64::MAX), Bytes(1)), Granules(u64::MAX));
    assert_eq!(granules_for(Bytes(7), Bytes(0)), Granules(7), "zero counts as one byte");
    assert_eq!(bytes_of(Granules(u64::MAX), Bytes(2)), None);
}

#[test]
fn a_node_that_takes_nothing_new_has_no_room_but_takes_back() {
    let mut node = NodeSpace::idle(Granules(10));
    node.take(Granules(4)).unwrap();
    for blocked in [NodeSpace { drain: true, ..node }, NodeSpace { online: false, ..node }] {
        assert_eq!(blocked.room(), Granules(0));
        let mut blocked = blocked;
        let refused = blocked.take(Granules(1));
        assert_eq!(refused, Err(PoolError::OverCommitted { wanted: Granules(1), room: Granules(0) }));
        blocked.give_back(Granules(4)).unwrap();
        assert_eq!(blocked.free, Granules(10));
    }
}

#[test]
fn wrong_book_keeping_is_told_and_changes_nothing() {
    let mut node = NodeSpace::idle(Granules(2));
    assert_eq!(
        node.give_back(Granules(1)),
        Err(PoolError::NotTaken { returned: Granules(1), taken: Granules(0) })
    );
    node.take(Granules(2)).unwrap();
    assert_eq!(
        node.take(Granules(1)),
        Err(PoolError::OverCommitted { wanted: Granules(1), room: Granules(0) })
    );
    assert_eq!(
        node.give_back(Granules(u64::MAX)),
        Err(PoolError::NotTaken { returned: Granules(u64::MAX), taken: Granules(2) })
    );
    assert_eq!((node.free, node.instances), (Granules(0), 1));
}

proptest! {
    #[test]
    fn granules_hold_the_size_and_no_granule_is_to_spare(size in 1..=u64::MAX, granularity in 1..=u64::MAX) {
        let granules = granules_for(Bytes(size), Bytes(granularity));
        let held = u128::from(granules.0) * u128::from(granularity);
        prop_assert!(held >= u128::from(size));
        prop_assert!(held - u128::from(granularity) < u128::from(size));
    }
}
