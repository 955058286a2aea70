//! No bytes make a panic; what is printed reads as itself; places lie inside the text.

use forebay_directive::*;
use forebay_model::allocate;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::Bytes;
use proptest::option;
use proptest::prelude::*;

fn assert_places_are_in_the_text(text: &[u8], found: &[Diagnostic]) {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    for found in found {
        assert!((1..=lines.len()).contains(&found.line), "{found}");
        let characters = String::from_utf8_lossy(lines[found.line - 1]).chars().count();
        assert!((1..=characters + 1).contains(&found.column), "{found}");
        let rendered = found.render("job.sh", text);
        assert_eq!(rendered.lines().count(), 3, "{rendered}");
        assert!(rendered.chars().all(|c| c == '\n' || !c.is_control()), "{rendered:?}");
    }
}

/// Everything that reads bytes, on any bytes.
fn read_everything(text: &[u8]) {
    let symbols = Symbols { job_id: b"4 2".to_vec(), work_dir: b"/\xff".to_vec(), ..Symbols::default() };
    for parsed in [
        parse_script(text),
        parse_script_with(text, Some(&symbols)),
        parse_lines(text),
        parse_lines_with(text, Some(&symbols)),
    ] {
        assert_places_are_in_the_text(text, &parsed.errors);
        assert_places_are_in_the_text(text, &parsed.warnings);
        serde_json::to_string(&parsed).unwrap();
    }
    for direction in [Direction::In, Direction::Out] {
        let list = parse_stage_list(text, direction, &[InstanceRef::Job]);
        assert_places_are_in_the_text(text, &list.errors);
        for entry in list.entries {
            assert!(entry.value.pfs.starts_with(b"/"));
            assert!(
                !entry.value.path.split(|byte| *byte == b'/').any(|part| part == b".." || part.is_empty())
            );
        }
    }
    parse_bb_option(&String::from_utf8_lossy(text));
    let _ = expand(text, &symbols);
}

/// Every directive that was understood is printed and reads as itself. A `\\` ends the symbols of a line, and keys are
/// printed in an order of their own: such texts are left out.
fn print_and_read(text: &[u8]) {
    if text.windows(2).any(|pair| pair == br"\\") {
        return;
    }
    for located in parse_script(text).directives {
        assert_reads_as_itself(&located.value);
    }
}

fn assert_reads_as_itself(directive: &Directive) {
    // Staging needs an instance, which is not the question here.
    let names: Vec<Directive> =
        parse_lines(&directive.to_line()).directives.into_iter().map(|d| d.value).collect();
    assert_eq!(names, std::slice::from_ref(directive), "{directive}");
}

/// Pieces that scripts are made of.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "#DW ",
        "#BB ",
        "#DW",
        "\n#DW ",
        "\n#BB ",
        "\\\n#DW ",
        "\n",
        " ",
        "\t",
        "\\",
        "\\\\",
        "=",
        ",",
        "(",
        ")",
        ":",
        "/",
        "jobdw",
        "swap",
        "stage_in",
        "stage_out",
        "persistentdw",
        "create_persistent",
        "destroy_persistent",
        "hurry",
        " type=",
        " access_mode=",
        " access=",
        " capacity=",
        " pool=",
        " pfs=",
        " source=",
        " destination=",
        " name=",
        " write_window_length=",
        " read_ahead=",
        " tolerate_errors=",
        " max_mds=",
        "scratch",
        "cache",
        "striped",
        "private",
        "ldbalance",
        "file",
        "directory",
        "list",
        "yes",
        "no",
        "1GiB",
        "200GB",
        "3.5TB",
        "2N",
        "0",
        "/lustre/a",
        "/ss/a",
        "..",
        ".",
        "$DW_JOB_STRIPED",
        "${DW_JOB_STRIPED}",
        "$DW_PERSISTENT_STRIPED_x",
        "$HOME",
        "x",
        "7",
        "(MFS=1G)",
        "(client_cache)",
        "%j",
        "%%",
        "%q",
        "echo",
        "# ",
        "\r\n",
        "\u{e4}",
    ]);
    prop_oneof![9 => known.prop_map(|text| text.as_bytes().to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..4)]
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![8 => 33_u8..=126, 2 => 128_u8..=255], 0..12).prop_map(|mut path| {
        path.retain(|byte| !b"$%\\".contains(byte));
        path
    })
}

