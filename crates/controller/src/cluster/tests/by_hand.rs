//! Space that users make past the workload manager.

use super::*;

impl Cluster {
    /// Two storage nodes of four granules where so much may be made by hand.
    fn allowing(space_by_hand: SpaceByHand) -> Cluster {
        let mut cluster = Cluster::new();
        cluster.state.settings.space_by_hand = space_by_hand;
        cluster
    }

    fn session_by_hand(&mut self, uid: u32, token: &str, owner: u32) -> Result<SessionId, Refusal> {
        let create = Request::CreateSession {
            token: token.into(),
            owner,
            group: 100,
            hosts: Vec::new(),
            creator: None,
        };
        self.get(uid, create).map(|answer| match answer {
            Answer::Accepted { id, .. } => SessionId(id),
            other => panic!("{other:?}"),
        })
    }

    fn granules_by_hand(&mut self, uid: u32, session: SessionId, granules: u64) -> Result<Answer, Refusal> {
        let label = "space".to_owned();
        let space = space(granules * GRANULE, &[AccessMode::Striped]);
        self.get(uid, Request::CreateInstance { session, label, space })
    }
}

#[test]
fn space_by_hand_is_left_to_operators_unless_the_configuration_says_more() {
    let mut cluster = Cluster::allowing(SpaceByHand::default());
    assert_eq!(cluster.session_by_hand(ALICE, "mine", ALICE), Err(Refusal::ByHand { uid: ALICE }));
    // Neither in the session of a job, nor in one that an operator made for him.
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    let jobs = cluster.state.session_of("1").unwrap().id;
    let given = cluster.session_by_hand(OPERATOR, "given", ALICE).unwrap();
    for session in [jobs, given] {
        assert_eq!(cluster.granules_by_hand(ALICE, session, 1), Err(Refusal::ByHand { uid: ALICE }));
    }
    assert_eq!(cluster.free(), 5);
    cluster.granules_by_hand(OPERATOR, given, 1).unwrap();
    assert_eq!(cluster.free(), 4);
}

#[test]
fn a_user_has_no_more_space_by_hand_than_the_configuration_says() {
    let limit = Bytes(3 * GRANULE);
    let mut cluster = Cluster::allowing(SpaceByHand::UpTo(limit));
    let [first, second] = ["a", "b"].map(|token| cluster.session_by_hand(ALICE, token, ALICE).unwrap());
    // What the workload manager and operators make does not count.
    cluster.slurm(Request::Setup(Setup { stages: Vec::new(), ..job("1", ALICE) })).unwrap();
    cluster.granules_by_hand(OPERATOR, first, 1).unwrap();
    cluster.granules_by_hand(ALICE, first, 2).unwrap();
    let (owner, held) = (ALICE, Bytes(2 * GRANULE));
    // A byte more than a granule is two granules.
    let asked = Bytes(2 * GRANULE);
    let space = space(GRANULE + 1, &[AccessMode::Striped]);
    let create = Request::CreateInstance { session: second, label: "more".into(), space };
    assert_eq!(cluster.get(ALICE, create), Err(Refusal::OverShare { owner, asked, held, limit }));
    cluster.granules_by_hand(ALICE, second, 1).unwrap();
    // Each user has his own share.
    let bobs = cluster.session_by_hand(BOB, "bobs", BOB).unwrap();
    cluster.granules_by_hand(BOB, bobs, 1).unwrap();
    assert_eq!(cluster.free(), 0);
}

#[test]
fn space_by_hand_counts_until_its_granules_are_free_also_after_a_restart() {
    let mut cluster = Cluster::allowing(SpaceByHand::UpTo(Bytes(2 * GRANULE)));
    let session = cluster.session_by_hand(ALICE, "a", ALICE).unwrap();
    cluster.granules_by_hand(ALICE, session, 2).unwrap();
    let rows = cluster.state.tables().rows();
    let restored = State::restore(cluster.state.settings().clone(), rows).unwrap();
    assert_eq!(restored.links.by_hand, BTreeMap::from([(ALICE, Bytes(2 * GRANULE))]));
    cluster.off.extend(["s1".to_owned(), "s2".to_owned()]);
    let remove = Request::Remove { object: ObjectId::Session(session), hurry: true };
    let removing = cluster.ask(ALICE, remove);
    let next = cluster.session_by_hand(ALICE, "b", ALICE).unwrap();
    assert!(matches!(cluster.granules_by_hand(ALICE, next, 1), Err(Refusal::OverShare { .. })));
    cluster.off.clear();
    cluster.work();
    assert!(cluster.answers.contains_key(&removing));
    assert!(cluster.state.has_right_links() && cluster.state.links.by_hand.is_empty());
    cluster.granules_by_hand(ALICE, next, 2).unwrap();
}

