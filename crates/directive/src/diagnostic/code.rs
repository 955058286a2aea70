//! The kinds of findings. Their names are stable: programs and documents refer to them.

use serde::{Serialize, Serializer};
use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The script does what it says, but perhaps not what was meant.
    Warning,
    /// The script is refused.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// Declares the codes once, so that name, severity and title cannot drift apart.
macro_rules! codes {
    ($($variant:ident $severity:ident $name:literal $title:literal,)*) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// Its stable name.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name),* }
            }

            /// How bad it always is.
            pub fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity),* }
            }

            /// What it says, before the offending text.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title),* }
            }
        }
    };
}

codes! {
    ByteOrderMark Error "byte-order-mark" "script that begins with a byte order mark",
    MissingCommand Error "missing-command" "no command",
    UnknownCommand Error "unknown-command" "unknown command",
    WrongPrefix Error "wrong-prefix" "command with the wrong prefix",
    NotAllowedHere Error "not-allowed-here" "directive that is not allowed here",
    MixedContinuation Error "mixed-continuation" "continuation with the other prefix",
    BrokenContinuation Error "broken-continuation" "continuation without a next line",
    LineTooLong Error "line-too-long" "directive too long",
    TooMany Error "too-many" "too many",
    StrayWord Error "stray-word" "word without a key",
    BlankInKey Error "blank-in-key" "blank inside a key",
    BlankAroundEquals Error "blank-around-equals" "blank before or after `=`",
    UnknownKey Error "unknown-key" "unknown key",
    DuplicateKey Error "duplicate-key" "key given twice",
    MissingKey Error "missing-key" "missing key in",
    MissingValue Error "missing-value" "key without a value",
    UnknownValue Error "unknown-value" "unknown value",
    DuplicateValue Error "duplicate-value" "value given twice",
    BadNumber Error "bad-number" "not a number that fits",
    BadModifier Error "bad-modifier" "malformed access modifier",
    AccessNotForType Error "access-not-for-type" "access mode that the type does not have",
    BadName Error "bad-name" "malformed name",
    SizeMalformed Error "size-malformed" "not a size",
    SizeFraction Error "size-fraction" "size with a fraction",
    SizeUnit Error "size-unit" "unknown unit",
    SizeZero Error "size-zero" "size of zero",
    SizeOverflow Error "size-overflow" "size too large",
    SizeNodes Error "size-nodes" "count of nodes where a size is needed",
    UnknownSymbol Error "unknown-symbol" "unknown symbol",
    ShellVariable Error "shell-variable" "shell variable, which is not expanded here",
    UnknownToken Error "unknown-token" "unknown instance variable",
    RelativePath Error "relative-path" "relative path",
    BadPath Error "bad-path" "malformed path",
    PathEscape Error "path-escape" "path that leaves the instance",
    NotInInstance Error "not-in-instance" "path outside the instance",
    NotOnPfs Error "not-on-pfs" "path inside an instance",
    FileExpected Error "file-expected" "directory where a file is needed",
    ListDestination Error "list-destination" "destination of a list",
    StagePrivate Error "stage-private" "staging with private access",
    StageCache Error "stage-cache" "staging with a cache",
    StageBeforeAllocation Error "stage-before-allocation" "staging before the instance is named",
    UnallocatedTarget Error "unallocated-target" "staging with an instance that the script does not have",
    DuplicateDirective Error "duplicate-directive" "directive given twice",
    DestroyOfAttached Error "destroy-of-attached" "persistent instance destroyed before it is used",
    ListLine Error "list-line" "malformed line of a stage list",
    MoreWarnings Warning "more-warnings" "too many",
    AfterFirstCommand Warning "after-first-command" "directive below the first command",
    NearMiss Warning "near-miss" "comment that looks like a directive",
    IgnoredLine Warning "ignored-line" "line that is not a directive",
    SbatchOption Warning "sbatch-option" "burst buffer option of sbatch, which is not read here",
    CarriageReturn Warning "carriage-return" "line with a DOS line end",
    BlankAfterContinuation Warning "blank-after-continuation" "blank after the continuation mark",
    KeyWithoutEffect Warning "key-without-effect" "key without an effect",
    OldInstancePath Warning "old-instance-path" "instance path in the old form",
    CreateAndUse Warning "create-and-use" "persistent instance created and used by one script",
    NameNotForShell Warning "name-not-for-shell" "name that a shell cannot take as part of a variable",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
