//! Limits that change while they are used.

use super::*;
use crate::request::WindowRequest;
use forebay_model::limits::{InstancePolicies, Policy};

const WINDOW: WindowRequest = WindowRequest { length_s: 3600, multiplier: 10 };

fn window(length_s: Option<u64>, multiplier: Option<u64>) -> InstanceChange {
    let (write_window_length_s, write_window_multiplier) = (length_s, multiplier);
    InstanceChange { write_window_length_s, write_window_multiplier, ..InstanceChange::default() }
}

fn file_size(policy: Policy) -> InstanceChange {
    let policies = PolicyChange { file_size: Some(policy), ..PolicyChange::default() };
    InstanceChange { policies, ..InstanceChange::default() }
}

impl Cluster {
    /// A running job of Alice with three granules on two nodes.
    fn with_job() -> Cluster {
        let mut cluster = Cluster::new();
        cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
        cluster.slurm(Request::PreRun { token: "1".into(), hosts: vec!["c1".into()] }).unwrap();
        cluster
    }

    fn change(&mut self, uid: u32, change: InstanceChange) -> Result<Answer, Refusal> {
        self.get(uid, Request::ChangeInstance { instance: InstanceId(1), change })
    }

    fn limit(
        &mut self,
        uid: u32,
        max_file_size: Option<u64>,
        max_files: Option<u64>,
    ) -> Result<Answer, Refusal> {
        let change = ConfigurationChange { max_file_size: max_file_size.map(Bytes), max_files };
        self.get(uid, Request::ChangeConfiguration { configuration: ConfigurationId(1), change })
    }

    fn window(&self) -> Option<WindowRequest> {
        self.state.tables().instances.get(&InstanceId(1)).unwrap().write_window
    }
}

fn is_refused(answer: Result<Answer, Refusal>) -> bool {
    matches!(answer, Err(Refusal::NotAllowed { uid: ALICE, .. }))
}

#[test]
fn file_servers_are_told_of_changed_limits_and_of_nothing_that_did_not_change() {
    let mut cluster = Cluster::with_job();
    let change = InstanceChange { policies: file_size(Policy::Both).policies, ..window(Some(3600), None) };
    let request = Request::ChangeInstance { instance: InstanceId(1), change: change.clone() };
    cluster.ask(ALICE, request);
    let orders = cluster.lists.values().flat_map(|list| &list.orders);
    let told: Vec<_> = orders
        .filter_map(|order| match &order.work {
            Work::Serve { write_window, policies, .. } => Some((*write_window, policies.file_size)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(Some(WINDOW), Policy::Both); 2], "both servers");
    cluster.work();
    assert!(view::snapshot(&cluster.state, ALICE).fragments.iter().all(|row| row.state.actualized));
    cluster.ask(ALICE, Request::ChangeInstance { instance: InstanceId(1), change });
    assert_eq!(cluster.next_order(), None);
    cluster.ask(
        ALICE,
        Request::ChangeConfiguration {
            configuration: ConfigurationId(1),
            change: ConfigurationChange { max_file_size: None, max_files: Some(7) },
        },
    );
    let orders = cluster.lists.values().flat_map(|list| &list.orders);
    let limits = orders.filter_map(|order| match &order.work {
        Work::Serve { configurations, .. } => Some(configurations[0].access.max_files),
        _ => None,
    });
    assert_eq!(limits.collect::<Vec<_>>(), [Some(7); 2]);
}

#[test]
fn what_is_not_named_stays() {
    let mut cluster = Cluster::with_job();
    cluster.change(OPERATOR, window(Some(3600), None)).unwrap();
    assert_eq!(cluster.window(), Some(WINDOW));
    cluster.change(OPERATOR, window(None, Some(3))).unwrap();
    assert_eq!(cluster.window(), Some(WindowRequest { multiplier: 3, ..WINDOW }));
    cluster.change(OPERATOR, file_size(Policy::Log)).unwrap();
    let row = cluster.state.tables().instances.get(&InstanceId(1)).unwrap().clone();
    assert_eq!(row.policies, InstancePolicies { file_size: Policy::Log, ..InstancePolicies::default() });
    assert_eq!(row.write_window, Some(WindowRequest { multiplier: 3, ..WINDOW }));
}

#[test]
fn owners_make_limits_stricter_only_and_others_nothing() {
    let mut cluster = Cluster::with_job();
    cluster.change(ALICE, window(Some(3600), Some(10))).unwrap();
    cluster.change(ALICE, window(Some(7200), Some(9))).unwrap();
    assert!(is_refused(cluster.change(ALICE, window(None, Some(10)))));
    assert!(is_refused(cluster.change(ALICE, window(Some(3600), None))));
    assert!(is_refused(cluster.change(ALICE, file_size(Policy::Log))));
    cluster.change(ALICE, file_size(Policy::Both)).unwrap();
    assert!(is_refused(cluster.change(ALICE, file_size(Policy::Error))));
    cluster.limit(ALICE, Some(100), Some(10)).unwrap();
    cluster.limit(ALICE, Some(99), None).unwrap();
    assert!(is_refused(cluster.limit(ALICE, None, Some(11))));
    assert!(is_refused(cluster.limit(ALICE, Some(100), None)));
    cluster.change(OPERATOR, window(Some(60), Some(1000))).unwrap();
    cluster.limit(OPERATOR, Some(1 << 40), None).unwrap();
    for answer in [cluster.change(BOB, window(None, Some(1))), cluster.limit(BOB, None, Some(1))] {
        assert!(matches!(answer, Err(Refusal::NotYours { uid: BOB, owner: ALICE, .. })), "{answer:?}");
    }
    assert!(matches!(cluster.change(SLURM, window(None, Some(1))), Err(Refusal::NotYours { .. })));
}

#[test]
fn changes_that_make_no_sense_change_nothing() {
    let mut cluster = Cluster::with_job();
    for change in [
        InstanceChange::default(),
        window(Some(0), None),
        window(None, Some(0)),
        window(Some(u64::MAX), None),
    ] {
        assert!(matches!(cluster.change(OPERATOR, change), Err(Refusal::Invalid { .. })));
    }
    assert!(matches!(cluster.limit(OPERATOR, None, None), Err(Refusal::Invalid { .. })));
    assert_eq!(cluster.window(), None);
    let nowhere = Request::ChangeInstance { instance: InstanceId(9), change: window(None, Some(1)) };
    assert!(matches!(cluster.get(OPERATOR, nowhere), Err(Refusal::NoObject { id: 9, .. })));
    cluster.off.extend(["s1".to_owned(), "s2".to_owned()]);
    cluster.ask(SLURM, teardown("1", true));
    let late = Request::ChangeInstance { instance: InstanceId(1), change: window(None, Some(1)) };
    assert!(matches!(cluster.get(OPERATOR, late), Err(Refusal::TornDown { .. } | Refusal::NoObject { .. })));
}
