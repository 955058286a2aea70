use super::failure::{PLAIN, code_of, error_of};
use crate::error::FsError;

#[test]
fn errors_arrive_as_they_were_sent() {
    for error in PLAIN {
        let (code, errno) = code_of(*error);
        assert_eq!(error_of(code, errno), Some(*error));
        assert_eq!(error_of(code, 5), None, "an errno belongs to an error of the host only");
    }
    let host = FsError::Host { operation: "write", errno: 5 };
    let (code, errno) = code_of(host);
    assert_eq!(error_of(code, errno), Some(FsError::Host { operation: "server", errno: 5 }));
    assert_eq!(error_of(999, 0), None);
}
