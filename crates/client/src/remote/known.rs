//! What is known of a file that this client has open and others leave alone: how long it is, that its home has nothing of it to sync,
//! and what it looks like since the last sync.
//!
//! *Word.* The server's answers say for how long the attributes of a file may be shown. While that lasts and no change is announced no
//! other client changes the file, nor has it open for writing: who wants to is made to wait for this client's answer. So whatever
//! became of the file since the word was given is what this client did. An answer that comes while a word holds makes it longer; one that
//! comes later gives another word, and what was known is forgotten. A server that ends takes its word back with the connection that it would
//! announce changes on.
//!
//! *Length.* An opening says it. From then on whoever writes through any opening of this client says before and after how far. While a
//! write is under way, and from then on when it was shorter than it should have been, the length is not known. A length that
//! is set makes it unknown too. It is only good to know that nothing is there to be read: a storage node that lost its power has less than that.
//!
//! *Synced.* The home has synced the file, it was asked within the word, and this client did nothing since that changes what the home keeps
//! ([`super::recent`]): a sync need not ask it again. What others wrote before the word is covered by the sync that was asked for; its
//! content is synced by its own servers, who are asked each time.
//!
//! *Looks.* Who writes and syncs a file and looks at it then is likely to do so again. So its attributes are asked for beside the next sync
//! of the content, and answer the next look if nothing was written or changed since.
//!
//! All openings of a file share one [`Known`]. Any thread; locks are held for memory operations only, that of all files before that of one.

use super::asked::Asked;
use super::recent::Recent;
use super::validity::{Moment, Validity};
use super::word::Word;
use forebay_wire::{Attr, Ino, Spread};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy)]
struct Length {
    /// What is there.
    reached: u64,
    /// As far as was going to be written.
    promised: u64,
}

#[derive(Clone, Copy)]
struct Synced {
    /// The moment before the home was asked, as [`Recent`] counts.
    asked: Asked,
    data_only: bool,
    spread: Spread,
}

#[derive(Clone, Copy)]
struct Seen {
    attr: Attr,
    look: Look,
}

#[derive(Default)]
struct State {
    word: Option<Word>,
    /// Words so far: what was found out within one does not count in the next.
    words: u64,
    /// Writes begun, and those that are under way or of which nobody knows what they did.
    writes: u64,
    under_way: u64,
    length: Option<Length>,
    synced: Option<Synced>,
    seen: Option<Seen>,
    /// It was looked at after a sync.
    is_looked_at: bool,
    was_synced: bool,
    /// An opening that wrote was closed: the server notes that some time later.
    is_settled_later: bool,
}

/// See the module.
pub(crate) struct Known {
    ino: Ino,
    state: Mutex<State>,
}

/// The moment before the home is asked to sync.
#[derive(Clone, Copy)]
pub(crate) struct Syncing {
    asked: Asked,
    word: u64,
}

/// The moment before attributes are asked for.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    asked: Asked,
    writes: u64,
}

impl State {
    /// A word is given, where none was before.
    fn begin(&mut self, word: Word) {
        self.word = Some(word);
        self.words += 1;
        (self.length, self.synced, self.seen) = (None, None, None);
    }

    fn holds(&self, ino: Ino, validity: &Validity) -> bool {
        self.word.is_some_and(|word| word.holds(ino, validity))
    }

    fn told(&mut self, ino: Ino, valid_ms: u32, asked: Moment, validity: &Validity) {
        let Some(told) = Word::given(valid_ms, asked) else { return };
        let holds = self.holds(ino, validity);
        match &mut self.word {
            Some(word) if holds => word.extend(told),
            _ => self.begin(told),
        }
    }
}

