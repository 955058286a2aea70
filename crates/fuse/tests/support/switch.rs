//! The machine's switch for requests over io_uring.

use std::fs::File;

const PATH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Switches io_uring on for one test at a time, over all processes, and puts the machine's own setting back, also when the
/// test failed.
pub struct SwitchedOn {
    before: String,
    _alone: File,
}

impl SwitchedOn {
    pub fn new() -> SwitchedOn {
        let alone = File::open(PATH).expect("a kernel with requests over io_uring (6.14)");
        alone.lock().unwrap();
        let before = std::fs::read_to_string(PATH).unwrap();
        std::fs::write(PATH, "Y").unwrap();
        SwitchedOn { before, _alone: alone }
    }
}

impl Drop for SwitchedOn {
    fn drop(&mut self) {
        std::fs::write(PATH, self.before.trim()).unwrap();
    }
}