fn pfs() -> impl Strategy<Value = Vec<u8>> {
    path().prop_map(|path| [b"/", path.as_slice()].concat())
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z_][A-Za-z0-9_-]{0,20}"
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![bytes().prop_map(Capacity::Bytes), (1..=u64::MAX).prop_map(Capacity::Nodes)]
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![1..=u64::MAX, (0..60_u32).prop_map(|bit| 1 << bit)].prop_map(Bytes)
}

fn access(modes: &'static [AccessMode]) -> impl Strategy<Value = Vec<Access>> {
    let one = (option::of(bytes()), option::of(1..=u64::MAX), any::<bool>());
    let limits = prop::collection::vec(one, modes.len());
    let chosen = prop::sample::subsequence(modes.to_vec(), 1..=modes.len()).prop_shuffle();
    (chosen, limits).prop_map(|(modes, limits)| {
        let access = modes.into_iter().zip(limits);
        access
            .map(|(mode, (max_file_size, max_files, client_cache))| Access {
                mode,
                max_file_size,
                max_files,
                client_cache,
            })
            .collect()
    })
}

fn kind_and_access() -> impl Strategy<Value = (ConfigurationType, Vec<Access>)> {
    prop_oneof![
        access(&[AccessMode::Striped, AccessMode::Private])
            .prop_map(|access| (ConfigurationType::Scratch, access)),
        access(&[AccessMode::Striped, AccessMode::Ldbalance])
            .prop_map(|access| (ConfigurationType::Cache, access)),
    ]
}

fn strategy() -> impl Strategy<Value = allocate::Strategy> {
    use allocate::Strategy::*;
    prop::sample::select(vec![Bandwidth, Interference, Wear])
}

fn job() -> impl Strategy<Value = Directive> {
    let space =
        (kind_and_access(), capacity(), option::of("[a-z0-9_][a-z0-9_.-]{0,9}"), pfs(), any::<bool>());
    let window = (option::of(1..=u64::MAX), option::of(1..=u64::MAX));
    let cache = (option::of(bytes()), option::of((bytes(), option::of(bytes()))), any::<[Option<bool>; 3]>());
    (space, window, cache, option::of(strategy())).prop_map(|(space, window, cache, strategy)| {
        let ((kind, access), capacity, pool, pfs, has_pfs) = space;
        Directive::JobDw(JobDw {
            kind,
            access,
            capacity,
            pool,
            pfs: Some(pfs).filter(|_| has_pfs || kind == ConfigurationType::Cache),
            write_window_length_s: window.0,
            write_window_multiplier: window.1,
            modified_threshold: cache.0,
            read_ahead: cache.1.map(|(after, unit)| ReadAhead { after, unit }),
            sync_on_close: cache.2[0],
            sync_to_pfs: cache.2[1],
            strategy,
            max_mds: cache.2[2],
        })
    })
}

fn persistent() -> impl Strategy<Value = Directive> {
    let create = (name(), capacity(), kind_and_access(), option::of(name())).prop_map(
        |(name, capacity, (kind, access), pool)| {
            Directive::CreatePersistent(CreatePersistent { name, capacity, kind, access, pool })
        },
    );
    let destroy = (name(), any::<bool>())
        .prop_map(|(name, hurry)| Directive::DestroyPersistent(DestroyPersistent { name, hurry }));
    let attach = name().prop_map(|name| Directive::PersistentDw(PersistentDw { name }));
    let swap =
        (bytes(), option::of(name())).prop_map(|(per_node, pool)| Directive::Swap(Swap { per_node, pool }));
    prop_oneof![create, destroy, attach, swap]
}

