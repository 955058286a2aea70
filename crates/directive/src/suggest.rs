//! "Did you mean": the known word nearest to a wrong one.

/// Longer words are not compared: nobody mistypes a short keyword as that, and the comparison is quadratic.
const WORD_BYTES_MAX: usize = 40;

/// The nearest of `known` in any case, if it is near enough to be meant: at most a third of its letters differ, or one begins
/// with the other.
pub(crate) fn nearest<'a>(wrong: &[u8], known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.is_empty() || wrong.len() > WORD_BYTES_MAX {
        return None;
    }
    let wrong = wrong.to_ascii_lowercase();
    let distances = known.into_iter().filter_map(|word| {
        let letters = word.to_ascii_lowercase();
        let begins = wrong.len() >= 3 && letters.as_bytes().starts_with(&wrong);
        let distance = if begins { 1 } else { distance(&wrong, letters.as_bytes()) };
        let limit = (word.len() / 3).max(1);
        (distance <= limit).then_some((distance, word))
    });
    distances.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// `did you mean ...?`
pub(crate) fn did_you_mean<'a>(wrong: &[u8], known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(wrong, known).map(|word| format!("did you mean `{word}`?"))
}

/// Letters to insert, delete, replace or swap with their neighbour to get from one word to the other.
pub(crate) fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_slips() {
        let table = [
            ("scratch", "scratch", 0),
            ("scrath", "scratch", 1),
            ("srcatch", "scratch", 1),
            ("", "abc", 3),
            ("striped", "private", 6),
        ];
        for (a, b, expected) in table {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["capacity", "access_mode", "type", "pfs"];
        assert_eq!(nearest(b"capcity", known), Some("capacity"));
        assert_eq!(nearest(b"CAPACITY", known), Some("capacity"));
        assert_eq!(nearest(b"access", known), Some("access_mode"));
        assert_eq!(nearest(b"tpye", known), Some("type"));
        assert_eq!(nearest(b"colour", known), None);
        assert_eq!(nearest(b"", known), None);
        assert_eq!(nearest(&[b'c'; 1_000_000], known), None);
    }
}
