//! The texts that go to Slurm: one line, readable, and never taken for JSON.
//!
//! Slurm parses what `pools` and the `show_` verbs print, whatever the exit status, and slurmctld dies of JSON that is no
//! object: its parser takes `404 not found` for a number and `true` for a truth. A text from here begins with a word that
//! is none of those. Slurm shows about 1 KB of it in `scontrol show job` and squeue, as it stands. Pure.

/// Most characters of a text.
const TEXT_MAX: usize = 900;
/// Words that a JSON parser takes for a value, whatever follows.
const JSON_WORDS: [&str; 5] = ["true", "false", "null", "nan", "infinity"];
/// Put before a text that begins with anything but a word.
const PREFIX: &str = "error: ";

/// The text as a sentence for Slurm.
pub fn sentence(text: &str) -> String {
    let line = one_line(text);
    let line = if begins_with_word(&line) { line } else { format!("{PREFIX}{line}") };
    shortened(&line, TEXT_MAX)
}

/// The text in one line: control characters and runs of blanks become one blank, apostrophes become accents.
pub fn one_line(text: &str) -> String {
    let calm = text.chars().map(|c| match c {
        '\'' => '`',
        c if c.is_control() => ' ',
        c => c,
    });
    let calm: String = calm.collect();
    calm.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit - 3).chain("...".chars()).collect()
}

fn begins_with_word(text: &str) -> bool {
    let lower = text.get(..text.len().min(16)).unwrap_or(text).to_ascii_lowercase();
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !JSON_WORDS.iter().any(|word| lower.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_taken_for_json() {
        assert_eq!(sentence("404 not found"), "error: 404 not found");
        assert_eq!(sentence("true to the letter"), "error: true to the letter");
        assert_eq!(sentence("Infinity is far"), "error: Infinity is far");
        assert_eq!(sentence("\"7\" is bad"), "error: \"7\" is bad");
        assert_eq!(sentence("[]"), "error: []");
        assert_eq!(sentence(""), "error: ");
        assert_eq!(sentence("token not found: 7"), "token not found: 7");
    }

    #[test]
    fn it_is_one_line() {
        assert_eq!(sentence("a\nb\t  c\r\n"), "a b c");
        assert_eq!(sentence("don't"), "don`t");
        assert_eq!(sentence(&"x".repeat(5000)).len(), TEXT_MAX);
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_sentence(text in "\\PC{0,40}|.{0,2000}") {
            let sentence = sentence(&text);
            prop_assert!(sentence.starts_with(|c: char| c.is_ascii_alphabetic()));
            prop_assert!(!sentence.contains(['\n', '\r', '\'']));
            prop_assert!(sentence.chars().count() <= TEXT_MAX);
            let lower = sentence.to_lowercase();
            prop_assert!(!JSON_WORDS.iter().any(|word| lower.starts_with(word)));
        }
    }
}
