//! How much a pipe may hold: whether mounts answer large reads of this node's own fragments without a copy (docs/kernels.md).

use super::finding::Finding;

const SUBJECT: &str = "kernel";
const LIMIT_FILE: &str = "/proc/sys/fs/pipe-max-size";
/// The next power of two, which is what a pipe's size is rounded to, above an answer of 1 MiB and its header.
const WANTED_BYTES: u64 = 2 << 20;

/// Looks at the limit of this machine.
pub fn check() -> Finding {
    judge(std::fs::read_to_string(LIMIT_FILE).ok().and_then(|text| text.trim().parse().ok()))
}

fn judge(limit_bytes: Option<u64>) -> Finding {
    let change = "write `fs.pipe-max-size = 2097152` to a file in /etc/sysctl.d and run sysctl --system";
    match limit_bytes {
        Some(bytes) if bytes >= WANTED_BYTES => {
            Finding::good(SUBJECT, "reads of 1 MiB from this node's own fragments are not copied")
        }
        Some(bytes) => {
            let found = format!(
                "a pipe may hold {bytes} bytes, so reads of 1 MiB from this node's own fragments are copied, which is slower"
            );
            Finding::doubtful(SUBJECT, found, change)
        }
        None => Finding::doubtful(SUBJECT, format!("{LIMIT_FILE} cannot be read"), change),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;

    #[test]
    fn a_pipe_that_is_too_small_is_told_with_its_size_and_the_remedy() {
        assert_eq!(judge(Some(WANTED_BYTES)).grade, Grade::Good);
        assert_eq!(judge(Some(8 << 20)).grade, Grade::Good);
        let found = judge(Some(1 << 20));
        assert_eq!(found.grade, Grade::Doubtful);
        assert!(found.found.contains("1048576 bytes") && found.change.contains("2097152"));
        assert_eq!(judge(None).grade, Grade::Doubtful);
    }
}
