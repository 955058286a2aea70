//! Connections in memory: what was sent arrives later, in its order; what is cut is lost.
//!
//! Pure: who waits is the caller's business. A connection has two ends; each has what is on its way to it. The end of a
//! stream is on its way like anything else. Messages of different connections overtake each other, since each has its own
//! time.

use super::schedule::Process;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

/// Number of an end of a connection. The other one differs in the lowest bit.
pub(super) type End = usize;

struct Parcel {
    at: u64,
    bytes: VecDeque<u8>,
}

#[derive(Default)]
struct Incoming {
    parcels: VecDeque<Parcel>,
    /// Nothing overtakes.
    last_at: u64,
    /// When the end of the stream is seen.
    ends_at: Option<u64>,
    /// The end is an error, and what has not been read is lost.
    is_reset: bool,
    /// Whose it is.
    owner: Process,
    /// Descriptors of it.
    descriptors: u32,
}

/// What a read finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Bytes(Vec<u8>),
    End,
    Reset,
    /// Not before this time; `None`: nobody knows.
    Nothing(Option<u64>),
}

struct Listener {
    owner: Process,
    /// Ends of connections that were made, and when they can be taken.
    waiting: VecDeque<(u64, End)>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Network {
    ends: Vec<Incoming>,
    listeners: BTreeMap<SocketAddrV4, Listener>,
}

impl Network {
    /// `false`: somebody listens there.
    pub(super) fn listen(&mut self, at: SocketAddrV4, owner: Process) -> bool {
        let is_free = !self.listeners.contains_key(&at);
        if is_free {
            self.listeners.insert(at, Listener { owner, waiting: VecDeque::new() });
        }
        is_free
    }

    pub(super) fn stop_listening(&mut self, at: SocketAddrV4) -> Vec<End> {
        let Some(listener) = self.listeners.remove(&at) else { return Vec::new() };
        let ends: Vec<End> = listener.waiting.into_iter().map(|(_, end)| end).collect();
        ends.iter().for_each(|end| self.reset(*end));
        ends.into_iter().map(|end| end ^ 1).collect()
    }

    /// The client's end of a new connection; `None`: nobody listens.
    pub(super) fn connect(&mut self, to: SocketAddrV4, client: Process, arrives_at: u64) -> Option<End> {
        let listener = self.listeners.get_mut(&to)?;
        let end = self.ends.len();
        let incoming = |owner| Incoming { owner, ..Incoming::default() };
        self.ends.push(Incoming { descriptors: 1, ..incoming(client) });
        self.ends.push(incoming(listener.owner));
        listener.waiting.push_back((arrives_at, end + 1));
        Some(end)
    }

    /// A connection that has arrived.
    pub(super) fn accept(&mut self, at: SocketAddrV4, now: u64) -> Option<End> {
        let waiting = &mut self.listeners.get_mut(&at)?.waiting;
        let place = waiting.iter().position(|(arrives_at, _)| *arrives_at <= now)?;
        let (_, end) = waiting.remove(place)?;
        self.ends[end].descriptors = 1;
        Some(end)
    }

    /// When the next connection arrives there.
    pub(super) fn next_arrival(&self, at: SocketAddrV4) -> Option<u64> {
        self.listeners.get(&at)?.waiting.iter().map(|(arrives_at, _)| *arrives_at).min()
    }

    /// Sends; returns when it arrives, `None` if the connection has ended.
    pub(super) fn send(&mut self, from: End, bytes: &[u8], arrives_at: u64) -> Option<u64> {
        if self.ends[from].is_reset || self.ends[from ^ 1].ends_at.is_some() {
            return None;
        }
        let to = &mut self.ends[from ^ 1];
        to.last_at = to.last_at.max(arrives_at);
        to.parcels.push_back(Parcel { at: to.last_at, bytes: bytes.iter().copied().collect() });
        Some(to.last_at)
    }

    /// Reads what has arrived.
    pub(super) fn receive(&mut self, end: End, most: usize, now: u64) -> Found {
        let incoming = &mut self.ends[end];
        if let Some(parcel) = incoming.parcels.front_mut().filter(|parcel| parcel.at <= now) {
            let count = most.min(parcel.bytes.len());
            let bytes: Vec<u8> = parcel.bytes.drain(..count).collect();
            if parcel.bytes.is_empty() {
                incoming.parcels.pop_front();
            }
            return Found::Bytes(bytes);
        }
        match (incoming.parcels.front(), incoming.ends_at) {
            (None, Some(at)) if at <= now => {
                if incoming.is_reset {
                    Found::Reset
                } else {
                    Found::End
                }
            }
            (None, Some(at)) => Found::Nothing(Some(at)),
            (Some(parcel), _) => Found::Nothing(Some(parcel.at)),
            (None, None) => Found::Nothing(None),
        }
    }

    /// Nothing is there, not even the end.
    pub(super) fn is_silent(&self, end: End, now: u64) -> bool {
        let incoming = &self.ends[end];
        let has_come = incoming.parcels.front().is_some_and(|parcel| parcel.at <= now);
        !has_come && incoming.ends_at.is_none_or(|at| at > now)
    }

