//! Laying out one table: every column as wide as its widest cell or title, one blank between columns, and a blank at
//! the end of each line.
//!
//! Invariant that parsers rely on: every cell is one word, so `awk` counts columns correctly.

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

/// The table as text, every line with its newline.
pub fn layout(columns: &[Column], rows: Vec<Vec<String>>) -> String {
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.into_iter().map(one_word).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([columns[column].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let titles = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(titles).chain(rows) {
        let row: Vec<String> = row;
        for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(columns) {
            match align {
                Align::Right => text.push_str(&format!("{cell:>width$} ")),
                Align::Left => text.push_str(&format!("{cell} ")),
            }
        }
        text.push('\n');
    }
    text
}

/// Blanks and control characters would tear the columns apart, and an empty cell would shift them.
fn one_word(cell: String) -> String {
    let bad = |c: char| c.is_whitespace() || c.is_control();
    match cell.as_str() {
        "" => "-".to_owned(),
        word if word.contains(bad) => word.replace(bad, "_"),
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let columns = [("id", Align::Right), ("label", Align::Right), ("path", Align::Left)];
        let rows = vec![
            vec!["100".to_owned(), "x".to_owned(), "/a".to_owned()],
            vec!["7".to_owned(), "longer".to_owned(), "/a b\n".to_owned()],
            vec!["8".to_owned(), String::new(), "/ü".to_owned()],
        ];
        let expected = " id  label path \n100      x /a \n  7 longer /a_b_ \n  8      - /ü \n";
        assert_eq!(layout(&columns, rows), expected);
    }
}
