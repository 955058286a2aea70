//! Every line that is known from DataWarp sites, documents and tutorials means what it meant there.

use forebay_directive::*;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, GB, GIB, TIB};

/// The directives of a text without errors.
#[track_caller]
fn directives(text: &str) -> Vec<Directive> {
    let parsed = parse_script(text.as_bytes());
    assert_eq!(parsed.errors, [], "{text}");
    parsed.directives.into_iter().map(|located| located.value).collect()
}

#[track_caller]
fn codes(found: &[Diagnostic]) -> Vec<&'static str> {
    found.iter().map(|found| found.code.name()).collect()
}

fn job(kind: ConfigurationType, modes: &[AccessMode], bytes: u64) -> JobDw {
    JobDw {
        kind,
        access: modes.iter().map(|mode| Access::plain(*mode)).collect(),
        capacity: Capacity::Bytes(Bytes(bytes)),
        pool: None,
        pfs: None,
        write_window_length_s: None,
        write_window_multiplier: None,
        modified_threshold: None,
        read_ahead: None,
        sync_on_close: None,
        sync_to_pfs: None,
        strategy: None,
        max_mds: None,
    }
}

fn scratch(bytes: u64) -> JobDw {
    job(ConfigurationType::Scratch, &[AccessMode::Striped], bytes)
}

fn cache(bytes: u64) -> JobDw {
    let pfs = Some(b"/lus/global".to_vec());
    JobDw { pfs, ..job(ConfigurationType::Cache, &[AccessMode::Striped], bytes) }
}

fn pool(name: &str) -> Option<String> {
    Some(name.to_string())
}

#[track_caller]
fn assert_job(line: &str, expected: JobDw) {
    assert_eq!(directives(line), [Directive::JobDw(expected)], "{line}");
}

#[test]
fn jobdw_lines_of_sites_and_tutorials() {
    assert_job(
        "#DW jobdw capacity=200GB access_mode=striped type=scratch pool=wlm_pool",
        JobDw { pool: pool("wlm_pool"), ..scratch(200 * GB) },
    );
    assert_job(
        "#DW jobdw capacity=1000GB access_mode=striped type=scratch pool=sm_pool",
        JobDw { pool: pool("sm_pool"), ..scratch(1000 * GB) },
    );
    assert_job(
        "#DW jobdw capacity=200GB access_mode=striped type=scratch pool=dev_pool",
        JobDw { pool: pool("dev_pool"), ..scratch(200 * GB) },
    );
    assert_job("#DW jobdw capacity=1000GB access_mode=striped type=scratch", scratch(1000 * GB));
    assert_job("#DW jobdw capacity=100GB access_mode=striped type=scratch", scratch(100 * GB));
    assert_job("#DW jobdw type=scratch access_mode=striped capacity=2TiB ", scratch(2 * TIB));
    assert_job(
        "#DW jobdw type=scratch access_mode=private capacity=200GB",
        job(ConfigurationType::Scratch, &[AccessMode::Private], 200 * GB),
    );
    assert_job(
        "#DW jobdw type=scratch capacity=1GB access_mode=striped,private pfs=/scratch",
        JobDw {
            pfs: Some(b"/scratch".to_vec()),
            ..job(ConfigurationType::Scratch, &[AccessMode::Striped, AccessMode::Private], GB)
        },
    );
    assert_job("#DW jobdw type=cache access_mode=striped pfs=/lus/global capacity=100TiB", cache(100 * TIB));
    assert_job(
        "#DW jobdw type=cache access_mode=ldbalance pfs=/lus/global capacity=100TiB",
        JobDw { access: vec![Access::plain(AccessMode::Ldbalance)], ..cache(100 * TIB) },
    );
    let client_cache = Access { client_cache: true, ..Access::plain(AccessMode::Striped) };
    assert_job(
        "#DW jobdw type=scratch access_mode=striped(client_cache=yes) capacity=400GiB",
        JobDw { access: vec![client_cache], ..scratch(400 * GIB) },
    );
    assert_job("#DW jobdw capacity=160GB access_mode=striped type=scratch", scratch(160 * GB));
}

