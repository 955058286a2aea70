//! Whether something that exists is what a request made whose answer was lost with the machine of its server.
//!
//! What a killed server had done is written down ([`crate::deeds`]); after a crash of the machine that counts for nothing. It is taken for ours when it is of the right kind and owner, has the names of a new
//! object and nothing in it, and is younger than a client waits for a server. A second process of the same user that made
//! the same name in that time, for the same purpose, is the one case where this is wrong; then both believe that they
//! made it. Where that must not be, a client asks for an exclusive create, which is never settled this way.

use forebay_wire::message::Credentials;
use forebay_wire::{Attr, FileKind};
use std::time::{SystemTime, UNIX_EPOCH};

/// A client does not wait longer for a server, and then some.
const YOUNG_SECONDS: i64 = 600;

/// It looks as it would if it had just been made.
pub(crate) fn looks_new(attr: &Attr, who: &Credentials, kind: FileKind) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    looks_new_at(attr, who, kind, now)
}

fn looks_new_at(attr: &Attr, who: &Credentials, kind: FileKind, now: i64) -> bool {
    let names = if kind == FileKind::Directory { 2 } else { 1 };
    let is_empty = kind != FileKind::Regular || attr.size == 0;
    let is_young = (now - attr.ctime.secs).abs() <= YOUNG_SECONDS;
    // Some file systems do not count the names of directories.
    let is_named_once = attr.nlink == names || (kind == FileKind::Directory && attr.nlink == 1);
    attr.kind == kind && attr.uid == who.uid && is_named_once && is_empty && is_young
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::{Ino, Timestamp};

    #[test]
    fn only_what_is_new_and_of_the_same_user_looks_new() {
        let now = 1_000_000;
        let time = |secs| Timestamp { secs, nanos: 0 };
        let attr = Attr {
            ino: Ino(7),
            size: 0,
            blocks: 0,
            atime: time(now),
            mtime: time(now),
            ctime: time(now - 5),
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 10,
            gid: 10,
            rdev: 0,
            block_size: 4096,
            generation: 1,
            valid_ms: 0,
        };
        let who = Credentials { uid: 10, gid: 10, pid: 1, groups: Vec::new() };
        let looks = |attr: Attr, kind| looks_new_at(&attr, &who, kind, now);
        assert!(looks(attr, FileKind::Regular));
        assert!(looks(Attr { kind: FileKind::Directory, nlink: 2, size: 60, ..attr }, FileKind::Directory));
        assert!(!looks(attr, FileKind::Fifo));
        for other in [
            Attr { uid: 11, ..attr },
            Attr { nlink: 2, ..attr },
            Attr { size: 1, ..attr },
            Attr { ctime: time(now - 601), ..attr },
        ] {
            assert!(!looks(other, FileKind::Regular), "{other:?}");
        }
    }
}
