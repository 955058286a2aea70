use super::*;
use crate::attr::FileType;
use proptest::prelude::*;
use std::ffi::OsStr;
use std::sync::Mutex;

/// Number of the request, and the answer or the refusal.
type Message = (u64, Result<Vec<u8>, Errno>);

/// Keeps what is sent, as the kernel would see it; refuses the first messages when told so.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) messages: Mutex<Vec<Message>>,
    finds_malformed: bool,
}

impl Transport for Heard {
    fn answer(&self, unique: u64, fixed: &[u8], data: &[u8]) -> rustix::io::Result<()> {
        if self.finds_malformed {
            return Err(Errno::INVAL);
        }
        self.messages.lock().unwrap().push((unique, Ok([fixed, data].concat())));
        Ok(())
    }

    fn refuse(&self, unique: u64, errno: Errno) -> rustix::io::Result<()> {
        self.messages.lock().unwrap().push((unique, Err(errno)));
        Ok(())
    }
}

impl Heard {
    fn owed(self: &Arc<Heard>) -> Owed {
        Owed::new(5, Arc::clone(self) as Arc<dyn Transport>)
    }

    fn taken(&self) -> Vec<Message> {
        std::mem::take(&mut self.messages.lock().unwrap())
    }
}

#[test]
fn every_request_is_answered_exactly_once() {
    let heard = Arc::new(Heard::default());
    DoneReply::new(heard.owed()).done();
    assert_eq!(heard.taken(), [(5, Ok(vec![]))]);
    DoneReply::new(heard.owed()).refuse(Errno::NOSPC);
    assert_eq!(heard.taken(), [(5, Err(Errno::NOSPC))]);
    drop(DoneReply::new(heard.owed()));
    assert_eq!(heard.taken(), [(5, Err(Errno::IO))]);
    let panicked = std::panic::catch_unwind(|| {
        let _reply = WrittenReply::new(Arc::clone(&heard).owed());
        std::panic::resume_unwind(Box::new("a bug"));
    });
    assert!(panicked.is_err());
    assert_eq!(heard.taken(), [(5, Err(Errno::IO))]);
}

#[test]
fn an_answer_that_the_kernel_does_not_take_becomes_an_error() {
    let heard = Arc::new(Heard { finds_malformed: true, ..Heard::default() });
    WrittenReply::new(heard.owed()).written(7);
    assert_eq!(heard.taken(), [(5, Err(Errno::IO))]);
}

#[test]
fn content_is_sent_from_the_buffer_as_far_as_it_was_filled() {
    let heard = Arc::new(Heard::default());
    let mut buffer = [b'.'; 8];
    DataReply::new(heard.owed(), &mut buffer).fill(|place| {
        place[..3].copy_from_slice(b"abc");
        Ok(3)
    });
    assert_eq!(heard.taken(), [(5, Ok(b"abc".to_vec()))]);
    DataReply::new(heard.owed(), &mut buffer).fill(|_| Err(Errno::IO));
    assert_eq!(heard.taken(), [(5, Err(Errno::IO))]);
    DataReply::new(heard.owed(), &mut buffer).fill(|_| Ok(999));
    assert_eq!(heard.taken()[0].1.as_ref().unwrap().len(), 8, "never more than was asked for");
}

/// Reads a listing as the kernel does.
fn listed(mut bytes: &[u8], prefix: usize) -> Vec<(u64, u64, u32, Vec<u8>)> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let entry = &bytes[prefix..];
        let word = |at: usize| u64::from_ne_bytes(entry[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_ne_bytes(entry[at..at + 4].try_into().unwrap());
        let length = half(16) as usize;
        entries.push((word(0), word(8), half(20), entry[24..24 + length].to_vec()));
        bytes = &bytes[(prefix + 24 + length).next_multiple_of(8)..];
    }
    entries
}

proptest! {
    #[test]
    fn listings_are_read_as_they_were_written(
        names in prop::collection::vec(prop::collection::vec(1u8.., 1..40), 0..20),
        size in 0usize..1000,
        plus in any::<bool>(),
    ) {
        let heard = Arc::new(Heard::default());
        let mut buffer = vec![0xff; size];
        let mut expected = Vec::new();
        let mut add = |node: u64, name: &[u8], put: &mut dyn FnMut(&OsStr) -> bool| {
            let took = put(std::os::unix::ffi::OsStrExt::from_bytes(name));
            if took {
                expected.push((node, node + 1, 8, name.to_vec()));
            }
            took
        };
        let prefix = if plus { ENTRY } else { 0 };
        if plus {
            let mut reply = DirectoryPlusReply::new(heard.owed(), &mut buffer);
            for (node, name) in (1u64..).zip(&names) {
                let attr = Attr { node, ..Attr::default() };
                let entry = Entry { attr, ..Entry::default() };
                if !add(node, name, &mut |name| reply.add(&entry, node + 1, FileType::Regular, name)) { break }
            }
            reply.done();
        } else {
            let mut reply = DirectoryReply::new(heard.owed(), &mut buffer);
            for (node, name) in (1u64..).zip(&names) {
                if !add(node, name, &mut |name| reply.add(node, node + 1, FileType::Regular, name)) { break }
            }
            reply.done();
        }
        let sent = heard.taken().remove(0).1.unwrap();
        prop_assert!(sent.len() <= size);
        prop_assert_eq!(listed(&sent, prefix), expected.clone());
        if let Some(left_out) = names.get(expected.len()) {
            prop_assert!(sent.len() + (prefix + 24 + left_out.len()).next_multiple_of(8) > size);
        }
    }
}

const ENTRY: usize = 128;