#[test]
fn jobdw_with_a_continuation_and_modifiers() {
    let limited = Access {
        max_file_size: Some(Bytes(10 * GIB)),
        client_cache: true,
        ..Access::plain(AccessMode::Striped)
    };
    let expected = JobDw {
        access: vec![limited],
        write_window_multiplier: Some(5),
        write_window_length_s: Some(43_200),
        ..cache(100 * TIB)
    };
    assert_job(
        "#DW jobdw type=cache access_mode=striped(MFS=10GiB,client_cache) pfs=/lus/global capacity=100TiB write_window_multiplier=5 write_window_length=43200",
        expected.clone(),
    );
    let continued = "#DW jobdw type=cache access_mode=striped(MFS=10GiB,client_cache) pfs=/lus/global \\\n\
                     #DW       capacity=100TiB write_window_multiplier=5 write_window_length=43200\n";
    assert_job(continued, expected.clone());
    assert_eq!(expected.effective_write_window_length_s(), 43_200);
    assert_eq!(scratch(1).effective_write_window_length_s(), 86_400);
    assert_eq!(scratch(1).effective_write_window_multiplier(), 10);
}

#[test]
fn every_option_of_jobdw_is_read() {
    use forebay_model::allocate::Strategy;
    let line = "#DW jobdw type=cache access_mode=striped(MFC=7,MFS=0),ldbalance pfs=/p capacity=2N \
                modified_threshold=256MiB read_ahead=16MiB:8MiB sync_on_close=yes sync_to_pfs=no \
                optimization_strategy=wear max_mds=yes";
    let job = JobDw {
        access: vec![
            Access { max_files: Some(7), ..Access::plain(AccessMode::Striped) },
            Access::plain(AccessMode::Ldbalance),
        ],
        capacity: Capacity::Nodes(2),
        pfs: Some(b"/p".to_vec()),
        modified_threshold: Some(Bytes(256 << 20)),
        read_ahead: Some(ReadAhead { after: Bytes(16 << 20), unit: Some(Bytes(8 << 20)) }),
        sync_on_close: Some(true),
        sync_to_pfs: Some(false),
        strategy: Some(Strategy::Wear),
        max_mds: Some(true),
        ..cache(1)
    };
    assert_job(line, job);
}

#[test]
fn swap_lines() {
    let swap = |per_node, pool| Directive::Swap(Swap { per_node: Bytes(per_node), pool });
    assert_eq!(directives("#DW swap 150GB"), [swap(150 * GB, None)]);
    assert_eq!(directives("#DW swap 1GB pool=p1"), [swap(GB, pool("p1"))]);
    assert_eq!(directives("#DW swap 3TiB"), [swap(3 * TIB, None)]);
    let both = "#DW jobdw capacity=160GB access_mode=striped type=scratch\n#DW swap 150GB\n";
    assert_eq!(directives(both), [Directive::JobDw(scratch(160 * GB)), swap(150 * GB, None)]);
}

fn pfs(path: &str) -> StagePath {
    StagePath::Pfs(path.as_bytes().to_vec())
}

fn in_job(path: &str) -> StagePath {
    instance(InstanceRef::Job, path)
}

fn in_persistent(name: &str, path: &str) -> StagePath {
    instance(InstanceRef::Persistent(name.to_string()), path)
}

/// `path` as written after the variable.
fn instance(target: InstanceRef, written: &str) -> StagePath {
    let path = written.trim_matches('/').as_bytes().to_vec();
    StagePath::Instance { target, path, trailing_slash: written.ends_with('/') }
}

fn stage(kind: StageKind, source: StagePath, destination: StagePath) -> Stage {
    Stage { kind, source, destination: Some(destination), tolerate_errors: false }
}

const JOB: &str = "#DW jobdw capacity=1GB access_mode=striped type=scratch\n";

const SWAP: &str = "#DW swap 1GB\n";

/// Stage directives of a script that has an instance of its own.
#[track_caller]
fn assert_staged(lines: &str, expected: &[Directive]) {
    assert_eq!(directives(&format!("#!/bin/bash\n{JOB}{lines}"))[1..], *expected, "{lines}");
}

