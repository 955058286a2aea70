//! Modes of operations, as types: raw bits only where the kernel's own numbers are the interface.

/// Open flags, the `O_*` bits of Linux as the kernel passes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// Read only.
    pub const READ_ONLY: OpenFlags = OpenFlags(0);
    /// Write only.
    pub const WRITE_ONLY: OpenFlags = OpenFlags(1);
    /// Read and write.
    pub const READ_WRITE: OpenFlags = OpenFlags(2);
    /// `O_EXCL`: with create, the name must not exist.
    pub const EXCLUSIVE: OpenFlags = OpenFlags(0o200);
    /// `O_TRUNC`: cut to no length when opened.
    pub const TRUNCATE: OpenFlags = OpenFlags(0o1000);
    /// `O_APPEND`. Who calls decides the offset of each write.
    pub const APPEND: OpenFlags = OpenFlags(0o2000);

    /// Both sets of flags.
    pub const fn with(self, other: OpenFlags) -> OpenFlags {
        OpenFlags(self.0 | other.0)
    }

    /// All bits of `other` are set.
    pub const fn contains(self, other: OpenFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// May be read.
    pub const fn readable(self) -> bool {
        matches!(self.0 & 3, 0 | 2)
    }

    /// May be written.
    pub const fn writable(self) -> bool {
        matches!(self.0 & 3, 1 | 2)
    }
}

/// Mode of `fallocate`, the `FALLOC_FL_*` bits of Linux; 0 allocates and grows the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FallocateMode(pub u32);

impl FallocateMode {
    /// Allocate, and grow the file to the end of the range.
    pub const ALLOCATE: FallocateMode = FallocateMode(0);
    /// The length stays.
    pub const KEEP_SIZE: FallocateMode = FallocateMode(1);
    /// Give the range back; with `KEEP_SIZE`.
    pub const PUNCH_HOLE: FallocateMode = FallocateMode(2);
    /// Remove the range and move the rest down.
    pub const COLLAPSE_RANGE: FallocateMode = FallocateMode(8);
    /// Make the range read as zeros.
    pub const ZERO_RANGE: FallocateMode = FallocateMode(16);
    /// Insert a hole and move the rest up.
    pub const INSERT_RANGE: FallocateMode = FallocateMode(32);

    /// Both sets of flags.
    pub const fn with(self, other: FallocateMode) -> FallocateMode {
        FallocateMode(self.0 | other.0)
    }

    /// All bits of `other` are set.
    pub const fn contains(self, other: FallocateMode) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a rename does with an existing target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// Refuse.
    NoReplace,
    /// Swap both names.
    Exchange,
}

/// What to look for from an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeekWhat {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not stored; the end of the file counts as one.
    Hole,
}

/// What setting an extended attribute expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XattrMode {
    /// Create or replace.
    Any,
    /// It must be new (`XATTR_CREATE`).
    Create,
    /// It must exist (`XATTR_REPLACE`).
    Replace,
}
