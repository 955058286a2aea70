//! The machine's switch for requests over io_uring.
//!
//! On while anybody in this process wants it, and then as it was before. Programs of tests run one after another. A test that is killed
//! leaves it on. A kernel without the switch (before 6.14) is left alone.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Who wants it, and what it was before the first of them.
struct State {
    wanted: usize,
    before: String,
}

static STATE: Mutex<State> = Mutex::new(State { wanted: 0, before: String::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// It is on as long as this lives.
#[derive(Debug)]
pub struct SwitchedOn(());

impl SwitchedOn {
    /// Switches it on; `None`: there is no switch.
    ///
    /// # Errors
    /// Those of the system, as for who is not root.
    pub fn new() -> std::io::Result<Option<SwitchedOn>> {
        if !Path::new(SWITCH).exists() {
            return Ok(None);
        }
        let mut state = state();
        if state.wanted == 0 {
            state.before = std::fs::read_to_string(SWITCH)?.trim().to_owned();
            std::fs::write(SWITCH, "Y")?;
        }
        state.wanted += 1;
        Ok(Some(SwitchedOn(())))
    }
}

impl Drop for SwitchedOn {
    fn drop(&mut self) {
        let mut state = state();
        state.wanted -= 1;
        if state.wanted == 0
            && let Err(error) = std::fs::write(SWITCH, &state.before)
        {
            eprintln!("{SWITCH}: it was {} and cannot be so again: {error}", state.before);
        }
    }
}