#[test]
fn staging_lines_of_the_tutorial() {
    use StageKind::{Directory, File};
    assert_staged(
        "#DW stage_in source=/lustre/inputs destination=$DW_JOB_STRIPED/inputs \\\n#DW type=directory\n\
         #DW stage_in source=/lustre/file.dat destination=$DW_JOB_STRIPED/ type=file\n\
         #DW stage_out source=$DW_JOB_STRIPED/outputs destination=/lustre/outputs \\\n#DW type=directory\n",
        &[
            Directive::StageIn(stage(Directory, pfs("/lustre/inputs"), in_job("/inputs"))),
            Directive::StageIn(stage(File, pfs("/lustre/file.dat"), in_job("/"))),
            Directive::StageOut(stage(Directory, in_job("/outputs"), pfs("/lustre/outputs"))),
        ],
    );
    let tutorial = "/global/cscratch1/sd/djbard/SC17_BB_Tutorial/intro";
    assert_staged(
        &format!(
            "#DW stage_in source={tutorial}/data/ destination=$DW_JOB_STRIPED/data type=directory\n\
             #DW stage_out destination={tutorial}/data/hello.txt source=$DW_JOB_STRIPED/hello.txt type=file\n\
             #DW stage_in source={tutorial}_data/spPlates/ destination=$DW_JOB_STRIPED/spPlates/ type=directory\n\
             #DW stage_in source={tutorial}/readfits.py destination=$DW_JOB_STRIPED/ type=file\n\
             #DW stage_in source={tutorial}/pmf1k destination=$DW_JOB_STRIPED/ type=file\n"
        ),
        &[
            Directive::StageIn(stage(Directory, pfs(&format!("{tutorial}/data/")), in_job("/data"))),
            Directive::StageOut(stage(
                File,
                in_job("/hello.txt"),
                pfs(&format!("{tutorial}/data/hello.txt")),
            )),
            Directive::StageIn(stage(
                Directory,
                pfs(&format!("{tutorial}_data/spPlates/")),
                in_job("/spPlates/"),
            )),
            Directive::StageIn(stage(File, pfs(&format!("{tutorial}/readfits.py")), in_job("/"))),
            Directive::StageIn(stage(File, pfs(&format!("{tutorial}/pmf1k")), in_job("/"))),
        ],
    );
}

#[test]
fn staging_lines_of_shaheen() {
    use StageKind::Directory;
    assert_staged(
        "#DW stage_in type=directory source=/scratch/markomg/for_bb destination=$DW_JOB_STRIPED\n\
         #DW stage_out type=directory destination=/scratch/markomg/back_up source=$DW_JOB_STRIPED/ \n",
        &[
            Directive::StageIn(stage(Directory, pfs("/scratch/markomg/for_bb"), in_job(""))),
            Directive::StageOut(stage(Directory, in_job("/"), pfs("/scratch/markomg/back_up"))),
        ],
    );
    for source in [
        "/project/k01/markomg/wrf",
        "/project/k01/.../forburst",
        "/project/k01/markomg/burstbuffer/complex/stage_in_bb/",
    ] {
        let script = format!(
            "#DW persistentdw name=george_test\n\
             #DW stage_in type=directory source={source} destination=$DW_PERSISTENT_STRIPED_george_test\n"
        );
        assert_eq!(
            directives(&script),
            [
                Directive::PersistentDw(PersistentDw { name: "george_test".into() }),
                Directive::StageIn(stage(Directory, pfs(source), in_persistent("george_test", ""))),
            ]
        );
    }
}

#[test]
fn lists_files_braces_and_the_older_form() {
    use StageKind::{File, List};
    let list = |source| Stage { kind: List, source, destination: None, tolerate_errors: true };
    assert_staged(
        "#DW stage_in type=list source=/lustre/list.txt tolerate_errors=yes\n\
         #DW stage_out type=list source=/lustre/list.txt tolerate_errors=yes\n\
         #DW stage_out type=list source=$DW_JOB_STRIPED/list.txt tolerate_errors=yes\n\
         #DW stage_in type=file source=/p/f destination=${DW_JOB_STRIPED}/d/f\n",
        &[
            Directive::StageIn(list(pfs("/lustre/list.txt"))),
            Directive::StageOut(list(pfs("/lustre/list.txt"))),
            Directive::StageOut(list(in_job("/list.txt"))),
            Directive::StageIn(stage(File, pfs("/p/f"), in_job("/d/f"))),
        ],
    );
    let old = format!(
        "{JOB}#DW stage_in type=file source=/ss/file1 destination=/ss/file1\n\
         #DW stage_out type=file destination=/pfs/file1 source=/ss/file1\n"
    );
    assert_eq!(
        directives(&old)[1..],
        [
            Directive::StageIn(stage(File, pfs("/ss/file1"), in_job("/file1"))),
            Directive::StageOut(stage(File, in_job("/file1"), pfs("/pfs/file1"))),
        ]
    );
    assert_eq!(codes(&parse_script(old.as_bytes()).warnings), ["old-instance-path", "old-instance-path"]);
}

