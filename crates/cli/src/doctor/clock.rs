//! Clocks: MUNGE refuses credentials that are minutes off.

use super::finding::Finding;
use std::io;

const SUBJECT: &str = "clock";
/// A clock that may be this far off is no cause for refusals.
const ERROR_MAX_US: i64 = 10_000_000;

/// Whether something keeps this machine's clock right, as the kernel knows it.
pub fn check() -> Finding {
    // SAFETY: all zero is a valid value: it asks for nothing to be changed.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    let state = unsafe { libc::adjtimex(&mut clock) };
    if state < 0 {
        let error = io::Error::last_os_error();
        return Finding::doubtful(
            SUBJECT,
            format!("the kernel does not tell its state: {error}"),
            "check it by hand",
        );
    }
    judge(state == libc::TIME_ERROR, clock.maxerror)
}

fn judge(unsynchronised: bool, error_us: i64) -> Finding {
    if unsynchronised {
        let change = "run chrony, ntpd or systemd-timesyncd on every machine, or make sure that the host of a virtual \
                      machine does: MUNGE refuses what is five minutes off";
        return Finding::doubtful(
            SUBJECT,
            "nothing keeps the clock synchronised, as far as the kernel knows",
            change,
        );
    }
    if error_us > ERROR_MAX_US {
        let found = format!("the clock may be {} s off", error_us / 1_000_000);
        return Finding::doubtful(SUBJECT, found, "look why the time service does not keep it closer");
    }
    Finding::good(SUBJECT, format!("synchronised, at most {} ms off", error_us / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;

    #[test]
    fn grades() {
        assert_eq!(judge(false, 30_000), Finding::good("clock", "synchronised, at most 30 ms off"));
        assert_eq!(judge(true, 0).grade, Grade::Doubtful);
        assert_eq!(judge(false, 60_000_000).found, "the clock may be 60 s off");
    }
}