    /// One side ends both directions: it reads nothing more, the other side reads what is on its way and then the end.
    pub(super) fn shut_down(&mut self, end: End, seen_at: u64, now: u64) {
        let own = &mut self.ends[end];
        own.parcels.clear();
        own.ends_at = Some(own.ends_at.map_or(now, |at| at.min(now)));
        let other = &mut self.ends[end ^ 1];
        other.last_at = other.last_at.max(seen_at);
        other.ends_at.get_or_insert(other.last_at);
    }

    /// The connection is gone in the middle: all that is on its way is lost.
    pub(super) fn reset(&mut self, end: End) {
        for end in [end, end ^ 1] {
            let incoming = &mut self.ends[end];
            incoming.parcels.clear();
            incoming.is_reset = true;
            incoming.ends_at = Some(0);
        }
    }

    /// The connection is gone for its answers: what is on its way from this end arrives, and nothing comes back.
    pub(super) fn lose_answers(&mut self, end: End, seen_at: u64) {
        let own = &mut self.ends[end];
        own.parcels.clear();
        own.is_reset = true;
        own.ends_at = Some(own.ends_at.map_or(seen_at, |at| at.min(seen_at)));
        let other = &mut self.ends[end ^ 1];
        other.ends_at.get_or_insert(other.last_at);
    }

    /// Whose end it is.
    pub(super) fn owner(&self, end: End) -> Process {
        self.ends[end].owner
    }

    pub(super) fn add_descriptor(&mut self, end: End) {
        self.ends[end].descriptors += 1;
    }

    /// `true`: it was the last one.
    pub(super) fn drop_descriptor(&mut self, end: End) -> bool {
        let own = &mut self.ends[end];
        own.descriptors = own.descriptors.saturating_sub(1);
        own.descriptors == 0
    }

    /// Ends that somebody has a descriptor of.
    pub(super) fn open_ends(&self) -> usize {
        self.ends.iter().filter(|end| end.descriptors > 0).count()
    }

    /// All that a process had is gone. Returns the ends of others that notice.
    pub(super) fn process_is_gone(&mut self, process: Process, now: u64) -> Vec<End> {
        let listening = self.listeners.iter().filter(|(_, listener)| listener.owner == process);
        let addresses: Vec<SocketAddrV4> = listening.map(|(at, _)| *at).collect();
        let mut concerned: Vec<End> = addresses.into_iter().flat_map(|at| self.stop_listening(at)).collect();
        for end in 0..self.ends.len() {
            let is_open = self.ends[end].owner == process && self.ends[end].descriptors > 0;
            if is_open {
                self.ends[end].descriptors = 0;
                // What it had sent arrives; then the connection is seen to be over.
                self.shut_down(end, now, now);
                concerned.push(end ^ 1);
            }
        }
        concerned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 1), 7);

    fn connected() -> (Network, End, End) {
        let mut network = Network::default();
        assert!(network.connect(AT, Process(1), 5).is_none());
        assert!(network.listen(AT, Process(2)) && !network.listen(AT, Process(3)));
        let client = network.connect(AT, Process(1), 5).unwrap();
        assert_eq!(network.accept(AT, 4), None);
        assert_eq!(network.next_arrival(AT), Some(5));
        let server = network.accept(AT, 5).unwrap();
        (network, client, server)
    }

    #[test]
    fn what_is_sent_arrives_in_order_and_late() {
        let (mut network, client, server) = connected();
        assert_eq!(network.send(client, b"one", 20), Some(20));
        assert_eq!(network.send(client, b"two", 10), Some(20), "nothing overtakes");
        assert_eq!(network.receive(server, 9, 19), Found::Nothing(Some(20)));
        assert!(network.is_silent(server, 19) && !network.is_silent(server, 20));
        assert_eq!(network.receive(server, 2, 20), Found::Bytes(b"on".to_vec()));
        assert_eq!(network.receive(server, 9, 20), Found::Bytes(b"e".to_vec()));
        network.shut_down(client, 30, 21);
        assert_eq!(network.receive(server, 9, 21), Found::Bytes(b"two".to_vec()));
        assert_eq!(network.receive(server, 9, 29), Found::Nothing(Some(30)));
        assert_eq!(network.receive(server, 9, 30), Found::End);
        assert_eq!(network.receive(client, 9, 21), Found::End);
        assert_eq!(network.send(client, b"late", 40), None);
    }

    #[test]
    fn a_cut_loses_all_or_the_answers_only() {
        let (mut network, client, server) = connected();
        network.send(client, b"lost", 20);
        network.reset(client);
        assert_eq!(network.receive(server, 9, 50), Found::Reset);
        assert_eq!(network.receive(client, 9, 50), Found::Reset);
        let (mut network, client, server) = connected();
        network.send(client, b"heard", 20);
        network.lose_answers(client, 30);
        assert_eq!(network.receive(server, 9, 20), Found::Bytes(b"heard".to_vec()));
        assert_eq!(network.send(server, b"answer", 25), None);
        assert_eq!(network.receive(client, 9, 30), Found::Reset);
        assert_eq!(network.receive(server, 9, 30), Found::End);
    }

    #[test]
    fn a_process_that_is_gone_takes_its_connections_along() {
        let (mut network, client, _) = connected();
        let waiting = network.connect(AT, Process(4), 9).unwrap();
        assert_eq!(network.process_is_gone(Process(2), 50), [waiting, client]);
        assert_eq!(network.receive(client, 9, 50), Found::End);
        assert_eq!(network.receive(waiting, 9, 50), Found::Reset);
        assert!(network.connect(AT, Process(1), 60).is_none());
    }
}