#[test]
fn instance_paths_are_normalised() {
    let path_of = |written: &str| {
        let script = format!("{JOB}#DW stage_in type=directory source=/p destination={written}\n");
        match directives(&script).pop() {
            Some(Directive::StageIn(Stage {
                destination: Some(StagePath::Instance { path, trailing_slash, .. }),
                ..
            })) => (String::from_utf8(path).unwrap(), trailing_slash),
            other => panic!("{other:?}"),
        }
    };
    let table = [
        ("$DW_JOB_STRIPED", "", false),
        ("$DW_JOB_STRIPED/", "", true),
        ("$DW_JOB_STRIPED//a///b", "a/b", false),
        ("$DW_JOB_STRIPED/a/./b/", "a/b", true),
        ("$DW_JOB_STRIPED/a/../b", "b", false),
        ("$DW_JOB_STRIPED/a/..", "", true),
        ("$DW_JOB_STRIPED/.", "", true),
        ("$DW_JOB_STRIPED/...", "...", false),
    ];
    for (written, path, trailing_slash) in table {
        assert_eq!(path_of(written), (path.to_string(), trailing_slash), "{written}");
    }
}

#[test]
fn persistent_lines() {
    let create = |name: &str, bytes| {
        Directive::CreatePersistent(CreatePersistent {
            name: name.into(),
            capacity: Capacity::Bytes(Bytes(bytes)),
            kind: ConfigurationType::Scratch,
            access: vec![Access::plain(AccessMode::Striped)],
            pool: None,
        })
    };
    let table = [
        (
            "#BB create_persistent name=george_test capacity=600G access=striped type=scratch",
            "george_test",
            600 * GIB,
        ),
        (
            "#BB create_persistent name=myBBname capacity=10GB access=striped type=scratch",
            "myBBname",
            10 * GB,
        ),
        ("#BB create_persistent name=csbb capacity=700GB access=striped type=scratch", "csbb", 700 * GB),
        (
            "#BB create_persistent name=my_persistent_reservation capacity=300GB access_mode=striped type=scratch",
            "my_persistent_reservation",
            300 * GB,
        ),
        (
            // As the tutorial prints it: the next line is a comment, and the type is scratch all the same.
            "#BB create_persistent name=my_persistent_reservation capacity=300GB access_mode=striped\n# type=scratch",
            "my_persistent_reservation",
            300 * GB,
        ),
        ("#BB create_persistent name=x capacity=1G", "x", GIB),
    ];
    for (line, name, bytes) in table {
        assert_eq!(directives(line), [create(name, bytes)], "{line}");
    }
    let destroy =
        |name: &str, hurry| Directive::DestroyPersistent(DestroyPersistent { name: name.into(), hurry });
    assert_eq!(directives("#BB destroy_persistent name=myBBname"), [destroy("myBBname", false)]);
    assert_eq!(directives("#BB destroy_persistent name=george_test hurry"), [destroy("george_test", true)]);
    assert_eq!(directives("#BB destroy_persistent hurry name=george_test"), [destroy("george_test", true)]);
    let attach = |name: &str| Directive::PersistentDw(PersistentDw { name: name.into() });
    let two = "#DW persistentdw name=myBBname\n#DW persistentdw name=csbb\n";
    assert_eq!(directives(two), [attach("myBBname"), attach("csbb")]);
}

#[test]
fn a_name_may_contain_underscores_in_a_path() {
    let script = "#DW persistentdw name=my_persistent_reservation\n\
                  #DW stage_in source=/g/data destination=$DW_PERSISTENT_STRIPED_my_persistent_reservation/data type=directory\n\
                  #DW stage_out destination=/g/out source=${DW_PERSISTENT_STRIPED_my_persistent_reservation}/out type=directory\n";
    let staged = &directives(script)[1..];
    let path = |path| in_persistent("my_persistent_reservation", path);
    assert_eq!(
        staged,
        [
            Directive::StageIn(stage(StageKind::Directory, pfs("/g/data"), path("/data"))),
            Directive::StageOut(stage(StageKind::Directory, path("/out"), pfs("/g/out"))),
        ]
    );
}