impl Known {
    /// Of a file that was opened and had this length, if that is certain.
    fn new(ino: Ino, word: Option<Word>, length: Option<u64>) -> Known {
        let length = length.map(|length| Length { reached: length, promised: length });
        Known { ino, state: Mutex::new(State { word, length, ..State::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer about the file came that may be shown for so long from the asking.
    pub(crate) fn told(&self, valid_ms: u32, asked: Moment, validity: &Validity) {
        self.lock().told(self.ino, valid_ms, asked, validity);
    }

    /// Content up to `end` at most is going to be changed.
    pub(crate) fn will_change(&self, end: u64) {
        let mut state = self.lock();
        (state.writes, state.under_way) = (state.writes + 1, state.under_way + 1);
        if let Some(length) = &mut state.length {
            length.promised = length.promised.max(end);
        }
    }

    /// It was, up to here.
    pub(crate) fn was_changed(&self, end: u64) {
        let mut state = self.lock();
        state.under_way = state.under_way.saturating_sub(1);
        if let Some(length) = &mut state.length {
            length.reached = length.reached.max(end);
        }
    }

    /// Nothing can be read from here on.
    pub(crate) fn end(&self, validity: &Validity) -> Option<u64> {
        let state = self.lock();
        let Length { reached, promised } = state.length?;
        (state.under_way == 0 && promised <= reached && state.holds(self.ino, validity)).then_some(reached)
    }

    /// The home is going to be asked to sync. `None`: what it answers is not to be remembered.
    pub(crate) fn sync_begins(&self, validity: &Validity, recent: &Recent) -> Option<Syncing> {
        let asked = recent.now(validity);
        let mut state = self.lock();
        state.was_synced = true;
        let may_know = state.holds(self.ino, validity) && !state.is_settled_later;
        may_know.then_some(Syncing { asked, word: state.words })
    }

    /// It has done so.
    pub(crate) fn synced(&self, syncing: Syncing, data_only: bool, spread: Spread) {
        let mut state = self.lock();
        if state.words == syncing.word && !state.is_settled_later {
            state.synced = Some(Synced { asked: syncing.asked, data_only, spread });
        }
    }

    /// The home has nothing of the file to sync; where its content is.
    pub(crate) fn is_synced(&self, data_only: bool, validity: &Validity, recent: &Recent) -> Option<Spread> {
        let state = self.lock();
        let synced = state.synced.filter(|synced| data_only || !synced.data_only)?;
        let is_so = state.holds(self.ino, validity) && !recent.was_changed(self.ino, synced.asked);
        is_so.then_some(synced.spread)
    }

    /// An opening that wrote was closed.
    pub(crate) fn is_settled_later(&self) {
        let mut state = self.lock();
        (state.is_settled_later, state.synced) = (true, None);
    }

    /// It is time to ask what the file looks like, since somebody is likely to look at it next.
    pub(crate) fn is_to_be_looked_at(&self, validity: &Validity, recent: &Recent) -> Option<Look> {
        let mut state = self.lock();
        let is_likely = std::mem::take(&mut state.is_looked_at);
        let look = Look { asked: recent.now(validity), writes: state.writes };
        (is_likely && state.under_way == 0).then_some(look)
    }

    /// It looked so.
    pub(crate) fn looks(&self, look: Look, attr: Attr, validity: &Validity) {
        let mut state = self.lock();
        state.told(self.ino, attr.valid_ms, look.asked.others, validity);
        state.seen = Some(Seen { attr, look });
    }

    /// Somebody looks at it: what may be shown.
    fn shown(&self, validity: &Validity, recent: &Recent) -> Option<Attr> {
        let mut state = self.lock();
        state.is_looked_at = state.was_synced;
        let Seen { attr, look } = state.seen?;
        let is_so = state.writes == look.writes && !recent.was_changed(self.ino, look.asked);
        let attr = validity.shown(attr, None, look.asked.others);
        (is_so && attr.valid_ms > 0).then_some(attr)
    }
}

struct Entry {
    known: Arc<Known>,
    openings: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct KnownFiles {
    files: Mutex<HashMap<Ino, Entry>>,
    /// Lengths that this client sets, and openings that it closes: an opening asked for before may say what was.
    changes: Validity,
}

/// A length is being set by this client, until this is dropped.
pub(crate) struct Cutting<'a> {
    files: &'a KnownFiles,
    ino: Ino,
}

impl Drop for Cutting<'_> {
    fn drop(&mut self) {
        self.files.length_changes(self.ino);
    }
}

impl KnownFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ino, Entry>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, ino: Ino) -> Option<Arc<Known>> {
        self.lock().get(&ino).map(|entry| Arc::clone(&entry.known))
    }

    /// Before a file is opened.
    pub(crate) fn now(&self, validity: &Validity) -> Asked {
        Asked::now(validity, &self.changes)
    }

    /// It was opened. To be closed with [`KnownFiles::closed`].
    pub(crate) fn opened(&self, attr: &Attr, asked: Asked, validity: &Validity) -> Arc<Known> {
        let mut files = self.lock();
        let entry = files.entry(attr.ino).or_insert_with(|| {
            // Whoever opens it later finds this one: nothing of what he does is missed.
            let is_certain = !asked.was_changed_here(attr.ino, &self.changes);
            let word = Word::given(attr.valid_ms, asked.others);
            let known = Known::new(attr.ino, word, is_certain.then_some(attr.size));
            Entry { known: Arc::new(known), openings: 0 }
        });
        entry.openings += 1;
        entry.known.told(attr.valid_ms, asked.others, validity);
        Arc::clone(&entry.known)
    }

    /// An opening was closed.
    pub(crate) fn closed(&self, ino: Ino) {
        self.changes.announced(ino);
        let mut files = self.lock();
        let Some(entry) = files.get_mut(&ino) else { return };
        entry.openings -= 1;
        if entry.openings == 0 {
            files.remove(&ino);
        }
    }

    /// The length of a file is going to be set. To be held until the server has answered.
    pub(crate) fn cutting(&self, ino: Ino) -> Cutting<'_> {
        self.length_changes(ino);
        Cutting { files: self, ino }
    }

