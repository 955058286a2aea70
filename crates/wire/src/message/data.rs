//! Requests to the data service of one server.
//!
//! What is written goes beside the fields, in what the frame carries, in the order of the pieces; what was read comes back
//! the same way. All of them can be repeated. The right to a file is its [`Ticket`]; peers need none.

use super::record::messages;
use super::values::Piece;
use crate::data::FileId;
use crate::flags::{FallocateMode, SeekWhat};
use crate::ticket::Ticket;

messages! {
    /// What a client, or a server that asks another, wants of a data service.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum DataRequest {
        /// Reads. Reply: `Read`, with as many bytes as the pieces have: what was never written is zeros.
        Read = 0x0201 { file: FileId, substripes: u32, ticket: Ticket, pieces: Vec<Piece>, },
        /// Writes. Reply: `Size`, how much of the order of the pieces was written.
        Write = 0x0202 { file: FileId, substripes: u32, ticket: Ticket, pieces: Vec<Piece>, },
        /// Allocates, zeroes or punches. Reply: `Done`.
        Fallocate = 0x0203 {
            file: FileId,
            substripes: u32,
            ticket: Ticket,
            substripe: u32,
            start: u64,
            end: u64,
            mode: FallocateMode,
        },
        /// The first stored or not stored byte. Reply: `Offset`.
        Seek = 0x0204 {
            file: FileId,
            substripes: u32,
            ticket: Ticket,
            substripe: u32,
            offset: u64,
            what: SeekWhat,
        },
        /// What was written is on disk, whoever wrote it and through which descriptor. Reply: `Done`.
        SyncShare = 0x0205 { file: FileId, substripes: u32, ticket: Ticket, data_only: bool, },
        /// Space of the fragment. Reply: `FragmentSpace`.
        Space = 0x0206,
        /// Everything is on disk. Reply: `Done`.
        SyncAll = 0x0207,
        /// Descriptors of substripe files, over a Unix socket only: of those that exist, and of `make`, which is made if it
        /// is not there. A substripe file that was handed out for writing counts as not synced from then on. `Unsupported`
        /// where descriptors are not given. Reply: `Descriptors`, with as many descriptors (`SCM_RIGHTS`), in that order.
        Descriptors = 0x0208 {
            file: FileId,
            substripes: u32,
            ticket: Ticket,
            write: bool,
            make: Option<u32>,
        },
        /// Peers: cuts a substripe file to at most a length. Reply: `Done`.
        Cut = 0x0281 { file: FileId, substripes: u32, substripe: u32, length: u64, },
        /// Peers: removes a file's substripe files. Reply: `Done`.
        Remove = 0x0282 { file: FileId, substripes: u32, },
        /// Peers: allocated space of a substripe file. Reply: `Size`, in units of 512 bytes.
        Blocks = 0x0283 { file: FileId, substripe: u32, },
        /// Peers: how far the substripe files reach. Reply: `Extents`.
        Extents = 0x0284 { file: FileId, substripes: u32, },
        /// Peers: the substripe files there are, after a cookie (0: from the start). Reply: `Substripes`.
        List = 0x0285 { cookie: u64, },
        /// Peers: what is counted of the fragment. Reply: `Account`.
        Account = 0x0286,
    }
}

/// The first kind of the requests that are for peers only.
const PEERS_FROM: u16 = 0x0281;

impl DataRequest {
    /// Only a server of the same instance may ask this.
    pub fn is_for_peers(&self) -> bool {
        self.kind() >= PEERS_FROM
    }
}