#[test]
fn lines_damaged_in_the_printed_tutorial_are_told() {
    let damaged = "#DW_persistentdw name=my_persistent_reservation\n\
                   #DW_stage_in source=/global/data destination=\n\
                   #=$DW_PERSISTENT_STRIPED_my_persistent_reservation/data type=directory\n";
    let parsed = parse_script(damaged.as_bytes());
    assert_eq!(codes(&parsed.warnings), ["near-miss", "near-miss"]);
    let parsed = parse_script(b"#DW jobdw capacity=1000GB access mode=striped type=scratch\n");
    assert_eq!(codes(&parsed.errors), ["blank-in-key"]);
    let parsed =
        parse_script(b"#BB create persistent name=csbb capacity=700GB access=striped type=scratch\n");
    assert_eq!(codes(&parsed.errors), ["unknown-command"]);
    let parsed = parse_script(b"#DW nodes\n");
    assert_eq!(codes(&parsed.errors), ["unknown-command"]);
}

#[test]
fn a_whole_job_script() {
    let script = b"#!/bin/bash\n#SBATCH -p debug\n#SBATCH -N 1\n#DW jobdw capacity=200GB access_mode=striped type=scratch pool=wlm_pool\n\n# where the space is\n#DW stage_in source=/p/data destination=$DW_JOB_STRIPED/data type=directory\n\necho $DW_JOB_STRIPED\n#DW stage_out source=$DW_JOB_STRIPED/out destination=/p/out type=directory\n";
    let parsed = parse_script(script);
    assert_eq!(parsed.errors, []);
    assert_eq!(codes(&parsed.warnings), ["after-first-command"]);
    let lines: Vec<_> = parsed.directives.iter().map(|located| (located.line, located.column)).collect();
    assert_eq!(lines, [(4, 1), (7, 1), (10, 1)]);
    assert_eq!(parsed.stage_targets(), [InstanceRef::Job]);
}

#[test]
fn ordinary_comments_are_silent() {
    let script = b"#!/bin/sh\n# DW nodes are fast\n#dw\n# use DW jobdw lines here\n# DW stage_in needs the PFS\n\
                   #BBQ recipe = sauce\n#  swap the DW disks\n#DWARF x=1\n# bb8: create the robot\n##\n#\n# DW swap is slow\n\
                   # DW: see http://x/?jobs=1\n";
    let parsed = parse_script(script);
    assert_eq!((parsed.directives.len(), parsed.warnings, parsed.errors), (0, vec![], vec![]));
}

#[test]
fn near_misses_are_told() {
    for line in [
        "# DW jobdw capacity=1GB",
        "#dw jobdw capacity=1GB",
        "##DW jobdw capacity=1GB",
        "# #DW jobdw capacity=1GB",
        "  #DW jobdw capacity=1GB",
        "#DW_jobdw capacity=1GB",
        "#DWjobdw capacity=1GB",
        "#DW-stage_in source=/x",
        "#DW: stage_out source=/x",
        "# bb create_persistent name=x",
        "#BB_destroy_persistent name=x",
        "#Dw Stage_In source=/x",
        "#dw jobwd capacity=1GB",
        "#dw swap 100GB",
        "# BB create persistent name=csbb",
    ] {
        let parsed = parse_script(line.as_bytes());
        assert_eq!(codes(&parsed.warnings), ["near-miss"], "{line}");
        assert_eq!((parsed.errors, parsed.directives), (vec![], vec![]), "{line}");
    }
}

#[test]
fn files_of_directives_have_no_commands() {
    let parsed = parse_lines(
        b"#DW jobdw capacity=1GB access_mode=striped type=scratch\n\nDW swap 1GB\n#DW swap 1GB\n",
    );
    assert_eq!(parsed.errors, []);
    assert_eq!(parsed.directives.len(), 2);
    assert_eq!(codes(&parsed.warnings), ["ignored-line"]);
}

#[test]
fn dos_line_ends_and_missing_line_ends_are_no_obstacle() {
    let parsed = parse_script(
        b"#!/bin/sh\r\n#DW jobdw capacity=1GB access_mode=striped type=scratch \\\r\n#DW pool=p\r",
    );
    assert_eq!(parsed.errors, []);
    assert_eq!(codes(&parsed.warnings), ["carriage-return"]);
    assert_eq!(parsed.directives[0].value, Directive::JobDw(JobDw { pool: pool("p"), ..scratch(GB) }));
}

