//! Fragments made by the file system itself, damaged in every way that the check knows.

use super::*;
use crate::local::{FragmentSpec, Fragments, Limits, NamespaceSpec, Services, SpaceRule};
use forebay_model::layout::LayoutChoice;
use forebay_model::units::Bytes;
use forebay_wire::{Caller, FileId, Ino, MetadataService, NewObject, OpenFlags, Placement, SetAttr, Span};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const STRIPE_BYTES: u64 = 4096;
const REGULAR: u32 = 0o100_644;

/// An instance over two fragments with some files in it, closed.
struct Scene {
    directory: tempfile::TempDir,
    space: SpaceRule,
    /// Contents of `one` and `two`.
    files: [FileId; 2],
}

impl Scene {
    fn new(space: SpaceRule) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let scene = Scene { directory, space, files: [FileId(0); 2] };
        (0..2).for_each(|position| fs::create_dir(scene.root(position)).unwrap());
        let (fragments, services) = scene.serve();
        let files = ["one", "two"].map(|name| {
            let (file, stub) = create(&*services.metadata, name);
            for data in &services.data {
                let spans = [Span { substripe: 0, offset: 0, at: 0, len: STRIPE_BYTES as usize }];
                data.share(file, 2).write(&spans, &[7; STRIPE_BYTES as usize]).unwrap();
            }
            stub.was_written(2 * STRIPE_BYTES).unwrap();
            file
        });
        drop(services);
        fragments.close().unwrap();
        Scene { files, ..scene }
    }

    /// Serves the namespace.
    fn serve(&self) -> (Arc<Fragments>, Services) {
        let specs = [0, 1].map(|position| FragmentSpec { root: self.root(position), space: self.space });
        let fragments = Fragments::open(&specs).unwrap();
        let layout = LayoutChoice {
            stripe_size: Some(STRIPE_BYTES),
            stripe_count: Some(2),
            first_server: Some(0),
            substripes: Some(2),
        };
        let spec = NamespaceSpec { name: "c1".into(), layout, limits: Limits::default() };
        let services = fragments.namespace(&spec).unwrap();
        (fragments, services)
    }

    fn root(&self, position: u32) -> PathBuf {
        self.directory.path().join(position.to_string())
    }

    fn instance(&self) -> Instance {
        let parts = (0..2).map(|position| Part { position, root: self.root(position) }).collect();
        Instance { servers: 2, parts, namespaces: vec![("c1".into(), 0)] }
    }

    fn substripe(&self, position: u32, file: FileId, index: u32) -> PathBuf {
        self.root(position).join("ns/c1/data").join(crate::data::substripe_path(file, index))
    }

    fn stub(&self, name: &str) -> PathBuf {
        self.root(0).join("ns/c1/tree").join(name)
    }

    fn check(&self, mode: Mode) -> (Vec<Finding>, Summary) {
        checked(&self.instance(), mode)
    }

    /// The only finding.
    fn finding(&self, mode: Mode) -> Finding {
        let (findings, _) = self.check(mode);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        findings.into_iter().next().unwrap()
    }
}

fn checked(instance: &Instance, mode: Mode) -> (Vec<Finding>, Summary) {
    let mut findings = Vec::new();
    let summary = check(instance, mode, &mut |finding| findings.push(finding.clone())).unwrap();
    (findings, summary)
}

fn create(metadata: &dyn MetadataService, name: &str) -> (FileId, std::sync::Arc<dyn forebay_wire::Stub>) {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let caller = Caller { uid: user, gid: group, pid: 0 };
    let object = NewObject { caller, mode: REGULAR, rdev: 0 };
    let (_, stub) = metadata.create(Ino::ROOT, OsStr::new(name), &object, OpenFlags::READ_WRITE).unwrap();
    let Placement::Striped { file, .. } = stub.placement() else { panic!("{name} is not striped") };
    (file, stub)
}

#[test]
fn what_the_file_system_leaves_is_in_order() {
    let (findings, summary) = Scene::new(SpaceRule::Hard).check(Mode::Repair);
    assert_eq!(findings, vec![]);
    assert_eq!(summary, Summary { files: 2, judged: 4, ..Summary::default() });
}

#[test]
fn content_without_a_stub_is_moved_and_not_removed() {
    let scene = Scene::new(SpaceRule::Hard);
    fs::remove_file(scene.stub("one")).unwrap();
    let (findings, summary) = scene.check(Mode::Look);
    assert!(findings.iter().all(|finding| matches!(finding.problem, Problem::Orphan(_))), "{findings:?}");
    assert_eq!((findings.len(), summary.left), (2, 2));
    assert!(scene.substripe(1, scene.files[0], 0).exists());

    let (findings, summary) = scene.check(Mode::Repair);
    assert_eq!((summary.repaired, summary.left), (2, 0));
    for finding in findings {
        let Outcome::Moved(to) = finding.outcome else { panic!("{finding:?}") };
        assert_eq!(fs::read(scene.root(finding.position).join(to)).unwrap(), [7; STRIPE_BYTES as usize]);
    }
    assert!(!scene.substripe(0, scene.files[0], 0).exists());
    assert!(scene.substripe(0, scene.files[1], 0).exists());
    assert_eq!(scene.check(Mode::Look).0, vec![]);
}

