//! Windows whose device is a pipe: what the kernel would take is read from there.

use super::*;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

const UNIQUE: u64 = 7;
const VIEW: u64 = view::VIEW_BYTES;

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Parts of files, as an answer by mapping; `None` if one is refused.
fn mapped(views: &Views, parts: &[(&File, u64, usize)]) -> Option<Vec<u8>> {
    let (mut out, into) = std::io::pipe().unwrap();
    let into = OwnedFd::from(into);
    let mut window = Window::mapped(views, into.as_fd(), UNIQUE);
    let bytes = parts.iter().map(|(_, _, length)| length).sum();
    assert!(window.begin(bytes));
    let mut take = |(file, offset, length): &(&File, u64, usize)| window.take(file.as_fd(), *offset, *length);
    if !parts.iter().all(&mut take) {
        assert!(!window.hand_over(), "of no use any more");
        return None;
    }
    assert!(window.hand_over());
    assert!(window.end().0);
    drop(into);
    let mut answer = Vec::new();
    out.read_to_end(&mut answer).unwrap();
    let data = answer.split_off(OUT_HEADER_BYTES);
    assert_eq!(answer, out_header(UNIQUE, 0, bytes));
    Some(data)
}

#[test]
fn parts_of_files_are_answered_in_order_as_they_are_now() {
    let (one, two, views) = (file(&[1; 10_000]), file(&[2; 10_000]), Views::default());
    let parts = [(&one, 5000, 4999), (&two, 1, 4096), (&one, 0, 3)];
    let expected = [vec![1; 4999], vec![2; 4096], vec![1; 3]].concat();
    assert_eq!(mapped(&views, &parts), Some(expected));
    one.write_all_at(&[9; 3], 0).unwrap();
    assert_eq!(mapped(&views, &[(&one, 0, 4)]), Some(vec![9, 9, 9, 1]));
}

#[test]
fn a_part_may_lie_in_two_views() {
    let (file, views) = (file(b""), Views::default());
    file.write_all_at(b"abcdef", VIEW - 3).unwrap();
    assert_eq!(mapped(&views, &[(&file, VIEW - 3, 6)]), Some(b"abcdef".to_vec()));
    assert_eq!(views.count(), 2);
}

#[test]
fn what_a_file_does_not_have_is_refused() {
    let (file, views) = (file(&[1; 5000]), Views::default());
    assert_eq!(mapped(&views, &[(&file, 0, 5001)]), None, "of the page at the end only what is there");
    assert_eq!(mapped(&views, &[(&file, u64::MAX, 2)]), None);
    assert_eq!(mapped(&views, &[(&file, 0, 5000)]).map(|data| data.len()), Some(5000));
    file.set_len(10).unwrap();
    assert_eq!(mapped(&views, &[(&file, 0, 5000)]), None, "it was cut since it was mapped");
    file.set_len(12).unwrap();
    assert_eq!(mapped(&views, &[(&file, 8, 4)]), Some(vec![1, 1, 0, 0]));
}

#[test]
fn as_many_views_are_kept_as_there_may_be() {
    let (file, views) = (file(b""), Views::default());
    let many = 2 * view::VIEWS_OF_A_FILE_MAX as u64;
    for n in 0..many {
        file.write_all_at(&n.to_ne_bytes(), n * VIEW).unwrap();
    }
    for n in (0..many).chain(0..many) {
        assert_eq!(mapped(&views, &[(&file, n * VIEW, 8)]), Some(n.to_ne_bytes().to_vec()));
        assert!(views.count() <= view::VIEWS_OF_A_FILE_MAX);
    }
}

#[test]
fn an_answer_of_too_many_parts_is_refused() {
    let (file, views) = (file(&[1; 4096]), Views::default());
    assert!(mapped(&views, &vec![(&file, 0, 1); view::PARTS_MAX]).is_some());
    assert_eq!(mapped(&views, &vec![(&file, 0, 1); view::PARTS_MAX + 1]), None);
}

#[test]
fn what_was_announced_and_did_not_come_is_not_handed_over() {
    let (file, views) = (file(&[1; 4096]), Views::default());
    let (_out, into) = std::io::pipe().unwrap();
    let mut window = Window::mapped(&views, into.as_fd(), UNIQUE);
    assert!(window.begin(10) && window.take(file.as_fd(), 0, 9));
    assert!(!window.hand_over());
    assert!(!window.take(file.as_fd(), 0, 2), "more than was announced");
}