#[test]
fn the_text_of_sbatch_bb() {
    let values = |text| {
        let parsed = parse_bb_option(text);
        assert_eq!(parsed.errors, [], "{text}");
        parsed.directives.into_iter().map(|located| located.value).collect::<Vec<_>>()
    };
    let swap = |gibibytes, pool| Directive::Swap(Swap { per_node: Bytes(gibibytes * GIB), pool });
    assert_eq!(values("capacity=1G access=striped type=scratch"), [Directive::JobDw(scratch(GIB))]);
    assert_eq!(values("capacity=1G access_mode=striped type=scratch\n"), [Directive::JobDw(scratch(GIB))]);
    let in_pool = JobDw { pool: pool("p"), ..scratch(GIB) };
    assert_eq!(
        values("capacity=1G access=striped type=scratch pool=p swap=2"),
        [Directive::JobDw(in_pool), swap(2, pool("p"))]
    );
    assert_eq!(values("swap=3"), [swap(3, None)]);
    assert_eq!(values("swap=3TiB"), [swap(3 * 1024, None)]);
    assert_eq!(
        values("#DW jobdw capacity=1GiB access_mode=striped type=scratch"),
        [Directive::JobDw(scratch(GIB))]
    );
    let error = |text| parse_bb_option(text).errors.iter().map(|error| error.code.name()).collect::<Vec<_>>();
    assert_eq!(error("#BB create_persistent name=x capacity=1G"), ["not-allowed-here"]);
    assert_eq!(error("#BB destroy_persistent name=x"), ["not-allowed-here"]);
    assert_eq!(error("capacity=1G"), ["missing-key", "missing-key"]);
    assert_eq!(error(""), ["missing-key"]);
    assert_eq!(error("capacity=1G access=striped type=scratch name=x"), ["unknown-key"]);
    assert_eq!(error("capacity=1G access=striped\ntype=scratch"), ["missing-key", "stray-word"]);
}

#[test]
fn symbols_are_replaced_inside_their_words() {
    let symbols = Symbols {
        work_dir: b"/home/ann/my runs".to_vec(),
        user: b"ann".to_vec(),
        job_id: b"42".to_vec(),
        ..Symbols::default()
    };
    let script = "#DW persistentdw name=%u_space\n\
                  #DW stage_in type=file source=%d/in.%j destination=$DW_PERSISTENT_STRIPED_%u_space/100%%\n\
                  #DW stage_out type=file source=$DW_PERSISTENT_STRIPED_ann_space/a\\\\%j destination=/out/%j\n";
    let parsed = parse_script_with(script.as_bytes(), Some(&symbols));
    assert_eq!(parsed.errors, []);
    let values: Vec<_> = parsed.directives.into_iter().map(|located| located.value).collect();
    assert_eq!(
        values,
        [
            Directive::PersistentDw(PersistentDw { name: "ann_space".into() }),
            Directive::StageIn(stage(
                StageKind::File,
                pfs("/home/ann/my runs/in.42"),
                in_persistent("ann_space", "/100%")
            )),
            Directive::StageOut(stage(StageKind::File, in_persistent("ann_space", "/a%j"), pfs("/out/%j"))),
        ]
    );
    let kept = directives(&script[..script.find("#DW stage_out").unwrap()]);
    assert_eq!(kept[0], Directive::PersistentDw(PersistentDw { name: "%u_space".into() }));
}

#[test]
fn two_backslashes_at_the_end_of_a_line_do_not_continue_it() {
    let script =
        format!("{JOB}#DW stage_in type=directory source=/a destination=$DW_JOB_STRIPED/b\\\\\n{SWAP}");
    let values = directives(&script);
    assert_eq!(values.len(), 3, "{values:?}");
}

#[test]
fn a_directive_with_a_mistake_is_not_handed_out_and_its_mistake_is_told_once() {
    for mistake in
        ["max_mds=perhaps", "pool=a/b", "write_window_length=0", "read_ahead=x:1M", "sync_on_close=1"]
    {
        let script = format!(
            "#DW jobdw capacity=1GB access_mode=striped type=scratch {mistake}\n\
             #DW stage_in type=file source=/a destination=$DW_JOB_STRIPED/a\n"
        );
        let parsed = parse_script(script.as_bytes());
        assert_eq!(parsed.errors.len(), 1, "{mistake}: {:?}", parsed.errors);
        assert!(matches!(parsed.directives[0].value, Directive::StageIn(_)), "{mistake}");
    }
}

