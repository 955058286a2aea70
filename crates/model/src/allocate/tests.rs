use super::*;
use crate::pool::{granules_for, granules_within};
use crate::units::{GIB, MIB, TIB};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy as Generator;

/// Granularity of Shaheen II, shown as 397.44GiB.
const SHAHEEN: Bytes = Bytes(406_976 * MIB);
const ONE: Bytes = Bytes(1);

/// The 268 nodes of Shaheen II.
fn shaheen() -> Vec<NodeSpace> {
    vec![NodeSpace::idle(granules_within(Bytes(582 * TIB / 100), SHAHEEN)); 268]
}

fn granules(shares: &[Share]) -> Vec<(usize, u64)> {
    shares.iter().map(|share| (share.node, share.granules.0)).collect()
}

fn bandwidth(nodes: &[NodeSpace], want: u64) -> Result<Vec<Share>, AllocationError> {
    allocate(nodes, ONE, Granules(want), Strategy::Bandwidth)
}

#[test]
fn sixty_tebibytes_take_155_of_268_nodes() {
    let want = granules_for(Bytes(60 * TIB), SHAHEEN);
    let shares = allocate(&shaheen(), SHAHEEN, want, Strategy::Bandwidth).unwrap();
    assert_eq!(shares.len(), 155);
    assert!(shares.iter().all(|share| share.granules == Granules(1)));
    assert_eq!(shares[154].node, 154);
}

#[test]
fn sixty_four_granules_take_sixty_four_nodes() {
    let want = granules_for(Bytes(25_436 * GIB), SHAHEEN);
    assert_eq!(allocate(&shaheen(), SHAHEEN, want, Strategy::Bandwidth).unwrap().len(), 64);
}

#[test]
fn above_268_granules_the_first_nodes_serve_twice() {
    let shares = bandwidth(&shaheen(), 270).unwrap();
    assert_eq!(granules(&shares[..3]), [(0, 2), (1, 2), (2, 1)]);
    assert_eq!(shares.len(), 268);
    assert_eq!(shares[267], Share { node: 267, granules: Granules(1) });
}

#[test]
fn a_pool_can_be_given_away_to_the_last_granule_and_no_further() {
    let nodes = shaheen();
    let all = bandwidth(&nodes, 268 * 14).unwrap();
    assert!(all.iter().all(|share| share.granules == Granules(14)));
    assert_eq!(
        allocate(&nodes, SHAHEEN, Granules(268 * 14 + 1), Strategy::Bandwidth),
        Err(AllocationError::NoSpace {
            requested: Granules(3753),
            free: Granules(3752),
            quantity: Granules(3752),
            granularity: SHAHEEN
        })
    );
}

#[test]
fn full_offline_and_drained_nodes_are_passed_over() {
    let node = NodeSpace::idle(Granules(4));
    let nodes = [
        NodeSpace { free: Granules(0), ..node },
        NodeSpace { online: false, ..node },
        NodeSpace { drain: true, ..node },
        node,
        NodeSpace { free: Granules(1), ..node },
    ];
    assert_eq!(granules(&bandwidth(&nodes, 5).unwrap()), [(3, 4), (4, 1)]);
    assert_eq!(
        bandwidth(&nodes, 6),
        Err(AllocationError::NoSpace {
            requested: Granules(6),
            free: Granules(5),
            quantity: Granules(12),
            granularity: ONE
        })
    );
}

#[test]
fn no_nodes_and_no_granules_are_errors() {
    assert_eq!(bandwidth(&shaheen(), 0), Err(AllocationError::Nothing));
    assert_eq!(
        bandwidth(&[], 1),
        Err(AllocationError::NoSpace {
            requested: Granules(1),
            free: Granules(0),
            quantity: Granules(0),
            granularity: ONE
        })
    );
}

#[test]
fn bandwidth_begins_with_the_emptiest_node() {
    let nodes = [3, 9, 9, 5].map(|free| NodeSpace { free: Granules(free), ..NodeSpace::idle(Granules(10)) });
    assert_eq!(granules(&bandwidth(&nodes, 2).unwrap()), [(1, 1), (2, 1)]);
    assert_eq!(granules(&bandwidth(&nodes, 20).unwrap()), [(1, 6), (2, 6), (3, 5), (0, 3)]);
}

