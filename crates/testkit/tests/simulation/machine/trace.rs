//! What happened, in order: a count and a hash of it, and the lines themselves if somebody wants to read them.

use std::io::Write;

/// Environment variable that names a file for the lines.
pub const TRACE_VARIABLE: &str = "FOREBAY_SIMULATION_TRACE";

/// FNV-1a.
const HASH_BEGIN: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_FACTOR: u64 = 0x0100_0000_01b3;

/// See the module.
pub struct Trace {
    pub events: u64,
    pub hash: u64,
    file: Option<std::io::BufWriter<std::fs::File>>,
}

impl Trace {
    pub fn new() -> Trace {
        let file = std::env::var_os(TRACE_VARIABLE)
            .map(|path| std::fs::File::create(path).expect("the trace's file"));
        Trace { events: 0, hash: HASH_BEGIN, file: file.map(std::io::BufWriter::new) }
    }

    pub fn add(&mut self, line: &str) {
        self.events += 1;
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(HASH_FACTOR);
        }
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}").expect("the trace's file");
        }
    }

    pub fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            file.flush().expect("the trace's file");
        }
    }
}
