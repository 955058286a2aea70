//! A stable address in front of a server: it passes bytes on, breaks connections when told to, and finds the server again
//! when that has another port.

use forebay_wire::message::{HEADER_BYTES, Header};
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

#[derive(Default)]
struct State {
    upstream: Mutex<Option<SocketAddr>>,
    open: Mutex<HashMap<u64, TcpStream>>,
    opened: AtomicU64,
    /// Each connection breaks after about so many bytes; 0: never.
    break_after: AtomicU64,
    broken: AtomicU64,
    /// Each connection breaks after so many bytes of the server's; 0: never.
    answers: AtomicU64,
    /// Answers of connections that were opened before this one are held back.
    held_before: Mutex<u64>,
    let_go: Condvar,
    /// Ways of a server's with an answer that is held back.
    holding: Mutex<HashSet<u64>>,
    /// What was asked last, by the number of the client's way; that of the server's is the next one.
    asked: Mutex<HashMap<u64, u16>>,
    /// Bytes that came, both ways.
    carried: AtomicU64,
    is_over: AtomicBool,
}

pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub fn new() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let serving = state.clone();
        let thread = std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if serving.is_over.load(SeqCst) {
                    return;
                }
                pass_on(&serving, client);
            }
        });
        Proxy { address, state, thread: Some(thread) }
    }

    /// Where the server is; none: nobody answers.
    pub fn lead_to(&self, upstream: Option<SocketAddr>) {
        *self.state.upstream.lock().unwrap() = upstream;
    }

    /// Takes the server away: nobody answers, and all connections break. Returns where it was.
    pub fn away(&self) -> Option<SocketAddr> {
        let upstream = self.state.upstream.lock().unwrap().take();
        self.cut();
        upstream
    }

    /// Breaks all connections there are.
    pub fn cut(&self) {
        for (_, stream) in self.state.open.lock().unwrap().drain() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Breaks each connection after about so many bytes, in the middle of whatever it carries.
    pub fn break_after(&self, bytes: u64) {
        self.state.break_after.store(bytes, SeqCst);
    }

    /// Breaks each connection after so many bytes of the server's.
    pub fn break_after_answers(&self, bytes: u64) {
        self.state.answers.store(bytes, SeqCst);
    }

    /// Holds back what the server answers from now on over the connections there are, also when it is gone.
    pub fn hold_answers(&self) {
        *self.state.held_before.lock().unwrap() = self.state.opened.load(SeqCst);
    }

    /// The answer to a request of this kind is held back. There are others, that nobody waits for.
    pub fn holds_answer_to(&self, kind: u16) -> bool {
        let asked = self.state.asked.lock().unwrap();
        self.state.holding.lock().unwrap().iter().any(|number| asked.get(&(number - 1)) == Some(&kind))
    }

    /// Passes on what was held back.
    pub fn let_answers_go(&self) {
        *self.state.held_before.lock().unwrap() = 0;
        self.state.let_go.notify_all();
    }

    /// Bytes that were carried so far, both ways.
    pub fn carried(&self) -> u64 {
        self.state.carried.load(SeqCst)
    }

    /// Connections that were broken.
    pub fn broken(&self) -> u64 {
        self.state.broken.load(SeqCst)
    }
}

/// One way of a connection, with its number.
#[derive(Clone, Copy)]
enum Way {
    Requests(u64),
    Answers(u64),
}

fn pass_on(state: &Arc<State>, client: TcpStream) {
    let Some(upstream) = *state.upstream.lock().unwrap() else { return };
    let Ok(server) = TcpStream::connect(upstream) else { return };
    let both = [(&client, &server, false), (&server, &client, true)];
    for (from, to, is_servers) in both {
        let _ = from.set_nodelay(true);
        let number = state.opened.fetch_add(1, SeqCst);
        state.open.lock().unwrap().insert(number, from.try_clone().unwrap());
        let (from, to, state) = (from.try_clone().unwrap(), to.try_clone().unwrap(), state.clone());
        std::thread::spawn(move || {
            let left = limit(&state, &from, is_servers);
            let way = if is_servers { Way::Answers(number) } else { Way::Requests(number) };
            carry(&state, from, to, left, way);
            state.open.lock().unwrap().remove(&number);
        });
    }
}

/// How many bytes come through one way.
fn limit(state: &State, from: &TcpStream, is_servers: bool) -> u64 {
    let (limit, answers) = (state.break_after.load(SeqCst), state.answers.load(SeqCst));
    let port = u64::from(from.peer_addr().map_or(1, |address| address.port()));
    match (limit, answers) {
        (0, 0) => u64::MAX,
        (0, answers) => {
            if is_servers {
                answers
            } else {
                u64::MAX
            }
        }
        // Each connection has another limit, so that every place is hit once.
        _ => limit / 2 + port * 7919 % limit,
    }
}

/// Waits while answers of this connection are held back.
fn await_let_go(state: &State, number: u64) {
    let held = state.held_before.lock().unwrap();
    let is_held = |before: &mut u64| number < *before && !state.is_over.load(SeqCst);
    if number < *held {
        state.holding.lock().unwrap().insert(number);
    }
    drop(state.let_go.wait_while(held, is_held).unwrap());
    state.holding.lock().unwrap().remove(&number);
}

/// The kind of the last of these requests, which begin with a frame.
fn last_kind(mut bytes: &[u8]) -> Option<u16> {
    let mut last = None;
    while let Some(header) = bytes.first_chunk().and_then(|header| Header::decode(header).ok()) {
        last = Some(header.kind);
        let length = HEADER_BYTES + header.body as usize + header.bulk as usize;
        bytes = bytes.get(length..).unwrap_or_default();
    }
    last
}

/// Carries bytes one way; the connection ends in both when it ends.
fn carry(state: &State, mut from: TcpStream, mut to: TcpStream, mut left: u64, way: Way) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        state.carried.fetch_add(read as u64, SeqCst);
        let passed = (read as u64).min(left) as usize;
        left -= passed as u64;
        match way {
            Way::Answers(number) => await_let_go(state, number),
            Way::Requests(number) => {
                let kind = last_kind(&buffer[..read]);
                kind.and_then(|kind| state.asked.lock().unwrap().insert(number, kind));
            }
        }
        if to.write_all(&buffer[..passed]).is_err() {
            break;
        }
        if passed < read {
            state.broken.fetch_add(1, SeqCst);
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, SeqCst);
        self.let_answers_go();
        self.cut();
        // Wakes the one who accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
