//! Which of some names was probably meant.

/// The name nearest to `wanted` in edits, unless it is too far to be a slip. Letters of the other case count nothing.
pub fn nearest<'n>(wanted: &[u8], names: impl Iterator<Item = &'n [u8]>) -> Option<&'n [u8]> {
    let allowed = (wanted.len() / 3).clamp(1, 3);
    names
        .map(|name| (distance(wanted, name), name))
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// Levenshtein's distance over bytes.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let substituted = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let names: [&[u8]; 3] = [b"spectra", b"results.h5", b"Input"];
        assert_eq!(nearest(b"spcetra", names.into_iter()), Some(&b"spectra"[..]));
        assert_eq!(nearest(b"input", names.into_iter()), Some(&b"Input"[..]));
        assert_eq!(nearest(b"checkpoint", names.into_iter()), None);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
    }
}
