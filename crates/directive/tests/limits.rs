//! Scripts of any size are read in bounded memory, and what is too much is told.

use forebay_directive::*;

fn codes(found: &[Diagnostic]) -> Vec<&'static str> {
    found.iter().map(|found| found.code.name()).collect()
}

#[test]
fn findings_are_told_up_to_a_limit() {
    let parsed = parse_script("#DW nonsense\n# DW jobdw x=1\n".repeat(2_000).as_bytes());
    assert_eq!((parsed.errors.len(), parsed.warnings.len()), (1_001, 1_001));
    assert_eq!(codes(&parsed.errors[999..]), ["unknown-command", "too-many"]);
    assert_eq!(codes(&parsed.warnings[999..]), ["near-miss", "more-warnings"]);
    assert_eq!(
        parsed.errors[1_000].to_string(),
        "2001:5: error: too many: `findings`; expected at most 1000; the rest is not shown [too-many]"
    );
}

#[test]
fn directives_are_read_up_to_a_limit() {
    let line = |number: usize| format!("#DW persistentdw name=n{number}\n");
    let script = |count: usize| (0..count).map(line).collect::<String>();
    let fits = parse_script(script(10_000).as_bytes());
    assert_eq!((fits.directives.len(), fits.errors), (10_000, vec![]));
    let over = parse_script(script(10_001).as_bytes());
    assert_eq!(codes(&over.errors), ["too-many"]);
    assert_eq!(
        over.errors[0].to_string(),
        "10001:1: error: too many: `directives`; expected at most 10000; from here on nothing is read [too-many]"
    );
}

#[test]
fn a_directive_may_not_grow_without_end() {
    let long = format!("#DW persistentdw name={}\n", "x".repeat(70_000));
    assert_eq!(
        parse_script(long.as_bytes()).errors[0].to_string(),
        "1:1: error: directive too long: `#DW`; expected at most 65536 bytes with its continuation lines [line-too-long]"
    );
    let continued = format!("#DW persistentdw \\\n{}#DW name=x\n", "#DW \\\n".repeat(20_000));
    assert_eq!(codes(&parse_script(continued.as_bytes()).errors), ["line-too-long"]);
    let many = format!("#DW persistentdw {}\n", "a=b ".repeat(16_000));
    assert_eq!(parse_script(many.as_bytes()).errors.len(), 1_001);
}

#[test]
fn a_long_list_is_read_whole() {
    let list: String = (0..100_000).map(|number| format!("/p/{number} $DW_JOB_STRIPED/\n")).collect();
    let read = parse_stage_list(list.as_bytes(), Direction::In, &[InstanceRef::Job]);
    assert_eq!((read.entries.len(), read.errors), (100_000, vec![]));
    assert_eq!(read.entries[99_999].value.path, b"99999");
}

#[test]
fn a_path_may_be_as_long_as_the_kernel_takes_it() {
    let script = |length: usize| {
        let path = format!("/{}", "p".repeat(length - 1));
        format!(
            "#DW jobdw type=scratch access_mode=striped capacity=1G\n\
             #DW stage_in type=file source={path} destination=$DW_JOB_STRIPED/\n"
        )
    };
    assert_eq!(parse_script(script(4_095).as_bytes()).errors, []);
    assert_eq!(codes(&parse_script(script(4_096).as_bytes()).errors), ["bad-path"]);
}
