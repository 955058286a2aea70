//! What may go wrong, and how often.

/// One in so many; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Messages at which their connection is cut: before it arrives, or after, so that the answer has no way.
    pub cut: u64,
    /// Changes of files before which their process is killed.
    pub kill: u64,
    /// Kills there may be.
    pub kills_left: u64,
    /// Messages that take much longer than others.
    pub slow: u64,
}

/// Something that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A connection was cut before a message.
    CutBefore,
    /// A connection was cut after a message.
    CutAfter,
    /// A process was killed before it changed a file.
    KilledAtChange,
    /// A process was killed, wherever it was.
    Killed,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 4] = [Fault::CutBefore, Fault::CutAfter, Fault::KilledAtChange, Fault::Killed];
}