/// Staging directives, together with the directive that names their instance.
fn staged() -> impl Strategy<Value = (Directive, Option<String>)> {
    let target = option::of(name());
    let inside = (prop::collection::vec(path(), 0..3), any::<bool>());
    (target, inside, pfs(), 0..3_u8, any::<[bool; 2]>()).prop_map(
        |(persistent, inside, pfs, kind, [out, tolerate_errors])| {
            let target = persistent.clone().map_or(InstanceRef::Job, InstanceRef::Persistent);
            let components = inside.0.iter().flat_map(|path| path.split(|byte| *byte == b'/'));
            let components: Vec<&[u8]> =
                components.filter(|part| !part.is_empty() && *part != b"." && *part != b"..").collect();
            let path = components.join(&b'/');
            let source_is_file = kind != 1;
            let trailing_slash = inside.1 && !(source_is_file && out);
            let path = if source_is_file && out && path.is_empty() { b"f".to_vec() } else { path };
            let pfs = if source_is_file && !out { [&pfs[..], b"f"].concat() } else { pfs };
            let instance = StagePath::Instance { target, path, trailing_slash };
            let pfs = StagePath::Pfs(pfs);
            let (source, destination) = if out { (instance, pfs) } else { (pfs, instance) };
            let kind = [StageKind::File, StageKind::Directory, StageKind::List][usize::from(kind)];
            let destination = Some(destination).filter(|_| kind != StageKind::List);
            let stage = Stage { kind, source, destination, tolerate_errors };
            let directive = if out { Directive::StageOut(stage) } else { Directive::StageIn(stage) };
            (directive, persistent)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_everything(&bytes);
        read_everything(&[b"#DW ", bytes.as_slice()].concat());
    }

    #[test]
    fn any_pieces_of_scripts_are_read_or_refused(pieces in prop::collection::vec(piece(), 0..60)) {
        let text = pieces.concat();
        read_everything(&text);
        print_and_read(&text);
    }

    #[test]
    fn allocations_read_as_they_are_printed(directive in job()) {
        assert_reads_as_itself(&directive);
    }

    #[test]
    fn persistent_instances_and_swap_read_as_they_are_printed(directive in persistent()) {
        assert_reads_as_itself(&directive);
    }

    #[test]
    fn staging_reads_as_it_is_printed((directive, persistent) in staged()) {
        let first = match persistent {
            Some(name) => format!("#DW persistentdw name={name}\n"),
            None => "#DW jobdw type=scratch access_mode=striped capacity=1G\n".to_string(),
        };
        let script = [first.as_bytes(), &directive.to_line()].concat();
        let parsed = parse_script(&script);
        prop_assert_eq!(parsed.errors, vec![]);
        prop_assert_eq!(&parsed.directives[1].value, &directive);
    }

    #[test]
    fn the_order_of_the_keys_does_not_matter(directive in job(), seed in any::<u64>()) {
        let line = String::from_utf8_lossy(&directive.to_line()).into_owned();
        prop_assume!(!line.contains('\u{fffd}') && !line.ends_with('\\'));
        let mut words: Vec<&str> = line.split(' ').collect();
        for at in 3..words.len() {
            words.swap(at, 2 + (seed >> (at % 48)) as usize % (at - 1));
        }
        prop_assert!(!words.is_empty());
        let shuffled = words.join("\t  ").replacen("#DW\t  ", "#DW ", 1);
        let parsed = parse_lines(shuffled.as_bytes());
        prop_assert_eq!(parsed.errors, vec![]);
        prop_assert_eq!(&parsed.directives[0].value, &directive);
    }

    #[test]
    fn a_line_may_be_continued_between_any_words(directive in job(), breaks in any::<u16>()) {
        let line = directive.to_line();
        let words = line.split(|byte| *byte == b' ').enumerate();
        let mut continued = Vec::new();
        for (number, word) in words {
            if number > 1 && breaks >> (number % 16) & 1 == 1 {
                continued.extend_from_slice(b"\\\n#DW ");
            }
            continued.extend_from_slice(word);
            continued.push(b' ');
        }
        let parsed = parse_script(&continued);
        prop_assert_eq!(parsed.errors, vec![]);
        prop_assert_eq!(&parsed.directives[0].value, &directive);
    }

    #[test]
    fn symbols_without_percent_signs_change_nothing(text in "[^%\\\\]{0,40}") {
        prop_assert_eq!(expand(text.as_bytes(), &Symbols::default()), Ok(text.into_bytes()));
    }
}