#[test]
fn what_is_refused_names_the_sizes_and_the_way_out() {
    let (asked, held, limit) = (Bytes(2 * GRANULE), Bytes(GRANULE), Bytes(1 << 40));
    let text = Refusal::OverShare { owner: 7, asked, held, limit }.to_string();
    assert!(
        text.starts_with("uid 7 may have 1TiB of space by hand at a time and has 16MiB, so 32MiB more"),
        "{text}"
    );
    assert!(Refusal::ByHand { uid: 7 }.to_string().contains("space_by_hand in controller.toml"));
}

/// A session on client nodes, with space of its own.
fn session_on(cluster: &mut Cluster, token: &str, host: &str) -> (SessionId, ConfigurationId) {
    let (token, hosts) = (token.to_owned(), vec![host.to_owned()]);
    let create = Request::CreateSession { token, owner: BOB, group: 1, hosts, creator: None };
    let Ok(Answer::Accepted { id, .. }) = cluster.get(OPERATOR, create) else { panic!("it is made") };
    cluster.granules_by_hand(OPERATOR, SessionId(id), 1).unwrap();
    (SessionId(id), cluster.state.tables().configurations.values().last().unwrap().id)
}

#[test]
fn operators_choose_where_sessions_made_by_hand_are_mounted() {
    let mut cluster = Cluster::new();
    let (mine, near, far) = (
        session_on(&mut cluster, "mine", "c1"),
        session_on(&mut cluster, "near", "c1"),
        session_on(&mut cluster, "far", "c2"),
    );
    let at = |(session, configuration): (SessionId, ConfigurationId), place: &str| {
        Request::CreateActivation { session, configuration, mount: Some(place.into()) }
    };
    let mut refused = |uid: u32, request: Request| cluster.get(uid, request).unwrap_err();
    let root = settings::MOUNT_ROOT;
    assert!(matches!(refused(BOB, at(mine, "/scratch")), Refusal::NotAllowed { role: Role::Operators, .. }));
    for place in ["", "/", "scratch", "/a/../b", root, &format!("{root}/mine"), "/var"] {
        let text = refused(OPERATOR, at(mine, place)).to_string();
        assert!(text.contains("path") || text.contains(root), "{place:?}: {text}");
    }
    cluster.get(OPERATOR, at(mine, "/scratch/mine/")).unwrap();
    // Asked for again it is the same one.
    cluster.get(OPERATOR, at(mine, "/scratch/mine")).unwrap();
    cluster.get(OPERATOR, at(far, "/scratch")).unwrap();
    for (whose, place) in
        [(near, "/scratch"), (near, "/scratch/mine"), (near, "/scratch/mine/x"), (mine, "/b")]
    {
        let text = cluster.get(OPERATOR, at(whose, place)).unwrap_err().to_string();
        assert!(text.contains("mounted at /scratch/mine"), "{place}: {text}");
    }
    let seen = view::snapshot(&cluster.state, OPERATOR).activations;
    let places: Vec<(&str, String)> =
        seen.iter().map(|row| (row.mount.as_str(), row.state.to_string())).collect();
    assert_eq!(places, [("/scratch/mine", "CA---".into()), ("/scratch", "CA---".into())]);
}

#[test]
fn nobody_chooses_where_the_space_of_a_job_is_mounted() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(Setup { stages: Vec::new(), ..job("1", ALICE) })).unwrap();
    cluster.slurm(Request::PreRun { token: "1".into(), hosts: vec!["c1".into()] }).unwrap();
    cluster.slurm(Request::PostRun { token: "1".into() }).unwrap();
    let session = cluster.state.session_of("1").unwrap().id;
    let (configuration, mount) = (ConfigurationId(1), Some("/scratch".to_owned()));
    let refused = cluster.get(OPERATOR, Request::CreateActivation { session, configuration, mount });
    assert!(refused.unwrap_err().to_string().contains("not made by hand"));
}
