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
    /// Changes of files before which the power of their machine goes.
    pub crash: u64,
    /// So often that may happen.
    pub crashes_left: u64,
    /// Changes of files that need space at which the disk begins to be full, for a while.
    pub full: u64,
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
    /// The power of a machine went before a process of it changed a file.
    CrashedAtChange,
    /// The power of a machine went, whatever it did.
    Crashed,
    /// A disk was full.
    Full,
    /// A disk was full after a part of what was to be written.
    PartlyFull,
    /// A disk failed.
    Failed,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 9] = [
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::KilledAtChange,
        Fault::Killed,
        Fault::CrashedAtChange,
        Fault::Crashed,
        Fault::Full,
        Fault::PartlyFull,
        Fault::Failed,
    ];
}