#[test]
fn interference_keeps_off_shared_nodes_while_the_others_have_room() {
    let node = NodeSpace { free: Granules(10), ..NodeSpace::idle(Granules(12)) };
    let nodes = [2, 0, 1, 0].map(|instances| NodeSpace { instances, ..node });
    let shares = |want| granules(&allocate(&nodes, ONE, Granules(want), Strategy::Interference).unwrap());
    assert_eq!(shares(3), [(1, 2), (3, 1)]);
    assert_eq!(shares(20), [(1, 10), (3, 10)]);
    assert_eq!(shares(21), [(1, 7), (3, 7), (2, 7)]);
    assert_eq!(shares(31), [(1, 8), (3, 8), (2, 8), (0, 7)]);
}

#[test]
fn wear_begins_with_the_node_least_written_for_its_size() {
    let node = |quantity, written| NodeSpace {
        bytes_written: Bytes(written),
        ..NodeSpace::idle(Granules(quantity))
    };
    // 10 per granule, 5 per granule, 0, 10 per granule on a smaller node.
    let nodes = [node(10, 100), node(40, 200), node(10, 0), node(5, 50)];
    let shares = |want| granules(&allocate(&nodes, ONE, Granules(want), Strategy::Wear).unwrap());
    assert_eq!(shares(2), [(2, 1), (1, 1)]);
    assert_eq!(shares(4), [(2, 1), (1, 1), (0, 1), (3, 1)]);
    let worn = [node(u64::MAX, u64::MAX), node(u64::MAX, u64::MAX - 1)];
    assert_eq!(allocate(&worn, ONE, Granules(1), Strategy::Wear).unwrap()[0].node, 1, "no overflow");
}

#[test]
fn whole_nodes_are_taken_whole() {
    let idle = |quantity| NodeSpace::idle(Granules(quantity));
    let mut used = idle(9);
    used.take(Granules(1)).unwrap();
    let shared = NodeSpace { instances: 1, ..idle(9) };
    let nodes = [used, idle(3), NodeSpace { drain: true, ..idle(8) }, idle(5), idle(0), idle(5), shared];
    assert_eq!(granules(&allocate_nodes(&nodes, 2).unwrap()), [(3, 5), (5, 5)]);
    assert_eq!(granules(&allocate_nodes(&nodes, 3).unwrap()), [(3, 5), (5, 5), (1, 3)]);
    assert_eq!(allocate_nodes(&nodes, 4), Err(AllocationError::NoNodes { requested: 4, free: 3, nodes: 6 }));
    assert_eq!(allocate_nodes(&nodes, 0), Err(AllocationError::Nothing));
}

#[test]
fn huge_requests_take_no_longer_than_small_ones() {
    let nodes = vec![NodeSpace::idle(Granules(1 << 60)); 8];
    let shares = bandwidth(&nodes, (1 << 62) + 3).unwrap();
    let each = 1 << 59;
    assert_eq!(granules(&shares[..4]), [(0, each + 1), (1, each + 1), (2, each + 1), (3, each)]);
}

/// The definition, card by card: the oracle for the arithmetic.
fn deal_one_by_one(room: &[u64], order: &[usize], want: u64) -> Vec<u64> {
    let mut dealt = vec![0; room.len()];
    let mut left = want;
    while left > 0 {
        assert!(order.iter().any(|&node| dealt[node] < room[node]), "more was promised than there is");
        for &node in order {
            if left > 0 && dealt[node] < room[node] {
                dealt[node] += 1;
                left -= 1;
            }
        }
    }
    dealt
}

fn node() -> impl Generator<Value = NodeSpace> {
    let shape = (0..20_u64, 0..=100_u64, 0..4_u64, 0..3_u64, 0..10_u8, 0..10_u8);
    shape.prop_map(|(quantity, free_percent, instances, written, online, drain)| NodeSpace {
        quantity: Granules(quantity),
        free: Granules(quantity * free_percent / 100),
        online: online > 0,
        drain: drain == 0,
        instances,
        bytes_written: Bytes(written * quantity),
    })
}

fn strategy() -> impl Generator<Value = Strategy> {
    prop::sample::select(vec![Strategy::Bandwidth, Strategy::Interference, Strategy::Wear])
}

