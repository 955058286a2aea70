//! Any bytes as a job script, a file of directives, a stage list and a text with symbols.
//!
//! `cargo +nightly fuzz run parse_script -- -dict=directives.dict -max_len=4096`

#![no_main]

use forebay_directive::{
    Direction, InstanceRef, Symbols, parse_bb_option, parse_lines_with, parse_script, parse_script_with, parse_stage_list,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let symbols = Symbols { job_id: b"4 2".to_vec(), work_dir: b"/\xff".to_vec(), ..Symbols::default() };
    let parsed = parse_script(text);
    for found in parsed.errors.iter().chain(&parsed.warnings) {
        let rendered = found.render("job.sh", text);
        assert!(rendered.chars().all(|c| c == '\n' || !c.is_control()));
    }
    // A `\\` ends the symbols of a line, and keys are printed in an order of their own.
    if !text.windows(2).any(|pair| pair == br"\\") {
        for located in &parsed.directives {
            let again = parse_script(&located.value.to_line());
            assert_eq!(again.directives.first().map(|located| &located.value), Some(&located.value));
        }
    }
    parse_script_with(text, Some(&symbols));
    parse_lines_with(text, Some(&symbols));
    parse_bb_option(&String::from_utf8_lossy(text));
    for direction in [Direction::In, Direction::Out] {
        for entry in parse_stage_list(text, direction, &[InstanceRef::Job]).entries {
            assert!(entry.value.pfs.starts_with(b"/"));
            assert!(entry.value.path.split(|byte| *byte == b'/').all(|part| !part.is_empty() && part != b".."));
        }
    }
});
