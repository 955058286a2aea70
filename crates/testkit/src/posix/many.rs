//! Large numbers: entries in a directory, open files, files at once.

use super::check::{granted, holds, same};
use super::files::*;
use super::{Case, Cost, case};
use rustix::fs::OFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(super) const CASES: &[Case] = &[
    case!(Anyone a_directory_of_100_000_entries).costing(Cost::Many),
    case!(Anyone ten_thousand_open_files).costing(Cost::Many),
    case!(Anyone many_small_files_come_back).costing(Cost::Many),
];

fn a_directory_of_100_000_entries() {
    const COUNT: usize = 100_000;
    granted(mkdir("dir", 0o755));
    // Links to a few files: as many names at a tenth of the cost.
    for number in 0..COUNT {
        let path = format!("dir/entry-{number:06}");
        if number % 10 == 0 {
            granted(touch(&path, 0o644));
        } else {
            granted(rustix::fs::link(format!("dir/entry-{:06}", number / 10 * 10), path));
        }
    }
    let directory = granted(open("dir", OFlags::RDONLY));
    let names = granted(super::reading_directories::raw_names_in(&directory));
    same(names.len(), COUNT);
    holds(names.windows(2).all(|pair| pair[0] != pair[1]), "every name once");
    same(granted(links_of("dir/entry-050007")), 10);
    for number in 0..COUNT {
        granted(rustix::fs::unlink(format!("dir/entry-{number:06}")));
    }
    same(granted(super::reading_directories::raw_names_in(&directory)).len(), 0);
    granted(rustix::fs::rmdir("dir"));
}

fn ten_thousand_open_files() {
    /// Descriptors the process needs for other things.
    const OTHERS: u64 = 50;
    let before = getrlimit(Resource::Nofile);
    let most = before.maximum.unwrap_or(u64::MAX);
    granted(setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum }));
    let count = most.saturating_sub(OTHERS).min(10_000);
    holds(count >= 900, "the limit of open files lets the case say something");
    let mut files = Vec::new();
    for number in 0..count {
        let file = granted(create(&format!("file{number}")));
        granted(rustix::io::write(&file, &number.to_le_bytes()));
        files.push(file);
    }
    for (number, file) in (0..count).zip(&files) {
        if number % 3 == 0 {
            granted(rustix::fs::unlink(format!("file{number}")));
        }
        granted(write_all_at(file, &number.to_le_bytes(), 70_000));
    }
    for (number, file) in (0..count).zip(&files) {
        same(granted(read_at(file, 8, 0)), number.to_le_bytes());
        same(granted(read_at(file, 8, 70_000)), number.to_le_bytes());
    }
    drop(files);
    granted(setrlimit(Resource::Nofile, before));
}

fn many_small_files_come_back() {
    const COUNT: u32 = 3000;
    for number in 0..COUNT {
        let directory = format!("d{}", number % 50);
        if number < 50 {
            granted(mkdir(&directory, 0o755));
        }
        let content = number.to_string().repeat(1 + number as usize % 97);
        granted(write_file(&format!("{directory}/{number}"), content.as_bytes()));
    }
    for number in 0..COUNT {
        let expected = number.to_string().repeat(1 + number as usize % 97);
        same(granted(read_file(&format!("d{}/{number}", number % 50))), expected.as_bytes());
    }
}
