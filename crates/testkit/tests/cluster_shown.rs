//! Large reads are answered with the pages of the storage node's own files where these are on the reader's machine. What
//! other nodes write at the same time is seen whole or not at all nevertheless, and what they wrote is seen at once.

mod deployed;

use deployed::{Deployment, Shape};
use forebay_testkit::cluster::Storage;
use forebay_testkit::xfs_image::SMALLEST_BYTES;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// More than what is copied, less than a stripe, and what fits into a pipe of an ordinary user.
const BLOCK: usize = 256 << 10;
/// How long a reader and the writers of other nodes work at the same time.
const SPAN: Duration = Duration::from_millis(1500);

/// On XFS, whose own reads are whole.
fn shape() -> Shape {
    let storage = Storage::Xfs { bytes: SMALLEST_BYTES };
    Shape { storage, stripe_size: 1 << 20, short_circuit: true, ..Shape::default() }
}

/// Set when this is dropped, also by a failed check: the other threads end then.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn is_whole(block: &[u8]) -> bool {
    block.iter().all(|byte| *byte == block[0])
}

#[test]
fn a_reader_on_the_storage_node_sees_no_half_of_another_nodes_write() {
    let deployment = Deployment::start(shape());
    let (here, there) = (deployment.file(0, "shared"), deployment.file(1, "shared"));
    std::fs::write(&there, vec![0; 4 * BLOCK]).unwrap();
    let reader = File::open(here).unwrap();
    let (is_over, mut seen) = (AtomicBool::new(false), std::collections::BTreeSet::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut content = 0;
            while !is_over.load(SeqCst) {
                // Opened anew each time: the reader has the file for itself in between.
                let writer = OpenOptions::new().write(true).open(&there).unwrap();
                for _ in 0..20 {
                    content = (content + 1) % 250;
                    writer.write_all_at(&vec![content; BLOCK], BLOCK as u64).unwrap();
                }
            }
        });
        let (end, mut block, _over) = (Instant::now() + SPAN, vec![0; BLOCK], SetAtEnd(&is_over));
        while Instant::now() < end {
            reader.read_exact_at(&mut block, BLOCK as u64).unwrap();
            assert!(is_whole(&block), "half of a write");
            seen.insert(block[0]);
        }
    });
    assert!(seen.len() > 1, "{seen:?}");
    drop(reader);
    deployment.finish();
}

#[test]
fn what_another_node_wrote_is_read_at_once() {
    let deployment = Deployment::start(shape());
    let path = |client| deployment.file(client, "shared");
    std::fs::write(path(0), vec![0; BLOCK]).unwrap();
    let reader = File::open(path(0)).unwrap();
    let mut block = vec![0; BLOCK];
    for content in 1..60 {
        // The reader has the file for itself.
        let _ = reader.read_at(&mut block, 0).unwrap();
        let writer = OpenOptions::new().write(true).open(path(1)).unwrap();
        writer.write_all_at(&vec![content; BLOCK], 0).unwrap();
        reader.read_exact_at(&mut block, 0).unwrap();
        assert_eq!((block[0], is_whole(&block)), (content, true));
        drop(writer);
        if content % 3 == 0 {
            OpenOptions::new().write(true).open(path(2)).unwrap().set_len(u64::from(content)).unwrap();
            assert_eq!(reader.read_at(&mut block, 0).unwrap(), content as usize);
        }
    }
    drop(reader);
    deployment.finish();
}
