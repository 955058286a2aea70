//! What may differ between the directory under test and the local directory beside it.
//!
//! Nothing else may. Each entry makes two attributes comparable by erasing what is allowed to differ.

use super::tree::Attributes;
use rustix::fs::FileType;
use rustix::io::Errno;

/// One allowed difference.
#[derive(Clone, Copy, Debug)]
pub struct Discrepancy {
    /// What differs.
    pub what: &'static str,
    /// Why that is right.
    pub why: &'static str,
    erase: fn(&mut Attributes),
}

/// All of them.
pub const ALLOWED: &[Discrepancy] = &[
    Discrepancy {
        what: "inode numbers",
        why: "every file system numbers its own; which names are one file is compared",
        erase: |attributes| attributes.inode = 0,
    },
    Discrepancy {
        what: "blocks used",
        why: "striped data is in other files with other ends; that data never shows 0 blocks is tested elsewhere",
        erase: |attributes| attributes.blocks = 0,
    },
    Discrepancy {
        what: "size of directories",
        why: "the bytes of a directory are the form of the local file system below",
        erase: |attributes| {
            if attributes.kind == FileType::Directory {
                attributes.size = 0;
            }
        },
    },
    Discrepancy {
        what: "times taken from the clock",
        why: "the two sides act one after the other; a time that was set must be equal, and so must be which were set",
        erase: |attributes| {
            attributes.modified = attributes.modified.filter(|(seconds, _)| *seconds < RECENT)
        },
    },
    Discrepancy {
        what: "access times",
        why: "when reading marks them is an option of each mount",
        erase: |attributes| attributes.accessed = None,
    },
];

/// One word where POSIX allows two for the same refusal: a rename over a directory that is not empty is EEXIST or
/// ENOTEMPTY, and local file systems differ.
pub fn one_word(error: Errno) -> Errno {
    if error == Errno::NOTEMPTY { Errno::EXIST } else { error }
}

/// Times before this were set by an operation, later ones come from the clock: 2020-09-13.
pub const RECENT: i64 = 1_600_000_000;

/// What is left when all that may differ is erased.
pub fn comparable(mut attributes: Attributes) -> Attributes {
    ALLOWED.iter().for_each(|discrepancy| (discrepancy.erase)(&mut attributes));
    attributes
}

/// Names of extended attributes that only the file system under test has: how a file is striped.
pub fn is_layout_attribute(name: &[u8]) -> bool {
    name.starts_with(b"user.dwfs.")
}
