//! Laying out one table: every column as wide as its widest cell or title, one blank between columns, and a blank at
//! the end of each line.
//!
//! Invariant that parsers rely on: every cell is one word, so `awk` counts columns correctly.

use std::io::{self, Write};

/// Where a cell stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At the right, as everything usually is.
    Right,
    /// At the left and not filled up: for a last column of paths.
    Left,
}

/// A column's title and alignment.
pub type Column = (&'static str, Align);

/// A table that is being filled, cell by cell and row by row. All cells are in one text: a cluster has a hundred thousand rows, and a
/// text of its own for each cell would take longer than everything else.
pub struct Table {
    columns: &'static [Column],
    cells: String,
    /// How many bytes each cell has in `cells`. New memory is what costs most here, so it is not more.
    lengths: Vec<u32>,
    widths: Vec<usize>,
    /// The column that the next cell stands in.
    at: usize,
}

/// Blanks to fill cells up with.
const BLANKS: &[u8] = &[b' '; 64];
/// Lines are written in pieces of about this size: the whole table would be fresh memory, and that is slow.
const PIECE: usize = 64 << 10;
/// Decimal digits of the largest number.
const DIGITS_MAX: usize = 20;

impl Table {
    /// An empty table.
    pub fn new(columns: &'static [Column]) -> Table {
        let widths = columns.iter().map(|(title, _)| title.chars().count()).collect();
        Table { columns, cells: String::new(), lengths: Vec::new(), widths, at: 0 }
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// A cell with any text. Blanks and control characters would tear the columns apart, and an empty cell would shift them.
    pub fn text(&mut self, text: &str) {
        let bad = |c: char| c.is_whitespace() || c.is_control();
        let start = self.cells.len();
        match text {
            "" => self.cells.push('-'),
            word if word.bytes().all(|byte| byte.is_ascii_graphic()) => self.cells.push_str(word),
            other => self.cells.extend(other.chars().map(|c| if bad(c) { '_' } else { c })),
        }
        self.end(start);
    }

    /// A cell with a number.
    pub fn number(&mut self, number: u64) {
        let start = self.cells.len();
        let mut digits = [0; DIGITS_MAX];
        let (mut at, mut rest) = (DIGITS_MAX, number);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        // Digits are ASCII.
        self.cells.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
        self.end(start);
    }

    fn end(&mut self, start: usize) {
        let cell = &self.cells[start..];
        self.widths[self.at] = self.widths[self.at].max(width(cell));
        self.at = if self.at + 1 == self.columns.len() { 0 } else { self.at + 1 };
        // No cell comes near: what is shown was read in one answer.
        self.lengths.push(u32::try_from(cell.len()).unwrap_or(u32::MAX));
    }

    /// The table as text, every line with its newline.
    pub fn finish(&self) -> String {
        let mut text = Vec::new();
        // Memory takes everything, and cells are text.
        drop(self.write(&mut text));
        String::from_utf8(text).unwrap_or_default()
    }

    /// Writes that text.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut piece = Vec::with_capacity(PIECE + PIECE / 8);
        for (at, (title, _)) in self.columns.iter().enumerate() {
            self.put(&mut piece, at, title);
        }
        piece.push(b'\n');
        let mut start = 0;
        for row in self.lengths.chunks_exact(self.columns.len()) {
            for (at, length) in row.iter().enumerate() {
                let end = start + *length as usize;
                self.put(&mut piece, at, &self.cells[start..end]);
                start = end;
            }
            piece.push(b'\n');
            if piece.len() >= PIECE {
                out.write_all(&piece)?;
                piece.clear();
            }
        }
        out.write_all(&piece)
    }

    fn put(&self, text: &mut Vec<u8>, column: usize, cell: &str) {
        if self.columns[column].1 == Align::Right {
            let mut missing = self.widths[column] - width(cell);
            while missing > 0 {
                let blanks = missing.min(BLANKS.len());
                text.extend_from_slice(&BLANKS[..blanks]);
                missing -= blanks;
            }
        }
        text.extend_from_slice(cell.as_bytes());
        text.push(b' ');
    }
}

/// Characters of a cell.
fn width(cell: &str) -> usize {
    if cell.is_ascii() { cell.len() } else { cell.chars().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        static COLUMNS: [Column; 3] = [("id", Align::Right), ("label", Align::Right), ("path", Align::Left)];
        let mut table = Table::new(&COLUMNS);
        for (id, label, path) in [(100, "x", "/a"), (7, "longer", "/a b\n"), (8, "", "/ü")] {
            table.number(id);
            table.text(label);
            table.text(path);
        }
        let expected = " id  label path \n100      x /a \n  7 longer /a_b_ \n  8      - /ü \n";
        assert_eq!(table.finish(), expected);
    }
    #[test]
    fn numbers_and_wide_columns_are_as_the_standard_library_writes_them() {
        static COLUMNS: [Column; 2] = [("n", Align::Right), ("t", Align::Right)];
        let wide = "w".repeat(3 * BLANKS.len() + 1);
        for number in [0, 9, 10, 99, 100, 12_345, u64::MAX] {
            let mut table = Table::new(&COLUMNS);
            table.number(number);
            table.text("x");
            table.number(1);
            table.text(&wide);
            let (left, right) = (number.to_string().len(), wide.len());
            let expected =
                format!("{:>left$} {:>right$} \n{number} {:>right$} \n{:>left$} {wide} \n", "n", "t", "x", 1);
            assert_eq!(table.finish(), expected);
        }
    }
}