    fn length_changes(&self, ino: Ino) {
        self.changes.announced(ino);
        if let Some(known) = self.get(ino) {
            known.lock().length = None;
        }
    }

    /// An answer about a file came that may be shown for so long from the asking.
    pub(crate) fn told(&self, attr: &Attr, asked: Moment, validity: &Validity) {
        if let Some(known) = self.get(attr.ino) {
            known.told(attr.valid_ms, asked, validity);
        }
    }

    /// Somebody looks at a file: attributes that may be shown without asking.
    pub(crate) fn shown(&self, ino: Ino, validity: &Validity, recent: &Recent) -> Option<Attr> {
        self.get(ino)?.shown(validity, recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::samples;
    use std::time::Duration;

    const HERE: Ino = Ino(7);

    #[derive(Default)]
    struct Client {
        files: KnownFiles,
        validity: Validity,
        recent: Recent,
    }

    impl Client {
        /// Opens the file, which has this length and may be shown for so long.
        fn open(&self, size: u64, valid_ms: u32) -> Arc<Known> {
            let asked = self.files.now(&self.validity);
            self.opened(size, valid_ms, asked)
        }

        fn opened(&self, size: u64, valid_ms: u32, asked: Asked) -> Arc<Known> {
            self.files.opened(&attr(size, valid_ms), asked, &self.validity)
        }

        fn sync(&self, known: &Known, data_only: bool) {
            if let Some(begun) = known.sync_begins(&self.validity, &self.recent) {
                known.synced(begun, data_only, Spread::First);
            }
        }

        fn is_synced(&self, known: &Known, data_only: bool) -> bool {
            known.is_synced(data_only, &self.validity, &self.recent).is_some()
        }

        fn told(&self, valid_ms: u32) {
            self.files.told(&attr(0, valid_ms), self.validity.now(), &self.validity);
        }

        /// Writes, syncs and looks, and says what was known then.
        fn look(&self, known: &Known) -> Option<u64> {
            if let Some(look) = known.is_to_be_looked_at(&self.validity, &self.recent) {
                known.looks(look, attr(1, LONG_MS), &self.validity);
            }
            self.shown()
        }

        fn shown(&self) -> Option<u64> {
            self.files.shown(HERE, &self.validity, &self.recent).map(|attr| attr.size)
        }
    }

    const LONG_MS: u32 = 100_000;

    fn attr(size: u64, valid_ms: u32) -> Attr {
        Attr { size, valid_ms, ..samples::attr(HERE.0) }
    }

    #[test]
    fn the_end_is_where_this_client_has_written_to() {
        let client = Client::default();
        let (first, second) = (client.open(10, LONG_MS), client.open(0, LONG_MS));
        assert_eq!(second.end(&client.validity), Some(10), "another opening of the same file");
        second.will_change(30);
        assert_eq!(first.end(&client.validity), None, "it is being written");
        second.was_changed(30);
        assert_eq!(first.end(&client.validity), Some(30));
        second.will_change(20);
        second.was_changed(20);
        assert_eq!(first.end(&client.validity), Some(30));
        first.will_change(50);
        first.was_changed(40);
        assert_eq!(first.end(&client.validity), None, "what became of the rest is not known");
    }

    #[test]
    fn a_write_that_failed_leaves_the_end_unknown() {
        let client = Client::default();
        let known = client.open(10, LONG_MS);
        known.will_change(5);
        known.will_change(5);
        known.was_changed(5);
        assert_eq!(known.end(&client.validity), None);
    }

    #[test]
    fn nothing_is_known_without_a_word() {
        let client = Client::default();
        let known = client.open(10, 0);
        client.sync(&known, false);
        assert!(known.end(&client.validity).is_none() && !client.is_synced(&known, false));
        client.told(LONG_MS);
        assert_eq!(known.end(&client.validity), None, "others may have written before");
        client.sync(&known, false);
        assert!(client.is_synced(&known, false));
        client.validity.announced(HERE);
        assert!(!client.is_synced(&known, false));
        client.told(LONG_MS);
        assert!(!client.is_synced(&known, false), "another word");
    }

    #[test]
    fn a_word_ends_with_its_time_unless_another_came_before() {
        let client = Client::default();
        let known = client.open(10, 2000);
        client.sync(&known, false);
        client.told(1);
        assert!(client.is_synced(&known, false), "a shorter one takes nothing away");
        std::thread::sleep(Duration::from_millis(10));
        client.told(LONG_MS);
        std::thread::sleep(Duration::from_millis(2000));
        assert_eq!((known.end(&client.validity), client.is_synced(&known, false)), (Some(10), true));
        let short = Client::default();
        let known = short.open(10, 1);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(known.end(&short.validity), None);
    }

    #[test]
    fn a_length_that_is_set_is_not_known() {
        let client = Client::default();
        let known = client.open(10, LONG_MS);
        let asked = client.files.now(&client.validity);
        drop(client.files.cutting(HERE));
        assert_eq!(known.end(&client.validity), None);
        client.files.closed(HERE);
        assert_eq!(client.opened(10, LONG_MS, asked).end(&client.validity), None, "asked for before");
        client.files.closed(HERE);
        let cutting = client.files.cutting(HERE);
        let asked = client.files.now(&client.validity);
        drop(cutting);
        assert_eq!(client.opened(10, LONG_MS, asked).end(&client.validity), None, "asked for meanwhile");
        client.files.closed(HERE);
        assert_eq!(client.open(10, LONG_MS).end(&client.validity), Some(10));
    }

    #[test]
    fn what_another_opening_wrote_that_is_closed_again_is_not_missed() {
        let client = Client::default();
        let asked = client.files.now(&client.validity);
        let other = client.open(0, LONG_MS);
        other.will_change(10);
        other.was_changed(10);
        client.files.closed(HERE);
        let known = client.opened(0, LONG_MS, asked);
        assert_eq!(known.end(&client.validity), None);
    }

    #[test]
    fn what_this_client_changes_is_to_be_synced() {
        let client = Client::default();
        let known = client.open(0, LONG_MS);
        assert!(!client.is_synced(&known, true), "never");
        client.sync(&known, true);
        assert!(client.is_synced(&known, true) && !client.is_synced(&known, false), "the content only");
        client.sync(&known, false);
        assert!(client.is_synced(&known, true) && client.is_synced(&known, false));
        let changing = client.recent.changing([HERE]);
        assert!(!client.is_synced(&known, true));
        client.sync(&known, false);
        drop(changing);
        assert!(!client.is_synced(&known, true), "it was under way");
        client.sync(&known, false);
        known.is_settled_later();
        assert!(!client.is_synced(&known, true), "an opening that wrote was closed");
        client.sync(&known, false);
        assert!(!client.is_synced(&known, true), "the server may hear of it later");
    }

    #[test]
    fn a_word_that_ended_while_the_home_was_asked_does_not_count() {
        let client = Client::default();
        let known = client.open(0, LONG_MS);
        let begun = known.sync_begins(&client.validity, &client.recent).unwrap();
        client.validity.announced(HERE);
        client.told(LONG_MS);
        known.synced(begun, false, Spread::First);
        assert!(!client.is_synced(&known, false));
    }

    #[test]
    fn who_looked_after_a_sync_is_shown_the_next_time_what_it_was_like_then() {
        let client = Client::default();
        let known = client.open(0, LONG_MS);
        assert_eq!(client.look(&known), None);
        client.sync(&known, true);
        assert_eq!(client.look(&known), None, "nobody has looked after a sync");
        assert_eq!(client.look(&known), Some(1));
        assert_eq!(client.look(&known), Some(1));
        known.will_change(1);
        assert_eq!(client.shown(), None);
        assert_eq!(client.look(&known), None, "it is being written");
        known.was_changed(1);
        assert_eq!(client.shown(), None);
        assert_eq!(client.look(&known), Some(1));
        drop(client.recent.changing([HERE]));
        assert_eq!(client.shown(), None, "changed here");
        assert_eq!(client.look(&known), Some(1));
        client.validity.announced(HERE);
        assert_eq!(client.shown(), None, "changed by others");
    }
}
