//! Names of substripe files and back. Pure.

use forebay_wire::FileId;

/// The directory of a file's substripe files.
pub(crate) fn bucket_name(file: FileId) -> String {
    format!("{:02x}", file.0 & 0xff)
}

/// Path of a substripe file below the data directory.
pub(crate) fn substripe_path(file: FileId, substripe: u32) -> String {
    format!("{:02x}/{:016x}.{substripe}", file.0 & 0xff, file.0)
}

/// The file id and substripe in a name of a bucket; `None` for a name that was not made by [`substripe_path`].
pub(crate) fn parse_name(name: &[u8]) -> Option<(FileId, u32)> {
    let name = std::str::from_utf8(name).ok()?;
    let (id, substripe) = name.split_once('.')?;
    let file = FileId(u64::from_str_radix(id, 16).ok()?);
    let substripe = substripe.parse().ok()?;
    let made = substripe_path(file, substripe);
    (made.get(3..) == Some(name)).then_some((file, substripe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (id, substripe) in [(0, 0), (0xabc, 63), (u64::MAX, 4)] {
            let path = substripe_path(FileId(id), substripe);
            assert_eq!(parse_name(&path.as_bytes()[3..]), Some((FileId(id), substripe)));
            assert_eq!(&path[..2], bucket_name(FileId(id)));
        }
    }

    #[test]
    fn other_names_are_not() {
        for name in ["", "x", "1.0", "00000000000000ab", "00000000000000AB.0", "00000000000000ab.01"] {
            assert_eq!(parse_name(name.as_bytes()), None, "{name}");
        }
    }
}
