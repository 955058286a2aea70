//! Bytes of one file: what is on the disk for certain, and what was changed since.
//!
//! A cut and the punching of a hole are changes of the log, which keeps its order. Written pages reach the disk in any order,
//! each with or without what was written to it last, and the length follows them or does not.

use forebay_testkit::Random;
use std::collections::BTreeMap;

/// What is written back at a time, in bytes.
const PAGE_BYTES: u64 = 4096;

/// Something was done to the bytes. `record`: the place in the log.
#[derive(Clone, Debug)]
pub enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Length { length: u64, record: u64 },
    Zero { start: u64, end: u64, record: u64 },
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Content {
    durable: Vec<u8>,
    changes: Vec<Change>,
}

/// How much of what was written since the last sync the disk has.
enum Written {
    Nothing,
    Everything,
    /// Of each page so many of the writes.
    Some(BTreeMap<u64, u64>),
}

impl Content {
    /// All of it is on the disk.
    pub fn of(durable: Vec<u8>) -> Content {
        Content { durable, changes: Vec::new() }
    }

    pub fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// As every reader sees it.
    pub fn current(&self) -> Vec<u8> {
        self.replayed(|_| true, &Written::Everything, true)
    }

    /// All of it is on the disk from now on.
    pub fn sync(&mut self) {
        *self = Content::of(self.current());
    }

    /// As it is after the power went. `is_logged`: the log got so far.
    pub fn after_crash(&self, is_logged: impl Fn(u64) -> bool, dice: &mut Random) -> Vec<u8> {
        let written = match dice.below(3) {
            0 => Written::Nothing,
            1 => Written::Everything,
            _ => Written::Some(self.some(dice)),
        };
        let has_lengths = !dice.one_in(4);
        self.replayed(is_logged, &written, has_lengths)
    }

    fn some(&self, dice: &mut Random) -> BTreeMap<u64, u64> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for change in &self.changes {
            if let Change::Write { offset, bytes } = change {
                pages(*offset, bytes).for_each(|(page, ..)| *counts.entry(page).or_default() += 1);
            }
        }
        counts.into_iter().map(|(page, count)| (page, dice.below(count + 1))).collect()
    }

    fn replayed(&self, is_logged: impl Fn(u64) -> bool, written: &Written, has_lengths: bool) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        for change in &self.changes {
            match change {
                Change::Length { length, record } if is_logged(*record) => bytes.resize(*length as usize, 0),
                Change::Zero { start, end, record } if is_logged(*record) => {
                    let end = (*end as usize).min(bytes.len());
                    if (*start as usize) < end {
                        bytes[*start as usize..end].fill(0);
                    }
                }
                // What was written later lies where the disk does not know that it belongs to the file.
                Change::Length { .. } | Change::Zero { .. } => return bytes,
                Change::Write { offset, bytes: new } => {
                    for (page, at, part) in pages(*offset, new) {
                        let count = seen.entry(page).or_default();
                        *count += 1;
                        let is_there = match written {
                            Written::Nothing => false,
                            Written::Everything => true,
                            Written::Some(kept) => *count <= kept[&page],
                        };
                        if is_there {
                            put(&mut bytes, at as usize, part, has_lengths);
                        }
                    }
                }
            }
        }
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, part: &[u8], has_lengths: bool) {
    let end = at + part.len();
    if has_lengths && bytes.len() < end {
        bytes.resize(end, 0);
    }
    let end = end.min(bytes.len());
    if at < end {
        bytes[at..end].copy_from_slice(&part[..end - at]);
    }
}

/// The pages of a range: number, offset and bytes of the part in it.
fn pages(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u64, &[u8])> {
    let end = offset + bytes.len() as u64;
    (offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let from = offset.max(page * PAGE_BYTES);
        let to = end.min((page + 1) * PAGE_BYTES);
        (page, from, &bytes[(from - offset) as usize..(to - offset) as usize])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Content {
        let mut content = Content::of(vec![1; 5000]);
        content.change(Change::Write { offset: 4000, bytes: vec![2; 6000] });
        content.change(Change::Length { length: 9000, record: 7 });
        content.change(Change::Write { offset: 0, bytes: vec![3; 10] });
        content
    }

    #[test]
    fn everybody_sees_all_changes() {
        let current = written().current();
        assert_eq!((current.len(), current[9], current[10], current[4000]), (9000, 3, 1, 2));
    }

    #[test]
    fn what_was_not_synced_may_be_lost_and_nothing_else() {
        let (content, mut dice) = (written(), Random::new(5));
        let (mut lengths, mut firsts) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let logged = dice.one_in(2);
            let left = content.after_crash(|record| logged && record == 7, &mut dice);
            assert!(left[10..4000].iter().all(|byte| *byte == 1), "it was not touched");
            assert!(left[4000..].iter().all(|byte| [0, 1, 2].contains(byte)));
            assert!(logged || left[0] == 1, "a write after a cut that did not happen");
            lengths.push(left.len());
            firsts.push(left[0]);
        }
        assert!(lengths.contains(&5000) && lengths.contains(&9000) && lengths.contains(&10_000));
        assert!(firsts.contains(&1) && firsts.contains(&3));
        let mut synced = content;
        synced.sync();
        assert_eq!(synced.after_crash(|_| false, &mut dice), written().current());
    }
}
