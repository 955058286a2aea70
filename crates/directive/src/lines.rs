//! Physical lines put together to directive lines.
//!
//! A directive begins with `#DW` or `#BB` in the first column and a blank. A `\` at the end continues it on the next
//! line, which repeats the prefix. A word never spans two lines. Every other line is a comment or a command; comments
//! that look like a directive are told, all others stay silent.

use crate::diagnostic::{Code, Place, Report};
use crate::near_miss;
use crate::words::{Word, is_blank, words};

/// Most bytes of a directive with its continuation lines.
pub const LINE_BYTES_MAX: usize = 65_536;
/// Most directives of a script.
pub const DIRECTIVES_MAX: usize = 10_000;

/// Who handles a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// `#DW`: the burst buffer.
    Dw,
    /// `#BB`: the workload manager.
    Bb,
}

impl Prefix {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            Prefix::Dw => "#DW",
            Prefix::Bb => "#BB",
        }
    }
}

/// A directive with its continuation lines.
#[derive(Debug)]
pub(crate) struct DirectiveLine<'a> {
    /// Its prefix.
    pub prefix: Prefix,
    /// The prefix as a word, for its place.
    pub prefix_word: Word<'a>,
    /// All words after the prefix.
    pub words: Vec<Word<'a>>,
    /// An error in the line structure has been told; the words are not all there.
    pub broken: bool,
    /// A command stands above it.
    pub after_command: Option<usize>,
}

/// What the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A job script: lines that are not comments are commands.
    Script,
    /// A file of directives: lines that are not comments have no meaning.
    Directives,
}

/// Finds the directive lines of a text and tells what is wrong with the line structure.
pub(crate) fn directive_lines<'a>(text: &'a [u8], form: Form, report: &mut Report) -> Vec<DirectiveLine<'a>> {
    let mut reader = Reader { found: Vec::new(), open: None, first_command: None, carriage_return: false };
    let text = without_mark(text, report);
    for (index, physical) in text.split(|byte| *byte == b'\n').enumerate() {
        reader.line(index + 1, physical, form, report);
        if reader.found.len() > DIRECTIVES_MAX {
            break;
        }
    }
    reader.abandon(report);
    if reader.found.len() > DIRECTIVES_MAX {
        let last = reader.found.pop();
        let place = last.map_or(Place { line: 1, column: 1 }, |line| line.prefix_word.start());
        report.add(
            Code::TooMany,
            place,
            b"directives",
            format!("at most {DIRECTIVES_MAX}; from here on nothing is read"),
        );
    }
    reader.found
}

/// The text behind a byte order mark. With the mark neither the kernel nor a shell nor Slurm finds what the first line says:
/// a directive there would be a command that does not exist, and the job would run without its space.
fn without_mark<'a>(text: &'a [u8], report: &mut Report) -> &'a [u8] {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let Some(rest) = text.strip_prefix(MARK) else { return text };
    let (place, way) = (Place { line: 1, column: 1 }, "remove it: sed -i '1s/^\\xef\\xbb\\xbf//' does");
    report.suggest(Code::ByteOrderMark, place, b"\\u{feff}", "`#` as the first byte", way);
    rest
}

/// A directive that goes on in the next line.
struct Open<'a> {
    line: DirectiveLine<'a>,
    /// The `\` that says so.
    mark: Word<'a>,
    bytes: usize,
}

struct Reader<'a> {
    found: Vec<DirectiveLine<'a>>,
    open: Option<Open<'a>>,
    first_command: Option<usize>,
    carriage_return: bool,
}

impl<'a> Reader<'a> {
    fn line(&mut self, number: usize, written: &'a [u8], form: Form, report: &mut Report) {
        let physical = written.strip_suffix(b"\r").unwrap_or(written);
        match prefix_of(physical) {
            Some(prefix) => {
                if physical.len() < written.len() {
                    self.tell_carriage_return(number, written, report);
                }
                self.directive(number, physical, prefix, report);
            }
            None => {
                self.abandon(report);
                self.other(number, physical, form, report);
            }
        }
    }