#[test]
fn an_empty_substripe_without_a_stub_goes() {
    let scene = Scene::new(SpaceRule::Hard);
    let empty = scene.substripe(1, FileId(scene.files[0].0 + 256), 1);
    fs::write(&empty, "").unwrap();
    assert_eq!(scene.finding(Mode::Look).outcome, Outcome::CanBeMoved);
    assert!(empty.exists());
    assert_eq!(scene.finding(Mode::Repair).outcome, Outcome::Removed);
    assert!(!empty.exists());
}

#[test]
fn a_substripe_that_the_layout_does_not_have_is_moved() {
    let scene = Scene::new(SpaceRule::Hard);
    fs::write(scene.substripe(1, scene.files[1], 2), "data").unwrap();
    let finding = scene.finding(Mode::Repair);
    assert!(matches!(finding.problem, Problem::Misplaced(substripe) if substripe.index == 2), "{finding:?}");
    assert!(matches!(finding.outcome, Outcome::Moved(_)));
}

#[test]
fn a_substripe_beyond_the_length_is_left_to_the_next_start() {
    let scene = Scene::new(SpaceRule::Hard);
    fs::write(scene.substripe(0, scene.files[0], 0), [1; 3 * STRIPE_BYTES as usize]).unwrap();
    let finding = scene.finding(Mode::Repair);
    assert!(matches!(finding.problem, Problem::Beyond { expected: STRIPE_BYTES, .. }), "{finding:?}");
    assert!(finding.is_harmless());
    assert_eq!(scene.check(Mode::Repair).1.left, 0);
}

#[test]
fn nothing_is_moved_when_a_stub_cannot_be_read() {
    let scene = Scene::new(SpaceRule::Hard);
    fs::remove_file(scene.stub("one")).unwrap();
    let stub = fs::File::open(scene.stub("two")).unwrap();
    rustix::fs::fsetxattr(&stub, crate::metadata::ATTRIBUTE, b"2 later", rustix::fs::XattrFlags::empty())
        .unwrap();
    let (findings, summary) = scene.check(Mode::Repair);
    assert!(
        matches!(&findings[..], [Finding { problem: Problem::Unreadable { path, .. }, .. }] if path == Path::new("two"))
    );
    assert_eq!((summary.judged, summary.not_judged, summary.repaired), (0, 4, 0));
    assert!(scene.substripe(0, scene.files[0], 0).exists());
}

#[test]
fn a_stub_that_was_being_made_when_the_server_was_killed_is_in_nobodys_way() {
    let scene = Scene::new(SpaceRule::Hard);
    fs::remove_file(scene.stub("one")).unwrap();
    let stub = fs::File::options().write(true).open(scene.stub("two")).unwrap();
    rustix::fs::fremovexattr(&stub, crate::metadata::ATTRIBUTE).unwrap();
    stub.set_len(0).unwrap();
    let (findings, _) = scene.check(Mode::Look);
    assert!(findings.iter().all(|found| matches!(found.problem, Problem::Orphan(_))), "{findings:?}");
    // One that has a length and holds nothing has lost the word about its content.
    stub.set_len(1 << 20).unwrap();
    let (findings, summary) = scene.check(Mode::Repair);
    assert!(matches!(&findings[..], [Finding { problem: Problem::Unreadable { .. }, .. }]), "{findings:?}");
    assert_eq!((summary.judged, summary.repaired), (0, 0));
}

#[test]
fn a_stub_that_was_left_half_made_is_used_as_any_other() {
    let scene = Scene::new(SpaceRule::Hard);
    let stub = fs::File::options().write(true).open(scene.stub("two")).unwrap();
    rustix::fs::fremovexattr(&stub, crate::metadata::ATTRIBUTE).unwrap();
    stub.set_len(0).unwrap();
    drop(stub);
    let (fragments, services) = scene.serve();
    let caller = Caller { uid: rustix::process::geteuid().as_raw(), gid: 0, pid: 0 };
    let attr = services.metadata.lookup(caller, Ino::ROOT, OsStr::new("two")).unwrap();
    // As a power cut leaves it: longer, with nothing in it.
    let change = SetAttr { size: Some(1 << 20), ..SetAttr::default() };
    services.metadata.setattr(caller, attr.ino, None, &change).unwrap();
    drop(services);
    fragments.close().unwrap();
    let (findings, _) = scene.check(Mode::Look);
    let unreadable = |found: &Finding| matches!(found.problem, Problem::Unreadable { .. });
    assert!(!findings.iter().any(unreadable), "{findings:?}");
}