fn nodes() -> impl Generator<Value = Vec<NodeSpace>> {
    prop::collection::vec(node(), 0..30)
}

proptest! {
    #[test]
    fn what_is_asked_for_is_given_and_never_more_than_there_is(
        nodes in nodes(), want in 0..300_u64, strategy in strategy(),
    ) {
        let (free, quantity) = totals(&nodes);
        match allocate(&nodes, ONE, Granules(want), strategy) {
            Ok(shares) => {
                prop_assert_eq!(shares.iter().map(|share| share.granules.0).sum::<u64>(), want);
                let mut seen = std::collections::HashSet::new();
                for share in &shares {
                    prop_assert!(seen.insert(share.node), "one share per node");
                    prop_assert!(share.granules.0 > 0);
                    prop_assert!(share.granules <= nodes[share.node].room());
                }
            }
            Err(AllocationError::Nothing) => prop_assert_eq!(want, 0),
            Err(AllocationError::NoSpace { requested, free: told, quantity: all, .. }) => {
                prop_assert_eq!((requested, told, all), (Granules(want), free, quantity));
                prop_assert!(want > free.0);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn shares_are_even_among_nodes_with_room_left(
        nodes in nodes(), want in 1..300_u64, strategy in strategy(),
    ) {
        let Ok(shares) = allocate(&nodes, ONE, Granules(want), strategy) else { return Ok(()) };
        let mut given = vec![0; nodes.len()];
        shares.iter().for_each(|share| given[share.node] = share.granules.0);
        let most = given.iter().copied().max().unwrap_or(0);
        let least_used_rank_with_room_enough = {
            let mut ranks: Vec<u64> = nodes.iter().map(|node| node.instances).collect();
            ranks.sort_unstable();
            let room_up_to = |rank: u64| {
                nodes.iter().filter(|node| node.instances <= rank).map(|node| node.room().0).sum::<u64>()
            };
            ranks.into_iter().find(|&rank| room_up_to(rank) >= want).unwrap()
        };
        for (index, node) in nodes.iter().enumerate() {
            let at_table = strategy != Strategy::Interference || node.instances <= least_used_rank_with_room_enough;
            if !at_table {
                prop_assert_eq!(given[index], 0);
            } else if given[index] < node.room().0 {
                prop_assert!(most - given[index] <= 1, "{given:?}");
            }
        }
    }

    #[test]
    fn the_arithmetic_deals_as_hands_would(nodes in nodes(), want in 1..300_u64, strategy in strategy()) {
        let Ok(shares) = allocate(&nodes, ONE, Granules(want), strategy) else { return Ok(()) };
        let room: Vec<u64> = nodes.iter().map(|node| node.room().0).collect();
        let mut given = vec![0; nodes.len()];
        shares.iter().for_each(|share| given[share.node] = share.granules.0);
        let order = table(&nodes, Granules(want), strategy);
        prop_assert_eq!(given, deal_one_by_one(&room, &order, want));
    }

    #[test]
    fn all_is_given_back_at_teardown(
        nodes in nodes(), requests in prop::collection::vec((1..60_u64, strategy()), 1..20), order in any::<u64>(),
    ) {
        let mut now = nodes.clone();
        let mut live: Vec<Vec<Share>> = Vec::new();
        for (number, (want, strategy)) in requests.into_iter().enumerate() {
            if let Ok(shares) = allocate(&now, ONE, Granules(want), strategy) {
                shares.iter().for_each(|share| now[share.node].take(share.granules).unwrap());
                live.push(shares);
            }
            if order >> (number % 64) & 1 == 1 && !live.is_empty() {
                let ended = live.remove(order as usize % live.len());
                ended.iter().for_each(|share| now[share.node].give_back(share.granules).unwrap());
            }
        }
        let held: u64 = live.iter().flatten().map(|share| share.granules.0).sum();
        let free = |nodes: &[NodeSpace]| nodes.iter().map(|node| node.free.0).sum::<u64>();
        prop_assert_eq!(free(&now) + held, free(&nodes));
        live.iter().flatten().for_each(|share| now[share.node].give_back(share.granules).unwrap());
        prop_assert_eq!(now, nodes);
    }
}