    fn directive(&mut self, number: usize, physical: &'a [u8], prefix: Prefix, report: &mut Report) {
        let end = physical.len() - physical.iter().rev().take_while(|byte| is_blank(**byte)).count();
        let continued = physical[..end].ends_with(b"\\") && !physical[..end].ends_with(b"\\\\");
        let content_end = if continued { end - 1 } else { end };
        let prefix_word = Word::new(number, physical, 0, 3);
        let (mut line, bytes) = self.begin_or_go_on(prefix, prefix_word, report);
        let bytes = bytes + content_end;
        if bytes > LINE_BYTES_MAX && !line.broken {
            let expected = format!("at most {LINE_BYTES_MAX} bytes with its continuation lines");
            report.add(Code::LineTooLong, prefix_word.start(), prefix.text().as_bytes(), expected);
            line.broken = true;
        }
        if !line.broken {
            let content = Word::new(number, physical, 0, content_end);
            line.words.extend(words_before(number, physical, content.bytes.len()));
        }
        if !continued {
            return self.found.push(line);
        }
        let mark = Word::new(number, physical, end - 1, end);
        if end < physical.len() {
            report.suggest(
                Code::BlankAfterContinuation,
                mark.start(),
                b"\\",
                "the end of the line directly after it",
                "remove the blanks: Slurm does not take this as a continuation",
            );
        }
        self.open = Some(Open { line, mark, bytes });
    }

    /// The directive that a line with this prefix belongs to, and its bytes so far.
    fn begin_or_go_on(
        &mut self,
        prefix: Prefix,
        prefix_word: Word<'a>,
        report: &mut Report,
    ) -> (DirectiveLine<'a>, usize) {
        let Some(mut open) = self.open.take() else {
            let after_command = self.first_command;
            return (
                DirectiveLine { prefix, prefix_word, words: Vec::new(), broken: false, after_command },
                0,
            );
        };
        if open.line.prefix != prefix && !open.line.broken {
            let wanted = open.line.prefix.text();
            report.suggest(
                Code::MixedContinuation,
                prefix_word.start(),
                prefix_word.bytes,
                format!("{wanted}, as in the line that is continued"),
                format!("begin the line with `{wanted}`, or take the `\\` off the line above"),
            );
            open.line.broken = true;
        }
        (open.line, open.bytes)
    }

    /// Ends a continuation that has no next line.
    fn abandon(&mut self, report: &mut Report) {
        let Some(mut open) = self.open.take() else { return };
        let prefix = open.line.prefix.text();
        if !open.line.broken {
            report.suggest(
                Code::BrokenContinuation,
                open.mark.start(),
                b"\\",
                format!("a next line that begins with {prefix}"),
                format!("begin the next line with `{prefix} `, or take the `\\` off"),
            );
        }
        open.line.broken = true;
        self.found.push(open.line);
    }

    fn other(&mut self, number: usize, physical: &'a [u8], form: Form, report: &mut Report) {
        near_miss::tell(number, physical, report);
        if physical.is_empty() || physical[0] == b'#' {
            return;
        }
        let blank = physical.iter().all(|byte| is_blank(*byte));
        match form {
            // Slurm's scan ends at a line of blanks as well.
            Form::Script => self.first_command = self.first_command.or(Some(number)),
            Form::Directives if blank => {}
            Form::Directives => {
                let line = Word::new(number, physical, 0, physical.len());
                report.add(Code::IgnoredLine, line.start(), line.bytes, "#DW, #BB or a comment");
            }
        }
    }

    fn tell_carriage_return(&mut self, number: usize, written: &'a [u8], report: &mut Report) {
        if !std::mem::replace(&mut self.carriage_return, true) {
            let place = Word::new(number, written, written.len() - 1, written.len()).start();
            let expected = "lines that end with a line feed only";
            report.suggest(Code::CarriageReturn, place, b"\r", expected, "convert the script with dos2unix");
        }
    }
}

/// The words after the prefix and before byte `end`.
fn words_before(number: usize, physical: &[u8], end: usize) -> impl Iterator<Item = Word<'_>> {
    words(number, &physical[..end], 3.min(end))
}

/// The prefix of a directive line.
fn prefix_of(physical: &[u8]) -> Option<Prefix> {
    let prefix = match physical.get(..3)? {
        b"#DW" => Prefix::Dw,
        b"#BB" => Prefix::Bb,
        _ => return None,
    };
    physical.get(3).is_none_or(|byte| is_blank(*byte)).then_some(prefix)
}