#[test]
fn data_without_its_names_on_this_machine_is_not_judged() {
    let scene = Scene::new(SpaceRule::Hard);
    fs::remove_file(scene.stub("one")).unwrap();
    let mut instance = scene.instance();
    instance.parts.remove(0);
    let (findings, summary) = checked(&instance, Mode::Repair);
    assert_eq!((findings, summary), (vec![], Summary { not_judged: 2, ..Summary::default() }));
}

#[test]
fn an_unknown_namespace_is_named_and_left() {
    let scene = Scene::new(SpaceRule::Hard);
    let mut instance = scene.instance();
    instance.namespaces[0].0 = "c2".into();
    let (findings, summary) = checked(&instance, Mode::Repair);
    assert_eq!(findings[0].problem, Problem::UnknownNamespace);
    assert_eq!((findings.len(), summary.not_judged, summary.repaired), (1, 4, 0));
}

#[test]
fn fragments_that_do_not_belong_together_are_not_touched() {
    let (scene, other) = (Scene::new(SpaceRule::Hard), Scene::new(SpaceRule::Hard));
    fs::remove_file(scene.stub("one")).unwrap();
    let mut instance = scene.instance();
    instance.parts[1].root = other.root(1);
    let (findings, summary) = checked(&instance, Mode::Repair);
    assert_eq!((findings[0].problem.clone(), summary.repaired), (Problem::OtherInstance, 0));

    let mut turned = scene.instance();
    turned.parts[0].position = 1;
    turned.parts[1].position = 0;
    let (findings, summary) = checked(&turned, Mode::Repair);
    assert_eq!(findings[0].problem, Problem::OtherPlace { index: 0, count: 2 });
    assert_eq!(summary.repaired, 0);

    fs::remove_file(scene.root(1).join("fragment.json")).unwrap();
    assert_eq!(scene.finding(Mode::Repair).problem, Problem::NoRecord);
    fs::write(scene.root(1).join("fragment.json"), "{}").unwrap();
    assert_eq!(scene.finding(Mode::Repair).problem, Problem::UnknownRecord);
}

#[test]
fn what_is_not_ours_is_named_and_left() {
    let scene = Scene::new(SpaceRule::Hard);
    let data = scene.root(0).join("ns/c1/data");
    fs::create_dir(data.join("elsewhere")).unwrap();
    let bucket = scene.substripe(0, scene.files[0], 0).parent().unwrap().to_owned();
    fs::write(bucket.join("note"), "mine").unwrap();
    // A name of ours in a bucket of others is not ours either.
    fs::write(bucket.join("00000000000000ff.0"), "mine").unwrap();
    let (findings, summary) = scene.check(Mode::Repair);
    let paths: Vec<_> = findings.iter().map(|finding| &finding.problem).collect();
    assert!(paths.iter().all(|problem| matches!(problem, Problem::Foreign { .. })), "{paths:?}");
    assert_eq!((findings.len(), summary.left), (3, 3));
    assert!(bucket.join("note").exists() && bucket.join("00000000000000ff.0").exists());
}

#[test]
fn two_files_of_one_content_and_hard_links() {
    let scene = Scene::new(SpaceRule::Hard);
    fs::hard_link(scene.stub("one"), scene.stub("link")).unwrap();
    assert_eq!(scene.check(Mode::Look).0, vec![]);
    let copied =
        std::process::Command::new("cp").arg("-a").args([scene.stub("one"), scene.stub("copy")]).status();
    assert!(copied.unwrap().success());
    assert!(
        matches!(scene.finding(Mode::Look).problem, Problem::SharedContent { file, .. } if file == scene.files[0])
    );
}

#[test]
fn a_fragment_in_use_is_not_checked() {
    let scene = Scene::new(SpaceRule::Hard);
    let _served = Fragment::open(&scene.root(1), None).unwrap();
    assert_eq!(check(&scene.instance(), Mode::Look, &mut |_| ()), Err(FsError::Busy));
}

#[test]
fn what_was_moved_is_not_counted_any_more() {
    let scene = Scene::new(SpaceRule::Metered(Bytes(1 << 30)));
    fs::remove_file(scene.stub("one")).unwrap();
    assert_eq!(scene.check(Mode::Repair).1.repaired, 2);
    let specs = [0, 1].map(|position| FragmentSpec {
        root: scene.root(position),
        space: SpaceRule::Metered(Bytes(1 << 30)),
    });
    let fragments = Fragments::open(&specs).unwrap();
    let spec =
        NamespaceSpec { name: "c1".into(), layout: LayoutChoice::default(), limits: Limits::default() };
    let services = fragments.namespace(&spec).unwrap();
    let space = services.data[1].space().unwrap();
    assert_eq!(space.capacity - space.free, STRIPE_BYTES);
}
