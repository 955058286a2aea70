//! MUNGE: makes a credential and looks at it again.

use super::finding::Finding;
use forebay_controller::munge::{Munge, MungeError};

const SUBJECT: &str = "munge";

/// Whether a credential made here is accepted here.
pub fn check() -> Finding {
    check_with(&Munge::default())
}

fn check_with(munge: &Munge) -> Finding {
    let payload = b"forebay doctor";
    match munge.encode(payload, None).and_then(|credential| munge.decode(&credential)) {
        Ok(decoded) if decoded.payload == payload => {
            Finding::good(SUBJECT, "munged makes credentials and accepts them")
        }
        Ok(_) => Finding::bad(SUBJECT, "munged gives back something else than it was given", "replace it"),
        Err(error) => Finding::bad(SUBJECT, error.to_string(), change(&error)),
    }
}

fn change(error: &MungeError) -> &'static str {
    match error {
        MungeError::NoLibrary { .. } => "install the package munge (libmunge2)",
        MungeError::NoDaemon { .. } => {
            "start munged (systemctl start munge); its key /etc/munge/munge.key must be the same on all machines, of \
             mode 0400 and owned by its user"
        }
        _ => "compare clocks and /etc/munge/munge.key of the machines",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;
    use std::path::Path;

    #[test]
    fn without_munged_it_is_told_what_to_start() {
        let finding = check_with(&Munge::new(Some(Path::new("/nonexistent/munge.socket.2"))));
        assert_eq!(finding.grade, Grade::Bad);
        let is_said = finding.change.contains("start munged") || finding.change.contains("libmunge2");
        assert!(is_said && !finding.found.is_empty(), "{finding}");
        for error in [MungeError::Expired, MungeError::FromTheFuture] {
            assert!(change(&error).contains("clocks"), "{}", change(&error));
        }
    }
}