#[test]
fn stage_lists() {
    let targets = [InstanceRef::Job, InstanceRef::Persistent("p".into())];
    let list = b"# made by hand\n/p/a $DW_JOB_STRIPED/x/a\n\n/p/b\t$DW_JOB_STRIPED/x/\r\n/p/c%q $DW_PERSISTENT_STRIPED_p\n";
    let read = parse_stage_list(list, Direction::In, &targets);
    assert_eq!(read.errors, []);
    let entry = |pfs: &str, target: &InstanceRef, path: &str| StageListEntry {
        pfs: pfs.into(),
        target: target.clone(),
        path: path.into(),
    };
    let entries: Vec<_> = read.entries.into_iter().map(|located| (located.line, located.value)).collect();
    assert_eq!(
        entries,
        [
            (2, entry("/p/a", &targets[0], "x/a")),
            (4, entry("/p/b", &targets[0], "x/b")),
            (5, entry("/p/c%q", &targets[1], "c%q")),
        ]
    );
    let out =
        parse_stage_list(b"$DW_JOB_STRIPED/r/a /p/b\n$DW_JOB_STRIPED/r/a /p/", Direction::Out, &targets);
    let entries: Vec<_> = out.entries.into_iter().map(|located| located.value).collect();
    assert_eq!(entries, [entry("/p/b", &targets[0], "r/a"), entry("/p/a", &targets[0], "r/a")]);
}

#[test]
fn a_file_goes_under_its_name_into_a_directory() {
    let destination = |source, destination| stage(StageKind::File, source, destination).file_destination();
    assert_eq!(destination(pfs("/p/f.dat"), in_job("")), Some(in_job("/f.dat")));
    assert_eq!(destination(pfs("/p/f.dat"), in_job("/")), Some(in_job("/f.dat")));
    assert_eq!(destination(pfs("/p/f.dat"), in_job("/d/")), Some(in_job("/d/f.dat")));
    assert_eq!(destination(pfs("/p/f.dat"), in_job("/d")), Some(in_job("/d")));
    assert_eq!(destination(in_job("/d/f"), pfs("/p/")), Some(pfs("/p/f")));
    assert_eq!(destination(in_job("/d/f"), pfs("/p")), Some(pfs("/p")));
    assert_eq!(stage(StageKind::Directory, pfs("/p"), in_job("/")).file_destination(), None);
}

#[test]
fn json_has_plain_strings_for_paths_and_names() {
    let script = format!("{JOB}#DW stage_in type=file source=/p/f destination=$DW_JOB_STRIPED/d/\n");
    let json = serde_json::to_value(parse_script(script.as_bytes())).unwrap();
    assert_eq!(
        json["directives"][1],
        serde_json::json!({"line": 2, "column": 1, "value": {
            "directive": "stage_in", "type": "file", "source": {"pfs": "/p/f"},
            "destination": {"instance": {"target": "job", "path": "d", "trailing_slash": true}},
            "tolerate_errors": false}})
    );
    assert_eq!(json["directives"][0]["value"]["directive"], "jobdw");
    assert_eq!(json["directives"][0]["value"]["capacity"], serde_json::json!({"bytes": 1_000_000_000}));
    let refused = serde_json::to_value(parse_script(b"#DW swap 1.5G\n")).unwrap();
    assert_eq!(
        refused["errors"][0],
        serde_json::json!({"severity": "error", "line": 1, "column": 10, "text": "1.5G",
            "expected": "an integer and one of the units K KiB KB M MiB MB G GiB GB T TiB TB P PiB PB",
            "suggestion": "write `1536MiB`", "code": "size-fraction"})
    );
    let odd = parse_script(b"#DW jobdw capacity=1G access_mode=striped type=scratch\n#DW stage_in type=file source=/p/\xff destination=$DW_JOB_STRIPED/d\n");
    assert_eq!(odd.errors, []);
    let odd = serde_json::to_value(odd).unwrap();
    assert_eq!(odd["directives"][1]["value"]["source"]["pfs"], serde_json::json!([47, 112, 47, 255]));
}
