//! Which substripe files there are, a batch at a time.
//!
//! The order is that of the buckets, and within a bucket that of the ids: a cookie is a place in this order, so it stays
//! right whatever is made or removed between two batches. A bucket is read anew for each batch that begins in it; memory
//! is bounded by the names of one bucket.

use super::{bucket_name, parse_name};
use crate::fragment::DIRECTORY;
use crate::host::host;
use forebay_wire::{Extent, FileId, Listed, Listing, Result, Timestamp};
use rustix::fs::{AtFlags, Dir, Mode, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Substripe files of one batch; the rest of the last file comes on top.
const BATCH: usize = 16 << 10;
/// Bits of an id that name its bucket.
const BUCKET_BITS: u32 = 8;

/// What `stat` says of how far a substripe file reaches.
pub(crate) fn extent_of(stat: &Stat) -> Extent {
    Extent {
        length: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        mtime: Timestamp { secs: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
    }
}

/// The place of a file in the order of listings.
fn place(file: FileId) -> u64 {
    file.0.rotate_right(BUCKET_BITS)
}

/// The first file at or after a place, if all ids were taken.
fn file_at(place: u64) -> FileId {
    FileId(place.rotate_left(BUCKET_BITS))
}

/// See [`forebay_wire::DataService::list`].
pub(super) fn list(data: &OwnedFd, cookie: u64) -> Result<Listing> {
    let mut listing = Listing::default();
    let first_bucket = file_at(cookie).0 & ((1 << BUCKET_BITS) - 1);
    for bucket in first_bucket..1 << BUCKET_BITS {
        if fill(data, &bucket_name(FileId(bucket)), cookie, &mut listing)? {
            return Ok(listing);
        }
    }
    Ok(listing)
}

/// Adds the substripe files of one bucket that are at or after a place. `true` when the batch is full.
fn fill(data: &OwnedFd, bucket: &str, cookie: u64, listing: &mut Listing) -> Result<bool> {
    let bucket = match rustix::fs::openat(data, bucket, DIRECTORY, Mode::empty()) {
        Ok(bucket) => bucket,
        Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(host("open a substripe directory")(errno)),
    };
    let mut found = Vec::new();
    for entry in Dir::read_from(&bucket).map_err(host("list a substripe directory"))? {
        let entry = entry.map_err(host("list a substripe directory"))?;
        // What was not made by the file system is not ours to tell of.
        let Some((file, substripe)) = parse_name(entry.file_name().to_bytes()) else { continue };
        if place(file) >= cookie {
            found.push((place(file), substripe, entry.file_name().to_owned()));
        }
    }
    found.sort_unstable();
    for (place, substripe, name) in found {
        let file = file_at(place);
        let is_another = listing.entries.last().is_none_or(|last| last.file != file);
        if listing.entries.len() >= BATCH && is_another {
            listing.next = Some(place);
            return Ok(true);
        }
        match rustix::fs::statat(&bucket, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => listing.entries.push(Listed { file, substripe, extent: extent_of(&stat) }),
            // Removed since.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(host("stat of substripe")(errno)),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::substripe_path;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn places_are_the_order_of_buckets(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!(file_at(place(FileId(a))), FileId(a));
            let key = |id: u64| (id & 0xff, id >> 8);
            prop_assert_eq!(key(a).cmp(&key(b)), place(FileId(a)).cmp(&place(FileId(b))));
        }
    }

    #[test]
    fn everything_is_listed_once_in_several_batches() {
        let directory = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::new();
        // One bucket that is more than a batch, and some others.
        let ids = (0..BATCH as u64 / 2).map(|n| n * 256 + 7).chain(0..20).chain([u64::MAX]);
        for (n, id) in ids.enumerate() {
            for substripe in 0..3 {
                let path = directory.path().join(substripe_path(FileId(id), substripe));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, vec![0; n % 3]).unwrap();
                expected.insert((id, substripe, n as u64 % 3));
            }
        }
        std::fs::write(directory.path().join("07/strange"), b"left alone").unwrap();
        let data = rustix::fs::open(directory.path(), DIRECTORY, Mode::empty()).unwrap();
        let (mut found, mut cookie, mut batches) = (Vec::new(), Some(0), 0);
        while let Some(at) = cookie {
            let listing = list(&data, at).unwrap();
            found.extend(listing.entries.iter().map(|l| (l.file.0, l.substripe, l.extent.length)));
            cookie = listing.next;
            batches += 1;
        }
        assert!(batches > 1);
        assert_eq!(found.len(), expected.len());
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}
